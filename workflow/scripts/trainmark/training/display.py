"""What a person sees of a run while it trains."""

from pathlib import Path

from tqdm import tqdm

from trainmark.console import Terminal, print_line
from trainmark.errors import in_workflow
from trainmark.plan.run import Run
from trainmark.records.sentences import format_loss, run_sentence


class RunDisplay:
    """A line at the start and at the end of a run, and between them a bar where the output is a terminal.

    A run of a workflow prints none of these: the workflow does (plan/display.py). Its log holds a line for each epoch.
    """

    def __init__(self, run: Run, order: dict | None, terminal: Terminal) -> None:
        self.terminal = terminal
        self._position = f"run {order['position']} of {order['of']}" if order else "run"
        self.title = (
            f"{self._position}: {run.recipe} on {run.dataset}, {run.framework}, {run.device}, repeat {run.repeat}"
        )
        self._epochs = run.epochs
        self._silent = in_workflow()
        self._bar: tqdm  # made by `start`

    def wait(self) -> None:
        """Note in the log that the run waits for what it is timed on; the workflow's bar shows it."""
        print("waiting for its device", flush=True)

    def start(self) -> None:
        """Say which run begins."""
        print("training", flush=True)
        epochs = f"{self._epochs} epoch{'s' if self._epochs > 1 else ''}"
        self._say(f"{self.title}: training {epochs}")
        self._bar = tqdm(
            total=self._epochs,
            desc=self._position,
            unit="epoch",
            file=self.terminal,
            disable=self._silent or None,
            dynamic_ncols=True,
            leave=False,
        )

    def went_on(self, epoch: int) -> None:
        """Say that an earlier process trained the epochs up to this one."""
        self._say(f"{self._position}: going on after epoch {epoch} of {self._epochs}")
        print(f"going on after epoch {epoch}", flush=True)
        self._bar.initial = self._bar.n = epoch
        self._bar.refresh()

    def epoch_done(self, entry: dict) -> None:
        """Show an epoch's entry of the curves; print it to the log as well."""
        loss, test = entry["batch_loss"], entry["evaluations"]["test"]
        print(f"epoch {entry['epoch']}: loss {loss}, test {test}, {entry['seconds']:.3f} s", flush=True)
        self._bar.set_postfix(loss=format_loss(loss), accuracy=format_loss(test["accuracy"]), refresh=False)
        self._bar.update()

    def finish(self, record: dict) -> None:
        """Say how the run ended."""
        self._bar.close()
        self._say(f"{self._position}: {run_sentence(record)}")

    def done_elsewhere(self) -> None:
        """Say that another process wrote the record while this one waited."""
        self._bar.close()
        text = f"{self._position}: done by an earlier process that was still at work"
        print(text, flush=True)
        self._say(text)

    def stopped(self, signal_name: str) -> None:
        """Say that a signal ends the run. Callable in the middle of another line: it goes past the stream."""
        text = f"\n{self.title}: stopped by {signal_name}; the next snakemake goes on after the last checkpoint\n"
        self.terminal.write_at_once(text)

    def fail(self, reason: str, log: Path | None) -> None:
        """Say that the run failed and where to read why."""
        where = f"; log: {log}" if log else ""
        self._say(f"{self.title}: failed: {reason}{where}")

    def _say(self, text: str) -> None:
        if not self._silent:
            print_line(text, self.terminal)
