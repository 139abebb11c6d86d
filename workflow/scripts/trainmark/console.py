"""Output on the terminal while a run trains. Everything else that a framework prints goes to the log."""

import errno
import io
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import TextIO

from trainmark.errors import in_workflow

LONG_SECONDS = 15.0
"""A job that waits or works longer than this without printing a line prints that it does."""

CONTROLS = re.compile(r"[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that control a terminal, end a line or stand for bytes that are not UTF-8. Any other can be printed."""

CLEAR_LINE = "\r\x1b[K"
"""Control characters that clear the current line of a terminal, which may contain a progress bar."""


class Terminal(io.TextIOBase):
    """A stream to the terminal. Errors in writing are ignored, so that no job fails because a window was closed.

    stream: None for a standard stream that was closed when Python was started (2>&-).
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream or open(os.devnull, "w")  # noqa: SIM115 (as long-lived as the other streams)

    def write(self, text: str) -> int:
        """See `TextIOBase.write`."""
        with self._ignoring_errors():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """See `TextIOBase.flush`."""
        with self._ignoring_errors():
            self._stream.flush()

    @contextmanager
    def _ignoring_errors(self) -> Iterator[None]:
        """Let what is left of a stream that nobody reads any more go nowhere: else Python 3.14 exits with 120."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.EIO):
                with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
                    os.dup2(nowhere.fileno(), self._stream.fileno())

    def close(self) -> None:
        """Do nothing: the wrapped stream is not this one's. Python calls it when this one is no longer used."""

    def write_at_once(self, text: str) -> None:
        """Write past the stream's buffer. This is for signal handlers, which may interrupt a `write`."""
        with suppress(OSError):
            os.write(self._stream.fileno(), text.encode())

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the wrapped stream."""
        return self._stream.fileno()  # tqdm reads the width of the terminal from it

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only here, writable in the base class
        """The encoding of the wrapped stream."""
        return self._stream.encoding


def print_line(text: str, stream: TextIO | Terminal) -> None:
    """Print a line in a single write, so that lines of jobs that share a terminal are not mixed.

    `print` writes the text and the line end separately if the stream is unbuffered. PYTHONUNBUFFERED, which container
    images often set, makes standard error unbuffered.
    """
    stream.write(f"{CLEAR_LINE if stream.isatty() else ''}{text}\n")
    stream.flush()


def redirect_output(log: Path | None) -> Terminal:
    """Redirect this process's standard output and error to `log`, and return a stream to the former standard error.

    The file descriptors themselves are redirected, because frameworks also print from C++. If `log` is None, nothing is
    redirected.
    """
    if log is None:
        return Terminal(sys.stderr)
    # Numbers from 3 on, because those of streams that were closed when Python was started (>&-) are free.
    terminal = Terminal(os.fdopen(fcntl(2, F_DUPFD_CLOEXEC, 3), "w", buffering=1) if sys.stderr else None)
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    if descriptor > 2:
        os.close(descriptor)
    sys.stdout, sys.stderr = (
        stream or os.fdopen(number, "w", buffering=1) for number, stream in ((1, sys.stdout), (2, sys.stderr))
    )
    return terminal


@contextmanager
def only_own_output() -> Iterator[TextIO]:
    """Yield a stream to standard output. All other output to it and to standard error is discarded.

    As in `redirect_output`, the file descriptors themselves are redirected. They are restored at the end. Bytes of file
    names that are not UTF-8 are written as they are.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    null_device = os.open(os.devnull, os.O_WRONLY)
    for number in saved:
        os.dup2(null_device, number)
    os.close(null_device)
    try:
        with os.fdopen(os.dup(saved[1]), "w", encoding="utf-8", errors="surrogateescape") as out:
            yield out
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, descriptor in saved.items():
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def say_when_long(
    text: str, stream: TextIO | Terminal | None = None, seconds: float = LONG_SECONDS, *, shows_bar: bool = False
) -> Iterator[None]:
    """Print a line when the body has taken this many seconds, and again after two, four, eight times as many.

    text: what the process waits for or works on. The line adds the duration.
    stream: the stream to print to; None means standard error.
    seconds: time before the first line.
    shows_bar: whether the body draws a progress bar. If so, nothing is printed on a terminal.
    """
    stream = stream or sys.stderr
    if shows_bar and stream.isatty():
        yield
        return
    done = threading.Event()

    def print_lines() -> None:
        start, wait_seconds = time.monotonic(), seconds
        while not done.wait(wait_seconds):
            wait_seconds = time.monotonic() - start
            print_line(f"{text}, for {in_words(wait_seconds)} now", stream)

    threading.Thread(target=print_lines, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def in_words(seconds: float) -> str:
    """Write a duration as "40 s", "12 min" or "3 h 20 min"."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


class _Copied(Terminal):
    """A stream that writes to a terminal and to a log."""

    def __init__(self, terminal: TextIO, log: TextIO) -> None:
        super().__init__(terminal)
        self._log = log

    def write(self, text: str) -> int:
        self._log.write(text)
        return super().write(text)

    def flush(self) -> None:
        self._log.flush()
        super().flush()


@contextmanager
def keep_log(log: Path) -> Iterator[None]:
    """Copy standard error to `log`, with the traceback of an exception that ends the body.

    After an exception in a workflow, the process exits with status 1 and prints nothing, because the workflow prints
    the last sentence of the log. The shell's `tee` is not used, because progress bars would take it for a file and not
    be drawn.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        open(log, "w", encoding="utf-8", errors="backslashreplace") as stream,
        redirect_stderr(_Copied(sys.stderr, stream)),
    ):
        try:
            yield
        except Exception:
            traceback.print_exc(file=stream)
            if in_workflow():
                sys.exit(1)
            raise
