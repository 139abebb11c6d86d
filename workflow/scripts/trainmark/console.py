"""What a person sees while a run trains; everything else a framework prints goes to the log."""

import io
import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from trainmark.run import Run

WAITING_SECONDS = 60.0
"""A run that waits longer for its device says so."""


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
    def encoding(self) -> str:
        """Of the stream behind."""
        return self._stream.encoding


def print_line(text: str, stream: TextIO) -> None:
    """Print in one write: jobs share a terminal, and a stream without buffer gets `print`'s line and its end apart.

    PYTHONUNBUFFERED, which container images like to set, makes standard error such a stream. Lines of two jobs then ran
    into one.
    """
    stream.write(f"{text}\n")
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
def said_when_long(text: str, stream: TextIO, seconds: float) -> Iterator[None]:
    """Print a line to `stream` once the body has taken so many seconds."""
    timer = threading.Timer(seconds, print_line, (text, stream))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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
            raise


def place_in_order(run: Run, plan: Path | None) -> dict | None:
    """Where a run stands in the order of its workflow, as the record keeps it; None where no plan lists it."""
    ids = _planned_order(plan) if plan else []
    return {"place": ids.index(run.id) + 1, "of": len(ids)} if run.id in ids else None


def _planned_order(plan: Path) -> list:
    """The list in the plan; empty where the file holds anything else: a title is no reason for a run to fail."""
    try:
        content = json.loads(plan.read_text())
    except (OSError, ValueError):
        return []
    ids = content.get("order") if isinstance(content, dict) else None
    return ids if isinstance(ids, list) else []


class RunDisplay:
    """A line at the start and at the end of a run, and between them a bar where the output is a terminal."""

    def __init__(self, run: Run, order: dict | None, terminal: Terminal) -> None:
        self._terminal = terminal
        self._place = f"run {order['place']} of {order['of']}" if order else "run"
        self._title = (
            f"{self._place}: {run.recipe} on {run.dataset}, {run.framework}, {run.device}, repeat {run.repeat}"
        )
        self._epochs = run.epochs
        self._bar: tqdm | None = None

    def waiting(self) -> AbstractContextManager[None]:
        """Say, if the body takes long, that others hold what the run needs."""
        text = f"{self._title}: waiting for its CPUs or its GPU, which other runs hold"
        return said_when_long(text, self._terminal, WAITING_SECONDS)

    def start(self) -> None:
        """Say which run begins."""
        epochs = f"{self._epochs} epoch{'s' if self._epochs > 1 else ''}"
        print_line(f"{self._title}: training {epochs}", self._terminal)
        self._bar = tqdm(
            total=self._epochs,
            desc=self._place,
            unit="epoch",
            file=self._terminal,
            disable=None,
            dynamic_ncols=True,
            leave=False,
        )

    def went_on(self, epoch: int) -> None:
        """Say that an earlier process trained the epochs up to this one."""
        print_line(f"{self._place}: going on after epoch {epoch} of {self._epochs}", self._terminal)
        print(f"going on after epoch {epoch}", flush=True)
        self._bar.initial = self._bar.n = epoch
        self._bar.refresh()

    def epoch_done(self, entry: dict) -> None:
        """Show an epoch's entry of the curves; print it to the log as well."""
        loss, test = entry["batch_loss"], entry["evaluations"]["test"]
        print(f"epoch {entry['epoch']}: loss {loss}, test {test}, {entry['seconds']:.3f} s", flush=True)
        self._bar.set_postfix(loss=_short(loss), accuracy=_short(test["accuracy"]), refresh=False)
        self._bar.update()

    def finish(self, record: dict) -> None:
        """Say how the run ended."""
        self._bar.close()
        seconds = record["result"]["training_seconds"]
        trained = "" if seconds is None else f", {seconds:.2f} s of training"
        print_line(f"{self._place}: {_outcome(record)}{trained}", self._terminal)

    def done_elsewhere(self) -> None:
        """Say that another process wrote the record while this one waited."""
        self._bar.close()
        print_line(f"{self._place}: done by an earlier process that was still at work", self._terminal)

    def stopped(self, signal_name: str) -> None:
        """Say that a signal ends the run. Callable in the middle of another line: it goes past the stream."""
        text = f"\n{self._title}: stopped by {signal_name}; the next snakemake goes on after the last checkpoint\n"
        self._terminal.write_at_once(text)

    def fail(self, reason: str, log: Path | None) -> None:
        """Say that the run failed and where to read why."""
        where = f"; log: {log}" if log else ""
        print_line(f"{self._title}: failed: {reason}{where}", self._terminal)


def _outcome(record: dict) -> str:
    """How a run ended, in words."""
    result, diverged, exceeded = record["result"], record["diverged"], record["out_of_memory"]
    if diverged:
        return f"diverged: loss is {diverged['kind']} at step {diverged['step']}, epoch {diverged['epoch']}"
    if exceeded:
        when = f"epoch {exceeded['epoch']}" if exceeded["epoch"] else exceeded["phase"].replace("_", " ")
        return f"out of memory in {when}: {exceeded['message']}"
    return f"done, test loss {_short(result['test_loss'])}, test accuracy {_short(result['test_accuracy'])}"


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.4f}" if abs(value) < 1e5 else f"{value:.4g}"
