"""Errors for the user. Each is one sentence that says what is wrong, where, what is allowed and what to do."""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOBase
from pathlib import Path
from typing import NoReturn

WORKFLOW_VARIABLE = "TRAINMARK_WORKFLOW_PID"
"""Environment variable through which a workflow passes its process id to its jobs."""


CLUSTER_VARIABLE = "TRAINMARK_CLUSTER_JOB"
"""Environment variable with the name of the job, in a job of a cluster profile."""


IMAGE_VARIABLE = "TRAINMARK_IMAGE_"
"""Beginning of environment variables with the address of an image. Then follows the name of the image's file."""


def in_workflow() -> bool:
    """Return whether a workflow started this process. In that case the workflow prints how the job ended."""
    return WORKFLOW_VARIABLE in os.environ


class TrainmarkError(Exception):
    """Base class of errors whose message is meant for the user. They are shown without a traceback."""


class ConfigError(TrainmarkError):
    """A config file or the dataset catalogue asks for something that is not allowed."""


class DataError(TrainmarkError):
    """A data file is missing, damaged or differs from its catalogue entry."""


class DeviceError(TrainmarkError):
    """The requested device is not available."""


class HangError(TrainmarkError):
    """A program did not end within its time limit."""


class RankError(TrainmarkError):
    """One of the ranks of a run failed, and with it the run. Its cause is what the rank raised."""


class LostRankError(TrainmarkError):
    """Another rank of the run has ended. What it said is the reason for which the run fails."""


class LoaderError(TrainmarkError):
    """A process that loads images while a network trains has died, or cannot be started."""


class PrecisionError(TrainmarkError):
    """A framework computes in another precision than the requested one."""


class ShapeError(TrainmarkError):
    """The output or a weight of a framework's layer has another shape than the architecture says.

    node: the layer's name.
    """

    def __init__(self, framework: str, node: str, found: str, expected: tuple[int, ...]) -> None:
        super().__init__(f"{framework}: the layer {node} {found}, and the architecture says {expected}")
        self.node = node


class UnobservedError(TrainmarkError):
    """An adapter does not show what a comparison needs."""


class DeploymentError(TrainmarkError):
    """The software of a job can't be provided: an environment has no image, or none that is fixed."""


class BusyError(TrainmarkError):
    """Another workflow is running in the directory."""


class ClusterError(TrainmarkError):
    """A job can't be submitted to a cluster, or ended there before it was done."""


class SilentError(ClusterError):
    """The scheduler does not answer."""


class CommandError(TrainmarkError):
    """The command of a command recipe failed, or what it reports can't be read."""


class MeasurementError(TrainmarkError):
    """A time cannot be measured correctly."""


class RecordError(TrainmarkError):
    """A record does not fit its schema."""


class CertificateError(TrainmarkError):
    """A parity certificate, or a trace from which one is made, does not fit its schema."""


class ClaimError(TrainmarkError):
    """The results do not bear a claim of the config out."""


def run_command(main: Callable[[], None]) -> None:
    """Call a script's `main`. After a TrainmarkError or on a full disk, print one sentence and exit with status 1.

    After Ctrl-C, or when the reader of the output has exited, print nothing and exit with the status that a shell
    reports for the signal (128 + SIGINT or SIGPIPE).
    """
    try:
        main()
    except TrainmarkError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards the rest of the output
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" ({error.filename})" if error.filename else ""
        sys.exit(f"the disk is full{where}: {error.strerror}; make room, and run it again")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def in_one_sentence(error: Exception) -> str:
    """Return the message of an error; if it is not one of ours, after the name of its class."""
    return str(error) if isinstance(error, TrainmarkError) else f"{type(error).__name__}: {error}"


def exit_at_once(status: int) -> NoReturn:
    """Exit without clean-up: that of the frameworks takes time, or waits for other ranks, which wait for this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


@contextmanager
def failing_in_one_sentence(
    title: str, log: Path | None, terminal: TextIOBase, leave: Callable[[int], object] = sys.exit
) -> Iterator[None]:
    """If the body fails, print one sentence on the terminal and the traceback on standard error, and exit with 1.

    In a workflow the sentence is not printed, because the workflow prints it.

    title: what the process does; the sentence begins with it.
    log: the log that the sentence names.
    leave: exits with a status.
    """
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        if not in_workflow():
            terminal.write(f"{title}: failed: {in_one_sentence(error)}" + (f"; log: {log}\n" if log else "\n"))
        leave(1)
