"""What loads pieces of batches: the caller itself, threads, or processes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from trainmark.loading.memory_file import MemoryFile
from trainmark.loading.pieces import Piece, SplitLoader

Loaders = Mapping[str, SplitLoader]
"""The loader of each split."""


class Workers(ABC):
    """Load pieces of batches, of any split.

    jobs: number of pieces that are loaded at the same time.
    is_ahead: whether they load while the caller does something else.
    memory_file: where the batches must lie; None for anywhere.
    """

    is_ahead = True
    memory_file: MemoryFile | None = None

    def __init__(self, loaders: Loaders, jobs: int) -> None:
        self.loaders, self.jobs = loaders, jobs

    @abstractmethod
    def submit(self, piece: Piece, batch: np.ndarray, first: int, place: tuple[int, int]) -> Future[None]:
        """Load a piece into a batch, from its sample `first` on; errors are those of the future.

        place: (offset, size) of the batch in the memory file.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop after the pieces that are being loaded."""

    def load(self, piece: Piece, batch: np.ndarray, first: int) -> None:
        """Load a piece into a batch."""
        self.loaders[piece.split].load(piece, batch[first : first + len(piece.keys)])


class Serial(Workers):
    """The caller itself, when it needs a batch."""

    is_ahead = False

    def submit(self, piece: Piece, batch: np.ndarray, first: int, place: tuple[int, int]) -> Future[None]:
        """See `Workers.submit`."""
        self.load(piece, batch, first)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def close(self) -> None:
        """See `Workers.close`."""


class Threads(Workers):
    """Threads. Decoding and numpy's arithmetic release Python's global interpreter lock."""

    def __init__(self, loaders: Loaders, jobs: int) -> None:
        super().__init__(loaders, jobs)
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="loader")

    def submit(self, piece: Piece, batch: np.ndarray, first: int, place: tuple[int, int]) -> Future[None]:
        """See `Workers.submit`."""
        return self._pool.submit(self.load, piece, batch, first)

    def close(self) -> None:
        """See `Workers.close`."""
        self._pool.shutdown(cancel_futures=True)
