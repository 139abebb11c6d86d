"""Show the progress of a run while it trains."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from trainmark.console import Terminal, in_words, print_line
from trainmark.errors import in_workflow
from trainmark.plan.run import Run, group_title
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.sentences import format_loss, run_sentence

if TYPE_CHECKING:  # it brings numpy, which reads its number of threads when it is imported
    from trainmark.training.pace import Pace


class RunDisplay:
    """Prints a line at the start and at the end of a run and, on a terminal, a progress bar in between.

    In a workflow it prints none of these, because the workflow shows the progress (session/display.py). The log always
    contains a line for each epoch.

    order: position of the run in its workflow; None if there is no workflow.
    """

    def __init__(self, run: Run, order: dict | None, terminal: Terminal) -> None:
        self.terminal = terminal
        self._position = f"run {order['position']} of {order['of']}" if order else "run"
        self._is_command = run.trainer.framework == FRAMEWORK
        trainer = run.trainer.device if self._is_command else run.trainer.name
        self.title = f"{self._position}: {group_title(run.recipe, run.dataset)}, {trainer}, repeat {run.repeat}"
        self._epochs = run.epochs
        self._silent = in_workflow()
        self._bar: tqdm  # made by `start`

    def silence(self) -> None:
        """Print nothing on the terminal from now on."""
        self._silent = True

    def wait(self) -> None:
        """Write to the log that the run waits for its device. The bar of the workflow shows this."""
        print("waiting for its device", flush=True)

    def start(self) -> None:
        """Print that the run starts, and start the bar."""
        print("training", flush=True)
        epochs = f"{self._epochs} epoch{'s' if self._epochs > 1 else ''}"
        self._say(f"{self.title}: training {epochs}")
        tqdm.set_lock(threading.RLock())  # for its own, one between processes, Python 3.14 starts another process
        self._bar = tqdm(
            total=self._epochs,
            desc=self._position,
            unit="epoch",
            file=self.terminal,
            disable=self._silent or None,
            dynamic_ncols=True,
            leave=False,
        )

    def went_on(self, epoch: int, step: int = 0) -> None:
        """Print that an earlier process has trained the epochs up to this one, and some steps of the next."""
        where = f"step {step} of epoch {epoch + 1}" if step else f"epoch {epoch}"
        self._say(f"{self._position}: going on after {where} of {self._epochs}")
        print(f"going on after {where}", flush=True)
        self._bar.initial = self._bar.n = epoch
        self._bar.refresh()

    def steps_done(self, pace: "Pace") -> None:
        """Show how far the current epoch is, on the bar and in the log."""
        left = f"{in_words(pace.remaining_seconds)} left"
        speed = f"{pace.images_per_second:.3g} images/s"
        print(f"epoch {pace.epoch}: step {pace.step} of {pace.steps}, {speed}, {left}", flush=True)
        self._bar.n = pace.epoch - 1 + pace.step / pace.steps
        self._bar.set_postfix_str(f"{speed}, {left}")

    def epoch_done(self, entry: dict) -> None:
        """Show an epoch on the bar and print it to the log. entry: the epoch's entry in the curves."""
        loss, test = entry["batch_loss"], entry["evaluations"]["test"]
        print(f"epoch {entry['epoch']}: loss {loss}, test {test}, {entry['seconds']:.3f} s", flush=True)
        self._bar.set_postfix(loss=format_loss(loss), accuracy=format_loss(test["accuracy"]), refresh=False)
        self._bar.update(entry["epoch"] - self._bar.n)

    def finish(self, record: dict) -> None:
        """Print how the run ended."""
        self._bar.close()
        self._say(f"{self._position}: {run_sentence(record)}")

    def done_elsewhere(self) -> None:
        """Print that another process wrote the record while this one waited."""
        self._bar.close()
        text = f"{self._position}: done by an earlier process that was still at work"
        print(text, flush=True)
        self._say(text)

    def stopped(self, signal_name: str) -> None:
        """Print that a signal ends the run. It writes past the stream's buffer, because it may interrupt a print."""
        goes_on = "starts it again" if self._is_command else "goes on after the last checkpoint"
        text = f"\n{self.title}: stopped by {signal_name}; the next snakemake {goes_on}\n"
        self.terminal.write_at_once(text)

    def fail(self, reason: str, log: Path | None) -> None:
        """Print that the run failed, why, and where its log is."""
        where = f"; log: {log}" if log else ""
        self._say(f"{self.title}: failed: {reason}{where}")

    def _say(self, text: str) -> None:
        if not self._silent:
            print_line(text, self.terminal)
