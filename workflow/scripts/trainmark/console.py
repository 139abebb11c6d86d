"""What a person sees while a run trains; everything else a framework prints goes to the log."""

import io
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import TextIO

from trainmark.errors import in_workflow

LONG_SECONDS = 15.0
"""A job that waits or works longer without a line says so."""

CLEAR_LINE = "\r\x1b[K"
"""Control characters that empty the line of a terminal, on which a progress bar may stand."""


class Terminal(io.TextIOBase):
    """A person's terminal, or what stands for it. It may go away, as a closed window does: no job fails for that."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """See `TextIOBase.write`."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """See `TextIOBase.flush`."""
        with suppress(OSError):
            self._stream.flush()

    def write_at_once(self, text: str) -> None:
        """Write past the stream's buffer: for a signal's handler, which may have come in the middle of a `write`."""
        with suppress(OSError):
            os.write(self._stream.fileno(), text.encode())

    def isatty(self) -> bool:
        """Whether a person watches."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Descriptor of the stream behind."""
        return self._stream.fileno()  # of which tqdm asks the width

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class cannot be given one
        """Of the stream behind."""
        return self._stream.encoding


def print_line(text: str, stream: TextIO | Terminal) -> None:
    """Print in one write: jobs share a terminal, and a stream without buffer gets `print`'s line and its end apart.

    PYTHONUNBUFFERED, which container images like to set, makes standard error such a stream. Lines of two jobs then ran
    into one.
    """
    stream.write(f"{CLEAR_LINE if stream.isatty() else ''}{text}\n")
    stream.flush()


def redirect_output(log: Path | None) -> Terminal:
    """Send this process's standard output and error to `log`, and return a stream to where errors went before.

    The file descriptors themselves are redirected, because frameworks print from C++ too. Without a log nothing moves.
    """
    if log is None:
        return Terminal(sys.stderr)
    terminal = Terminal(os.fdopen(os.dup(2), "w", buffering=1))
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return terminal


@contextmanager
def only_own_output() -> Iterator[TextIO]:
    """A stream to standard output; what anything else writes there or to standard error meanwhile goes nowhere.

    As in `redirect_output` the file descriptors themselves are redirected. They are put back at the end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in kept:
        os.dup2(nowhere, number)
    os.close(nowhere)
    try:
        with os.fdopen(os.dup(kept[1]), "w", encoding="utf-8") as out:
            yield out
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, descriptor in kept.items():
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def say_when_long(
    text: str, stream: TextIO | Terminal | None = None, seconds: float = LONG_SECONDS, *, shows_bar: bool = False
) -> Iterator[None]:
    """Print a line once the body has taken so many seconds, and again after twice, four times, eight times as many.

    text: who waits for what, or works on what; the line adds for how long.
    stream: standard error, where it is None.
    shows_bar: whether the body draws a progress bar; on a terminal nothing else is printed then.
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
    """A duration for people: "40 s", "12 min", "3 h 20 min"."""
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
    """Copy standard error to `log`, with the traceback of whatever ends the body.

    In a workflow the process then exits with status 1 and prints nothing: the workflow prints the log's last sentence.
    A shell's `tee` would do it too, but progress bars would take it for a file and fall silent on a terminal.
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
