"""What adapters of several workers share: each rank trains its part of every batch, and their mean is the batch's."""
# mypy: disable-error-code="safe-super"
# The adapter for one worker, the second base of each class, has what is abstract here.

from typing import Any

import numpy as np

from trainmark.errors import LostRankError
from trainmark.frameworks.adapter import ObservedAdapter
from trainmark.machine.ranks import Ranks
from trainmark.recipes.batch_order import EpochFeed, share_of
from trainmark.recipes.initial_weights import Weights

LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""Parts of the messages with which gloo, over which torch and JAX exchange gradients, says that a rank has ended."""

MESSAGE_LENGTH = 300
"""Length of such a message in the log, in characters."""


class SharingAdapter(ObservedAdapter):
    """The first base of an adapter of several workers; the other is the framework's adapter for one.

    `train_epoch` and `counted` are about all ranks together, so that the training of several workers looks from outside
    as that of one. The rest is about this rank's copy of the network, which is the same on all ranks. Running
    statistics of batch normalisation are those of the rank, and the run's are those of rank 0.

    share_losses: loss of each step of the last `train_epoch` over this rank's samples alone, (steps,); None where the
        engine computes that of all samples on each rank.
    """

    share_losses: np.ndarray | None = None

    def __init__(self, framework: str, threads: int, ranks: Ranks) -> None:
        super().__init__(framework, threads)
        self.ranks = ranks

    def build(self, *, device: str, **arguments: Any) -> None:
        """See `adapter.ObservedAdapter.build`."""
        self._masks: Weights = {}
        super().build(device=device, **arguments)

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        """See `adapter.Adapter.train_epoch`. Raises LostRankError if another rank has ended."""
        share = self._share(feed)
        self._batch_sizes = feed.batch_sizes()
        self._loss_weights = iter(feed.weights_of_share(share, self.ranks.size).tolist())
        if self._masks:
            super().set_masks({name: self._masks_of_share(mask) for name, mask in self._masks.items()})
        try:
            losses = super().train_epoch(share)
        except RuntimeError as error:
            if any(text in str(error) for text in LOST):
                raise LostRankError(f"it has lost another rank ({error})"[:MESSAGE_LENGTH]) from error
            raise
        if self._masks:
            super().set_masks(self._masks)
        self.share_losses = self._losses_of_share(losses, feed.weights_of_share(share, self.ranks.size))
        of_ranks = self.ranks.all_values((losses, self._samples_of_rank()))
        self._samples = sum(samples for _, samples in of_ranks)
        return np.mean([losses for losses, _ in of_ranks], axis=0)

    def counted(self) -> dict[str, int]:
        """See `adapter.Adapter.counted`."""
        return {**super().counted(), "samples": self._samples}

    def replay_of(self, feed: EpochFeed) -> EpochFeed | None:
        """Return what one worker trains to have this rank's first loss of a feed again; None if nothing can tell it."""
        return feed.shard(self.ranks.rank, self.ranks.size)

    def set_masks(self, masks: Weights) -> None:
        """See `adapter.ObservedAdapter.set_masks`. In a step, each rank takes the masks of its samples."""
        self._masks = masks
        super().set_masks(masks)

    def _share(self, feed: EpochFeed) -> EpochFeed:
        return feed.shard(self.ranks.rank, self.ranks.size)

    def _losses_of_share(self, losses: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        return losses / weights

    def _masks_of_share(self, mask: np.ndarray) -> np.ndarray:
        return mask[share_of(len(mask), self.ranks.rank, self.ranks.size)]

    def _samples_of_rank(self) -> int:
        """Return how many samples this rank has trained in the last epoch."""
        return super().counted()["samples"]

    def _weighted(self, loss: Any) -> Any:
        """Return a rank's mean loss of a step as its part of the mean over the ranks (`EpochFeed.weights_of_share`)."""
        weight = next(self._loss_weights)
        return loss if weight == 1 else weight * loss
