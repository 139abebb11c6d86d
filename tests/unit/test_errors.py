"""A TrainmarkError ends a script with status 1 and one sentence; anything else is a bug and keeps its traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from trainmark import errors
from trainmark.errors import ConfigError, run_command


def raising(error):
    def main():
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConfigError("the key x is missing"), "ConfigError: the key x is missing"),
        (
            OSError(28, "Full", "a"),
            "FileError: a can't be used (Full); make room there (df -h), also for more files (df -i)",
        ),
        (OSError(12, "None left"), "FileError: the system refuses (None left); free memory, or ask for more of it"),
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
