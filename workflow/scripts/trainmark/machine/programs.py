"""Runs other programs for their output, within a time limit."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import shorten

from trainmark.errors import HangError

SECONDS = 120
"""The time limit of a program: much longer than any of them takes on a slow machine."""


def run_program(
    words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without standard input, and return its exit status and what it printed, as `read_program` does."""
    done = read_program(words, cwd=cwd, env=env)
    printed, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(words, done.returncode, printed, errors)


def read_program(
    words: Sequence[str], given: bytes = b"", *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a program, and return its exit status and what it printed. given: all of its standard input.

    Raises HangError after SECONDS, and OSError if it can't be started. It and all that it started are killed then, and
    when this process is interrupted.
    """
    # Files, not pipes: these end with the last child of the program, which may be one that it left behind.
    with TemporaryFile() as asked, TemporaryFile() as printed, TemporaryFile() as errors:
        asked.write(given)
        asked.seek(0)
        process = subprocess.Popen(words, cwd=cwd, env=env, stdin=asked, stdout=printed, stderr=errors)
        try:
            process.wait(timeout=SECONDS)
        except BaseException as error:
            _kill(process.pid)
            with suppress(subprocess.TimeoutExpired):  # it waits for a disk, or became another user
                process.wait(timeout=5)
            if isinstance(error, subprocess.TimeoutExpired):
                command = shorten(" ".join(words), 100, placeholder=" ...")
                raise HangError(
                    f"`{command}` has not answered in {SECONDS} seconds and was ended; call it by hand to see what it "
                    "waits for"
                ) from error
            raise
        for stream in (printed, errors):
            stream.seek(0)
        return subprocess.CompletedProcess(words, process.returncode, printed.read(), errors.read())


def _kill(process_id: int) -> None:
    """Kill a process and all that it started and that still is below it: on Linux, whose /proc lists them."""
    children: list[str] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{process_id}/task").iterdir():
            children += (thread / "children").read_text().split()
    with suppress(OSError):  # it has ended, or became another user
        os.kill(process_id, signal.SIGKILL)
    for child in children:
        _kill(int(child))
