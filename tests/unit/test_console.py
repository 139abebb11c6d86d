"""Streams: a terminal that may go away, lines in one write, the log."""

import io
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainmark import console
from trainmark.console import keep_log, print_line, say_when_long
from trainmark.errors import DataError


class Descriptor(io.RawIOBase):
    """What a stream without buffer writes to, as standard error under PYTHONUNBUFFERED: it keeps each write apart."""

    def __init__(self):
        self.writes = []

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.writes.append(bytes(data).decode())
        return len(data)


def test_a_line_and_its_end_are_one_write():
    """Else a line of another job comes between them: jobs share the terminal."""
    descriptor = Descriptor()
    unbuffered = io.TextIOWrapper(descriptor, encoding="utf-8", write_through=True)
    print_line("certify", unbuffered)
    assert descriptor.writes == ["certify\n"]


# --- the log ------------------------------------------------------------------------------------------------------

REDIRECT = """
import os, pathlib, sys
from trainmark.console import redirect_output
terminal = redirect_output(pathlib.Path(sys.argv[1]))
print("by print", flush=True)
os.write(1, b"by descriptor 1\\n")
os.write(2, b"by descriptor 2\\n")
print("for the person", file=terminal)
"""


TO_THE_LOG = "by print\nby descriptor 1\nby descriptor 2\n"
HERE = {"PYTHONPATH": str(Path(console.__file__).parents[1]), "PYTHONIOENCODING": "utf-8"}


def python(code: str, *arguments: str, closed: str = "") -> tuple[str, str]:
    """(output, errors) of a Python that runs code, perhaps without some streams."""
    command = shlex.join([sys.executable, "-c", code, *arguments])
    done = subprocess.run(
        f"{command} {closed}", shell=True, env=HERE, capture_output=True, encoding="utf-8", check=False
    )
    return done.stdout, done.stderr


def test_what_frameworks_print_goes_to_the_log_which_begins_anew(tmp_path):
    log = tmp_path / "deep" / "x.log"
    log.parent.mkdir()
    log.write_text("an older and much longer log\n" * 50)
    assert python(REDIRECT, str(log)) == ("", "for the person\n")
    assert log.read_text() == TO_THE_LOG


def test_the_log_takes_the_place_of_streams_that_were_closed(tmp_path):
    log = tmp_path / "x" / "x.log"
    python(f"{REDIRECT}sys.stdout.flush(), sys.stderr.write('by stream\\n')", str(log), closed="<&- >&- 2>&-")
    assert log.read_text() == f"{TO_THE_LOG}by stream\n"


def test_keep_log_copies_errors_and_adds_the_traceback(tmp_path, capsys):
    """Names that are no UTF-8 do not keep it from that."""
    log = tmp_path / "folder" / "log"
    with pytest.raises(DataError), keep_log(log):
        print("half way", file=sys.stderr)
        raise DataError("caf\udce9 holds no image")
    assert capsys.readouterr().err == "half way\n"
    assert log.read_text(encoding="utf-8").startswith("half way\nTraceback")
    assert log.read_text(encoding="utf-8").endswith("DataError: caf\\udce9 holds no image\n")


# --- a command that answers ---------------------------------------------------------------------------------------


def test_only_a_commands_own_output_is_seen():
    """What libraries print meanwhile, from C++ too, goes nowhere; errors after it are seen again."""
    code = (
        "import os, sys\n"
        "from trainmark.console import only_own_output\n"
        "print('before')\n"
        "with only_own_output() as out:\n"
        "    print('by print'); os.write(1, b'by descriptor 1'); os.write(2, b'by descriptor 2')\n"
        "    out.write('d\u00e9j\u00e0 vu\\n')\n"
        "    sys.stderr.write('by a library')\n"
        "print('after'); sys.exit('an error')\n"
    )
    assert python(code) == ("before\ndéjà vu\nafter\n", "an error\n")


@pytest.mark.parametrize(("seconds", "lines"), [(0.02, 3), (60, 0)])
def test_a_long_wait_is_said_again_and_again_and_for_how_long(seconds, lines):
    stream = io.StringIO()
    with say_when_long("waiting", stream, seconds):
        time.sleep(0.12)  # after .02, .04 and .08 s
    assert stream.getvalue() == "waiting, for 0 s now\n" * lines
