"""How the process of a run ends (with a record, an error or a signal), and what it leaves for the next process."""

import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import psutil

from trainmark.errors import (
    CLUSTER_VARIABLE,
    WORKFLOW_VARIABLE,
    RecordError,
    exit_at_once,
    in_one_sentence,
    print_traceback,
)
from trainmark.machine.ranks import ALONE
from trainmark.records.attempts import least_disturbed
from trainmark.records.record import read_record, write_record
from trainmark.training.display import RunDisplay

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
"""Signals by which a person, or a scheduler that needs the resources for another job, stops a run."""


def workflow_is_alive() -> bool:
    """Whether the workflow that started this job (named by WORKFLOW_VARIABLE) is still an ancestor of this process.

    Returns False if the workflow has exited (the job is then re-parented), if there never was one, or if a container
    hides the host's processes.
    """
    return os.environ.get(WORKFLOW_VARIABLE) in {str(process.pid) for process in psutil.Process().parents()}


class ProcessExit:
    """Ends the process that trains one run.

    record: the record file to write. The run's checkpoints lie in a folder next to it. If the workflow is gone when the
    record is written, a copy is written next to it, too: Snakemake treats the output of a killed workflow as
    incomplete, and the next workflow would train the run again. A job of a cluster cannot see its workflow, and always
    writes a copy, which the workflow removes when it sees the end of the job.
    log: the run's log file, named when the run fails.
    ranks: the ranks of the run, known once they have joined. Only the first writes and shows how the run ended.
    """

    ranks = ALONE

    def __init__(self, record: Path, log: Path | None, display: RunDisplay) -> None:
        self.checkpoint_folder = record.with_suffix(".checkpoint")
        self._record, self._copy, self._log, self._display = record, record.with_suffix(".kept.json"), log, display
        self._had_workflow = workflow_is_alive()
        self._finishing = threading.Lock()
        self._written = threading.Event()
        self._stop_first: Callable[[], None] | None = None
        self._is_of_this_run: Callable[[dict], bool] = lambda _: False

    def take_kept_record(self, is_of_this_run: Callable[[dict], bool]) -> bool:
        """Use the copy of a record that a process left after its workflow was gone, if it is of this run.

        Returns whether it is; the copy is then this run's record. The copy is deleted in either case.
        """
        self._is_of_this_run = is_of_this_run
        if not self._copy.exists():
            return False
        try:
            record = read_record(self._copy)
            is_usable = is_of_this_run(record)
        except RecordError as error:
            if isinstance(error.__cause__, OSError):  # the record may be whole, and is not deleted
                raise
            print(f"{error}; it is not used", flush=True)
            is_usable = False
        if is_usable:
            write_record(record, self._record)
        self._copy.unlink()
        return is_usable

    def done_elsewhere(self) -> NoReturn:
        """Exit with status 0 without training, after `take_kept_record` returned True."""
        if self.ranks.rank == 0:
            self._display.done_elsewhere()
            self._remove_checkpoints()
        self._leave()

    def finish(self, record: dict) -> NoReturn:
        """Write the record, show its result and exit. Thread-safe: only the first call acts.

        Raises RecordError if the record does not fit its schema.
        """
        with self._finishing:
            if self.ranks.rank:
                self._leave()
            new, record = record, least_disturbed(record, self._record, self._is_of_this_run)
            write_record(record, self._record)
            if CLUSTER_VARIABLE in os.environ or (self._had_workflow and not workflow_is_alive()):
                write_record(record, self._copy)
            self._written.set()
            self._display.finish(new)
            self._remove_checkpoints()
            self._leave()

    def fail(self, error: Exception) -> NoReturn:
        """Exit with status 1: one sentence on the terminal, the traceback in the log."""
        print_traceback(error)
        message = in_one_sentence(error)
        self._display.fail(message, self._log)
        exit_at_once(1)

    def stop_on_signals(self, stop_first: Callable[[], None] | None = None) -> None:
        """Exit at once, with a message, on a signal in STOPPING. Training since the last checkpoint is lost.

        Signals that the process was started to ignore stay ignored, so `nohup` works as expected.
        """
        self._stop_first = stop_first
        for number in (getattr(signal, name) for name in STOPPING):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._stop)

    def _stop(self, number: int, _: object) -> NoReturn:
        if self._written.is_set():  # the run is complete; with another status Snakemake would delete the record
            os._exit(0)
        if self._stop_first:
            self._stop_first()
        if self.ranks.rank == 0:
            self._display.stopped(signal.Signals(number).name)
        os._exit(128 + number)

    def _leave(self) -> NoReturn:
        self.ranks.leave()
        exit_at_once(0)

    def _remove_checkpoints(self) -> None:
        shutil.rmtree(self.checkpoint_folder, ignore_errors=True)
