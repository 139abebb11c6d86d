"""Errors that a person reads: one sentence that says what, where, what is allowed and what to do."""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOBase
from pathlib import Path

WORKFLOW_VARIABLE = "TRAINMARK_WORKFLOW_PID"
"""Environment variable in which a workflow leaves the id of its process to its jobs."""


def in_workflow() -> bool:
    """Whether a workflow started this process. The workflow then says how its job ended, and the job says nothing."""
    return WORKFLOW_VARIABLE in os.environ


class TrainmarkError(Exception):
    """Base of every error whose text is meant for the user; shown without a traceback."""


class ConfigError(TrainmarkError):
    """A config file or the dataset catalogue asks for something that is not allowed."""


class DataError(TrainmarkError):
    """A data file is missing, damaged or not what the catalogue says."""


class DeviceError(TrainmarkError):
    """The device that was asked for is not there."""


class PrecisionError(TrainmarkError):
    """A framework computes in a precision that is not the one it was asked for."""


class ShapeError(TrainmarkError):
    """A framework's layer gives, or holds, another shape than the architecture says. node: the layer's name."""

    def __init__(self, framework: str, node: str, found: str, expected: tuple[int, ...]) -> None:
        super().__init__(f"{framework}: the layer {node} {found}, and the architecture says {expected}")
        self.node = node


class BusyError(TrainmarkError):
    """Another workflow is at work in the directory."""


class MeasurementError(TrainmarkError):
    """A time would be measured wrongly."""


class RecordError(TrainmarkError):
    """A record does not fit its schema."""


class CertificateError(TrainmarkError):
    """A parity certificate, or a trace that one is made of, does not fit its schema."""


def run_command(main: Callable[[], None]) -> None:
    """Call a script's `main`; end with exit status 1 and one sentence when it raises a TrainmarkError.

    So does a full disk. Ctrl-C, and a reader of its output that has gone, end it without a word, with the status that
    shells give to them.
    """
    try:
        main()
    except TrainmarkError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the rest of what was printed goes
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(f"the disk is full{where}: {error.strerror}; make room, and run it again")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


@contextmanager
def failing_in_one_sentence(title: str, log: Path | None, terminal: TextIOBase) -> Iterator[None]:
    """End the process with a sentence on the terminal, and a traceback on standard error, where the body fails."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        message = str(error) if isinstance(error, TrainmarkError) else f"{type(error).__name__}: {error}"
        if not in_workflow():
            terminal.write(f"{title}: failed: {message}" + (f"; log: {log}\n" if log else "\n"))
        sys.exit(1)
