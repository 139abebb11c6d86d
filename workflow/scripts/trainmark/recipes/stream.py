"""A split that is not in memory: its images are read, augmented and handed out in batches while a network trains."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np

from trainmark.recipes.batch_order import EpochFeed

Batch = tuple[np.ndarray, np.ndarray]
"""(network inputs (samples, channels, height, width), labels int64 (samples,)) of one step."""


class Stream(ABC):
    """The images of one split, in batches. The batches depend on the feed alone, not on how they are loaded.

    labels: int64, (samples,), in the stored order.
    input_shape: shape of one network input, (channels, height, width).
    evaluation_batch_size: number of samples per forward step in evaluation.
    waiting_seconds: time for which the training has waited for batches so far.
    on_batch: called with (its samples, size of the whole batches) after each batch of training that was taken.
    """

    labels: np.ndarray
    input_shape: tuple[int, ...]
    dtype: str
    evaluation_batch_size: int
    waiting_seconds: float = 0.0
    on_batch: Callable[[int, int], None] | None = None

    @abstractmethod
    def training_batches(self, feed: EpochFeed) -> Iterator[Batch]:
        """Yield the batches of a feed, augmented as the recipe says."""

    @abstractmethod
    def stored_batches(self, batch_size: int, samples: np.ndarray | None = None) -> Iterator[Batch]:
        """Yield samples without augmentation, in batches; the last may be smaller.

        samples: their indices; None for all samples in their stored order.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop the workers that load images."""
