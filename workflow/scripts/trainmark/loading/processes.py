"""Processes that load pieces of batches.

They talk with the training through pipes and write into memory that has no name. When the training ends, in whichever
way, its end of the pipes closes, and each process exits after the piece that it is loading. They use neither semaphores
nor files, so that a full /dev/shm does no harm.
"""

import os
import queue
import signal
import threading
import traceback
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np

from trainmark.errors import LoaderError, TrainmarkError
from trainmark.loading.memory_file import MemoryFile
from trainmark.loading.pieces import Piece, SplitLoader
from trainmark.loading.workers import Loaders, Workers

SENT = 2
"""Pieces that a process has at a time. It loads the second while the training, which may be busy, notes the first."""

EXIT_SECONDS = 10.0
"""Time in which a process exits after its pipe was closed; a piece takes less than a second."""

NOT_FOR_US = ("SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
"""Signals that terminals and schedulers send to all processes of a job. The training decides what follows."""

Task = tuple[Piece, int, tuple[int, int], int]
"""(piece, its first sample in the batch, (offset, size) of the batch in the memory file, samples of the batch)."""

ADVICE = "allowed: fewer loader.jobs (now {jobs}), or loader.iterator: thread"


class Processes(Workers):
    """Processes, each with a thread here that sends it pieces and receives its answers."""

    def __init__(self, loaders: Loaders, jobs: int) -> None:
        super().__init__(loaders, jobs)
        self.memory_file = MemoryFile()
        self._tasks: queue.SimpleQueue[tuple[Future[None], Task] | None] = queue.SimpleQueue()
        self._processes: list[BaseProcess] = []
        self._threads: list[threading.Thread] = []
        try:
            for _ in range(jobs):
                self._start()
        except OSError as error:
            started = len(self._processes)
            self.close()
            raise LoaderError(
                f"started {started} of {jobs} processes that load images, then: {error.strerror}; "
                + ADVICE.format(jobs=jobs)
            ) from error

    def _start(self) -> None:
        # Neither forked from this process, whose frameworks have threads, nor from a server, which could outlive it.
        context = get_context("spawn")
        ours, its = context.Pipe()
        process = context.Process(target=serve, args=(its, self.loaders, self.memory_file), daemon=True)
        try:
            process.start()
        except OSError:
            ours.close()
            raise
        finally:
            its.close()
        self._processes.append(process)
        thread = threading.Thread(target=self._feed, args=(ours, process), name="loader", daemon=True)
        thread.start()
        self._threads.append(thread)

    def submit(self, piece: Piece, batch: np.ndarray, first: int, place: tuple[int, int]) -> Future[None]:
        """See `Workers.submit`."""
        if not self._threads:
            raise RuntimeError("the loader is closed")
        future: Future[None] = Future()
        self._tasks.put((future, (piece, first, place, len(batch))))
        return future

    def close(self) -> None:
        """See `Workers.close`."""
        with suppress(queue.Empty):
            while task := self._tasks.get_nowait():
                task[0].cancel()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(EXIT_SECONDS)
        for process in self._processes:
            process.join(EXIT_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._threads.clear()
        self._processes.clear()
        assert self.memory_file is not None
        self.memory_file.close()

    def _feed(self, connection: Connection, process: BaseProcess) -> None:
        """Send pieces to a process and pass its answers on, until `close`. If it dies, let all pieces fail."""
        sent: deque[Future[None]] = deque()
        is_closed = False
        with connection:
            try:
                while sent or not is_closed:
                    while len(sent) < SENT and not is_closed:
                        try:
                            task = self._tasks.get(block=not sent)
                        except queue.Empty:
                            break
                        is_closed = task is None
                        if task and task[0].set_running_or_notify_cancel():
                            sent.append(task[0])
                            connection.send(task[1])
                    if sent:
                        answer = connection.recv()
                        _finish(sent.popleft(), answer)
                return
            except (EOFError, OSError):
                error = self._death_of(process)
        while sent:
            _finish(sent.popleft(), error)
        while not is_closed and (task := self._tasks.get()):
            if task[0].set_running_or_notify_cancel():
                _finish(task[0], error)

    def _death_of(self, process: BaseProcess) -> LoaderError:
        process.join(EXIT_SECONDS)
        code = process.exitcode
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with the status {code}"
        return LoaderError(
            f"a process that loads images ended {how}, perhaps because memory ran out; run snakemake again, which goes "
            f"on after the last checkpoint; {ADVICE.format(jobs=self.jobs)}"
        )


def _finish(future: Future[None], error: Exception | None) -> None:
    if error:
        future.set_exception(error)
    else:
        future.set_result(None)


def serve(connection: Connection, loaders: Loaders, memory_file: MemoryFile) -> None:
    """Load pieces until the training closes its end of the pipe or ends. Runs in a process of its own."""
    for name in NOT_FOR_US:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    null_device = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null_device, descriptor)
    buffers: dict[int, np.ndarray] = {}
    with suppress(EOFError, ConnectionError):
        while True:
            piece, first, (offset, size), samples = connection.recv()
            if offset not in buffers:
                buffers[offset] = np.frombuffer(memory_file.map(offset, size), np.uint8)
            connection.send(_load(loaders[piece.split], piece, buffers[offset], first, samples))


def _load(loader: SplitLoader, piece: Piece, memory: np.ndarray, first: int, samples: int) -> Exception | None:
    """Load a piece into its batch. Returns the error that the training shall raise, if there is one."""
    try:
        loader.load(piece, loader.batch_in(memory, samples)[first : first + len(piece.keys)])
    except (TrainmarkError, MemoryError) as error:
        return error
    except Exception:
        return RuntimeError(f"in a process that loads images:\n{traceback.format_exc()}")
    return None
