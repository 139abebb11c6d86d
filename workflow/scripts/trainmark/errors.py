"""Errors that a person reads: one sentence that says what, where, what is allowed and what to do."""

import errno
import signal
import sys
from collections.abc import Callable


class TrainmarkError(Exception):
    """Base of every error whose text is meant for the user; shown without a traceback."""


class ConfigError(TrainmarkError):
    """A config file or the dataset catalogue asks for something that is not allowed."""


class DataError(TrainmarkError):
    """A data file is missing, damaged or not what the catalogue says."""


class DeviceError(TrainmarkError):
    """The device that was asked for is not there."""


class BusyError(TrainmarkError):
    """Another workflow is at work in the directory."""


class MeasurementError(TrainmarkError):
    """A time would be measured wrongly."""


class RecordError(TrainmarkError):
    """A record does not fit its schema."""


def run_command(main: Callable[[], None]) -> None:
    """Call a script's `main`; end with exit status 1 and one sentence when it raises a TrainmarkError.

    So does a full disk. Ctrl-C ends it without a word, with the status that shells give to it.
    """
    try:
        main()
    except TrainmarkError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(f"the disk is full{where}: {error.strerror}; make room, and run it again")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
