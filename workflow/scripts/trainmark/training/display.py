"""What a person sees of a run while it trains."""

from contextlib import AbstractContextManager
from pathlib import Path

from tqdm import tqdm

from trainmark.console import Terminal, print_line, said_when_long
from trainmark.machine.disturbance import cause_in_words
from trainmark.plan.run import Run

WAITING_SECONDS = 60.0
"""A run that waits longer for its device says so."""


class RunDisplay:
    """A line at the start and at the end of a run, and between them a bar where the output is a terminal."""

    def __init__(self, run: Run, order: dict | None, terminal: Terminal) -> None:
        self._terminal = terminal
        self._place = f"run {order['position']} of {order['of']}" if order else "run"
        self._title = (
            f"{self._place}: {run.recipe} on {run.dataset}, {run.framework}, {run.device}, repeat {run.repeat}"
        )
        self._epochs = run.epochs
        self._bar: tqdm  # made by `start`

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
        causes = [cause_in_words(cause) for cause in (record["disturbed"] or {"causes": []})["causes"]]
        disturbed = f"; disturbed: {' and '.join(causes)}" if causes else ""
        print_line(f"{self._place}: {_outcome(record)}{trained}{disturbed}", self._terminal)

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
