"""What loads pieces of batches: the caller itself, threads, or processes.

Processes write into memory that has no name (`memory_file`). They end when the training ends, in whichever way. The
semaphores of their queues are removed by Python's resource tracker, also if the training is killed.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any, NoReturn

import numpy as np

from trainmark.errors import LoaderError, why
from trainmark.loading.memory_file import MemoryFile
from trainmark.loading.pieces import Piece, SplitLoader

ITERATORS = ("serial", "thread", "process")

Loaders = Mapping[str, SplitLoader]
"""The loader of each split."""

NOT_FOR_US = ("SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
"""Signals that terminals and schedulers send to all processes of a job. The training decides what follows."""


class Workers:
    """Load pieces of batches, of any split.

    iterator: one of ITERATORS.
    jobs: number of pieces that are loaded at the same time.
    is_ahead: whether they load while the caller does something else.
    memory_file: where the batches must lie; None for anywhere.

    Raises LoaderError if processes can't be started.
    """

    def __init__(self, iterator: str, loaders: Loaders, jobs: int) -> None:
        self.loaders, self.jobs, self.is_ahead = loaders, jobs, iterator != "serial"
        self.memory_file: MemoryFile | None = None
        self._pool: Executor
        if iterator == "serial":
            self._pool = _Caller()
        elif iterator == "thread":  # decoding and numpy's arithmetic release Python's global interpreter lock
            self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="loader")
        else:
            self.memory_file = MemoryFile()
            # Neither forked from this process, whose frameworks have threads, nor by a server, which could outlive it.
            context, arguments = get_context("spawn"), (loaders, self.memory_file)
            self._pool = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=arguments)
            for _ in range(jobs):  # now, and not in the first epoch
                self._submit_to_process(os.getpid)

    def submit(self, piece: Piece, batch: np.ndarray, first: int, place: tuple[int, int]) -> Future[None]:
        """Load a piece into a batch, from its sample `first` on; `wait_for` raises its errors.

        place: (offset, size) of the batch in the memory file.
        """
        with self._dying_in_one_sentence():
            if self.memory_file:
                return self._submit_to_process(_load_in_process, piece, first, place, len(batch))
            return self._pool.submit(self.loaders[piece.split].load, piece, batch[first : first + len(piece.keys)])

    def wait_for(self, piece: Future[None]) -> None:
        """Wait until a piece is loaded. Raises DataError for a damaged image, LoaderError if a process has died."""
        with self._dying_in_one_sentence():
            piece.result()

    def close(self) -> None:
        """Stop after the pieces that are being loaded."""
        self._pool.shutdown(cancel_futures=True)
        if self.memory_file:
            self.memory_file.close()

    def _submit_to_process(self, function: Callable, *arguments: Any) -> Future:
        try:
            return self._pool.submit(function, *arguments)
        except OSError as error:
            self.close()
            said = why(error, "raise the limit of processes (ulimit -u)")
            self._fail(f"the processes that load images could not be started {said}", error)

    @contextmanager
    def _dying_in_one_sentence(self) -> Iterator[None]:
        try:
            yield
        except BrokenProcessPool as error:
            self._fail(
                "a process that loads images was killed, perhaps because memory ran out; run snakemake again, which "
                "goes on after the last checkpoint",
                error,
            )

    def _fail(self, what: str, error: Exception) -> NoReturn:
        allowed = f"fewer loader.jobs (now {self.jobs}), or loader.iterator: thread"
        raise LoaderError(f"{what}; allowed: {allowed}") from error


class _Caller(Executor):
    """Loads at once, in the thread of the caller."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class _Process:
    """What a process that loads has: the loaders, the memory file, and the parts of it that it has mapped."""

    loaders: Loaders
    memory_file: MemoryFile
    mapped: dict[int, np.ndarray]


def _begin(loaders: Loaders, memory_file: MemoryFile) -> None:
    """Prepare this process to load pieces until the training ends."""
    for name in NOT_FOR_US:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_training, daemon=True).start()
    _Process.loaders, _Process.memory_file, _Process.mapped = loaders, memory_file, {}


def _end_with_training() -> None:
    training = parent_process()
    assert training is not None
    training.join()
    os._exit(1)


def _load_in_process(piece: Piece, first: int, place: tuple[int, int], samples: int) -> None:
    """Load a piece into a batch of so many samples at a place in the memory file."""
    offset, size = place
    if offset not in _Process.mapped:
        _Process.mapped[offset] = np.frombuffer(_Process.memory_file.map(offset, size), np.uint8)
    loader = _Process.loaders[piece.split]
    loader.load(piece, loader.batch_in(_Process.mapped[offset], samples)[first : first + len(piece.keys)])
