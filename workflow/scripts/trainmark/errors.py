"""Errors for the user. Each is one sentence that says what is wrong, where, what is allowed and what to do."""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import wraps
from io import TextIOBase
from pathlib import Path
from typing import Any, NoReturn

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


class FileError(TrainmarkError):
    """The system does not let a file be read or written."""


class DeviceError(TrainmarkError):
    """The requested device is not available."""


class RemoteError(TrainmarkError):
    """The remote machine can't be reached, or does not do what it is asked.

    is_lost: whether a connection was lost that may be there again soon.
    """

    def __init__(self, sentence: str, *, is_lost: bool = False) -> None:
        super().__init__(sentence)
        self.is_lost = is_lost


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


ADVICE = {
    errno.ENOSPC: "make room there (df -h), also for more files (df -i)",
    errno.EDQUOT: "make room within your quota, or ask for a larger one",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f), or work on a file system that allows larger files",
    errno.EROFS: "mount it for writing, or work in another folder",
    errno.EACCES: "let this user into it and into the folders above it (chmod, chown)",
    errno.EPERM: "let its owner allow that (chown, chattr -i)",
    errno.EIO: "look into dmesg, since the disk or the network drive fails",
    errno.EAGAIN: "try again, or raise the limit of processes (ulimit -u)",
    errno.ETIMEDOUT: "try again, since the server or the network drive does not answer",
    errno.ESTALE: "try again, since the server of the network drive has replaced it",
    errno.ENOTCONN: "mount the network drive again",
    errno.EBADF: "let it lie on another file system, such as a local disk",
    errno.ENOLCK: "let it lie on a file system with locks, such as a local disk",
    errno.ENOSYS: "let it lie on a file system that can do that, such as a local disk",
    errno.EOPNOTSUPP: "let it lie on a file system that can do that, such as a local disk",
    errno.ENODEV: "let it lie on a file system that can map files into memory, such as a local disk",
    errno.ENAMETOOLONG: "shorten its name",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close files of other programs, since the system has too many open",
    errno.ENOMEM: "free memory, or ask for more of it",
    errno.ELOOP: "remove links that lead to each other",
    errno.ETXTBSY: "wait until nobody writes to it",
    errno.E2BIG: "shorten the command line, or the environment variables",
}
"""What to do about an error of the system, by its number: an error that says nothing about the content of a file."""


def why(error: OSError, otherwise: str = "") -> str:
    """Return what the system says of an error, and what to do: "(Permission denied); let this user ...".

    otherwise: what to do about an error that is not in ADVICE, such as that of a missing file.
    """
    advice = ADVICE.get(error.errno or 0, otherwise)
    return f"({error.strerror or error})" + (f"; {advice}" if advice else "")


def did_you_mean(value: object, names: Iterable[str], also_called: Mapping[str, str] | None = None) -> str:
    """Return a hint with the known name that a text probably means ("; did you mean gpu?"), or an empty text.

    also_called: names by what else they are called, in lower case.
    """
    known, text = {str(name).lower(): name for name in names}, str(value).lower()
    meant = (also_called or {}).get(text, text).lower()
    near = [meant] if meant in known else get_close_matches(text, known, n=1)
    return f"; did you mean {known[near[0]]}?" if near and known[near[0]] != value else ""


def why_not_made(cls: Any, given: Collection[str]) -> str | None:
    """Return why a dataclass can't be made of arguments of these names; None if it can."""
    known = {field.name: field for field in fields(cls)}
    if unknown := [name for name in given if name not in known]:
        hint = did_you_mean(unknown[0], known)
        return f"{cls.__name__} has no {unknown[0]}; allowed: {', '.join(known)}{hint}"
    needed = (name for name, field in known.items() if field.default is field.default_factory is MISSING)
    missing = [name for name in needed if name not in given]
    return f"{cls.__name__} lacks {' and '.join(missing)}" if missing else None


def expect_damage(error: Exception, path: Path, error_class: type[TrainmarkError] = DataError) -> None:
    """Raise an error of this class if what happened while a file was read is the system's, and no damage of the file.

    error: what happened. Damage has an error of another type, or one without a number (gzip, bz2).
    """
    if isinstance(error, OSError) and error.errno in ADVICE:
        raise error_class(f"{error.filename or path} can't be read {why(error)}") from error


def run_command(main: Callable[[], None]) -> None:
    """Call a script's `main`. After a TrainmarkError, or an error in ADVICE, print one sentence and exit with status 1.

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
        if error.errno not in ADVICE:
            raise
        sys.exit(f"FileError: {in_one_sentence(error)}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def refusing(function: Callable) -> Callable:
    """Make a function end the call with the sentence of a TrainmarkError or an error in ADVICE, without a traceback.

    Snakemake would print lines of a traceback after a WorkflowError.
    """

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (TrainmarkError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in ADVICE:
                raise
            heading = "the config can't be used:\n" if isinstance(error, ConfigError) else ""
            sys.exit(f"{heading}{in_one_sentence(error)}")

    return call


def in_one_sentence(error: BaseException) -> str:
    """Return the message of an error; if it is neither one of ours nor in ADVICE, after the name of its class."""
    if isinstance(error, OSError) and error.errno in ADVICE:
        return f"{error.filename} can't be used {why(error)}" if error.filename else f"the system refuses {why(error)}"
    if isinstance(error, TrainmarkError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def print_traceback(error: Exception) -> None:
    """Print the traceback of an error on standard error, and behind it the sentence of one in ADVICE."""
    traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno in ADVICE:
        print(f"\nFileError: {in_one_sentence(error)}", file=sys.stderr)


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
        print_traceback(error)
        if not in_workflow():
            terminal.write(f"{title}: failed: {in_one_sentence(error)}" + (f"; log: {log}\n" if log else "\n"))
        leave(1)
