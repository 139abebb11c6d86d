"""How the process of a run ends: with a record, with an error, or by a signal; and what is kept for the next one."""

import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import psutil

from trainmark.errors import WORKFLOW_VARIABLE, RecordError, TrainmarkError
from trainmark.records.record import read_record, write_record
from trainmark.training.display import RunDisplay

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
"""Signals by which a person, or a scheduler that needs the place for another job, stops a run."""


def has_workflow() -> bool:
    """Whether the workflow that WORKFLOW_VARIABLE names is among the processes that this one descends from.

    When it ends, whoever is left belongs to another process. False, too, without a workflow, and where a container
    hides the processes of its host.
    """
    return os.environ.get(WORKFLOW_VARIABLE) in {str(process.pid) for process in psutil.Process().parents()}


class ProcessExit:
    """The end of the process that trains the run of one record.

    record: the file to write. Beside it lie the run's checkpoints, in a folder of their own, and, where the workflow
    was gone when it was written, a copy: Snakemake takes no output of a workflow that was killed for finished, and the
    next one would train the run again.
    """

    def __init__(self, record: Path, log: Path | None, display: RunDisplay) -> None:
        self.checkpoint_folder = record.with_suffix(".checkpoint")
        self._record, self._kept, self._log, self._display = record, record.with_suffix(".kept.json"), log, display
        self._had_workflow = has_workflow()
        self._one_at_a_time = threading.Lock()
        self._written = threading.Event()

    def take_kept_record(self, is_of_this_run: Callable[[dict], bool]) -> bool:
        """Whether a process that outlived its workflow had finished this run: its record is then this one's."""
        if not self._kept.exists():
            return False
        try:
            kept = read_record(self._kept)
            taken = is_of_this_run(kept)
        except RecordError as error:
            print(f"{error}; it is left out", flush=True)
            taken = False
        if taken:
            write_record(kept, self._record)
        self._kept.unlink()
        return taken

    def done_elsewhere(self) -> NoReturn:
        """End after `take_kept_record` found the run done."""
        self._display.done_elsewhere()
        self._remove_checkpoints()
        _exit(0)

    def finish(self, record: dict) -> NoReturn:
        """Write the record, show it and end, from whichever thread comes first. RecordError where it does not fit."""
        with self._one_at_a_time:
            write_record(record, self._record)
            if self._had_workflow and not has_workflow():
                write_record(record, self._kept)
            self._written.set()
            self._display.finish(record)
            self._remove_checkpoints()
            _exit(0)

    def fail(self, error: Exception) -> NoReturn:
        """Exit status 1, one sentence on the terminal, the traceback in the log."""
        traceback.print_exception(error)
        message = str(error) if isinstance(error, TrainmarkError) else f"{type(error).__name__}: {error}"
        self._display.fail(message, self._log)
        _exit(1)

    def stop_on_signals(self) -> None:
        """On a signal of STOPPING say so and end at once: what is lost is what came after the last checkpoint.

        A signal that this process was started to ignore, as by nohup, stays ignored.
        """
        for number in (getattr(signal, name) for name in STOPPING):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._stop)

    def _stop(self, number: int, _: object) -> NoReturn:
        if self._written.is_set():  # there is nothing to lose, but by another status: Snakemake would remove the record
            os._exit(0)
        self._display.stopped(signal.Signals(number).name)
        os._exit(128 + number)

    def _remove_checkpoints(self) -> None:
        shutil.rmtree(self.checkpoint_folder, ignore_errors=True)


def _exit(status: int) -> NoReturn:
    """End without the frameworks' own tidying up: it takes part of a second that no record would hold."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
