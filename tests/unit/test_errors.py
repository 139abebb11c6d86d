"""A TrainmarkError ends a script with status 1 and one sentence; anything else is a bug and keeps its traceback."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark import errors
from trainmark.errors import ConfigError, DataError, DeviceError, RecordError, TrainmarkError, run_command


@pytest.mark.parametrize("kind", [TrainmarkError, ConfigError, DataError, DeviceError, RecordError])
def test_a_sentence_and_status_1(kind):
    def main():
        raise kind("the file x is missing")

    with pytest.raises(SystemExit) as caught:
        run_command(main)
    assert caught.value.code == f"{kind.__name__}: the file x is missing"


def test_a_command_that_works():
    called = []
    assert run_command(lambda: called.append(1)) is None
    assert called == [1]


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), OSError("x")])
def test_any_other_error_is_left_alone(error):
    def main():
        raise error

    with pytest.raises(type(error)) as caught:
        run_command(main)
    assert caught.value is error


@pytest.mark.parametrize(("name", "where"), [("a/b.json", " (a/b.json)"), (None, "")])
def test_a_full_disk_is_one_sentence(name, where):
    def main():
        raise OSError(errno.ENOSPC, "No space left on device", name)

    with pytest.raises(SystemExit) as caught:
        run_command(main)
    assert caught.value.code == f"the disk is full{where}: No space left on device; make room, and run it again"


def test_ctrl_c_ends_a_command_without_a_word():
    code = (
        "import os, signal\nfrom trainmark.errors import *\n"
        "run_command(lambda: os.kill(os.getpid(), signal.SIGINT))\nprint('not reached')"
    )
    folder = str(Path(errors.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": folder}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_reader_that_has_gone_ends_a_command_without_a_word():
    code = (
        "import sys\nfrom trainmark.errors import *\n"
        "def main():\n    while True: print('y' * 1000, flush=True)\n"
        "run_command(main)"
    )
    folder = str(Path(errors.__file__).parents[1])
    command = f'set -o pipefail; {sys.executable} -c "{code}" | head -c 10'
    done = subprocess.run(["bash", "-c", command], env={"PYTHONPATH": folder}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (141, "y" * 10, "")


def test_what_a_person_sees():
    code = (
        "from trainmark.errors import *\n"
        "def main():\n    raise DataError('the file x is missing')\n"
        "run_command(main)\nprint('not reached')"
    )
    folder = str(Path(errors.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": folder}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "DataError: the file x is missing\n")


def test_every_error_of_the_library_is_a_trainmark_error():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    assert {ConfigError, DataError, DeviceError, RecordError} <= set(kinds)
    assert all(issubclass(kind, TrainmarkError) and kind.__doc__ for kind in kinds)
