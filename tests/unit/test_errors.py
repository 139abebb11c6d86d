"""A TrainmarkError ends a script with status 1 and one sentence; anything else is a bug and keeps its traceback."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark import errors
from trainmark.errors import ConfigError, DataError, DeviceError, RecordError, TrainmarkError, run_command


def raising(error):
    def main():
        raise error

    return main


def full_disk(name):
    return OSError(errno.ENOSPC, "No space left on device", name)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        *(
            (kind("the file x is missing"), f"{kind.__name__}: the file x is missing")
            for kind in (DataError, ConfigError)
        ),
        (full_disk("a/b.json"), "the disk is full (a/b.json): No space left on device; make room, and run it again"),
        (full_disk(None), "the disk is full: No space left on device; make room, and run it again"),
    ],
)
def test_a_sentence_and_status_1(error, sentence):
    with pytest.raises(SystemExit) as caught:
        run_command(raising(error))
    assert caught.value.code == sentence


def test_a_command_that_works_and_any_other_error_are_left_alone():
    called = []
    assert run_command(lambda: called.append(1)) is None
    assert called == [1]
    for error in (ValueError("x"), OSError("x")):
        with pytest.raises(type(error)) as caught:
            run_command(raising(error))
        assert caught.value is error


@pytest.mark.parametrize(
    ("body", "reader", "ended"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", "cat", (130, "", "")),
        ("while True: print('y' * 1000, flush=True)", "head -c 10", (141, "y" * 10, "")),
        ("raise DataError('the file x is missing')", "cat", (1, "", "DataError: the file x is missing\n")),
    ],
    ids=["Ctrl-C", "a reader that has gone", "an error"],
)
def test_what_a_person_sees(body, reader, ended):
    """Status, output and errors of a command."""
    code = f"import os, signal\nfrom trainmark.errors import *\ndef main():\n    {body}\nrun_command(main)\nprint(0)"
    command = ["bash", "-c", f'set -o pipefail; "$0" -c "$1" | {reader}', sys.executable, code]
    folder = str(Path(errors.__file__).parents[1])
    done = subprocess.run(command, env={"PYTHONPATH": folder}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == ended


def test_every_error_of_the_library_is_a_trainmark_error():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    assert {ConfigError, DataError, DeviceError, RecordError} <= set(kinds)
    assert all(issubclass(kind, TrainmarkError) and kind.__doc__ for kind in kinds)
