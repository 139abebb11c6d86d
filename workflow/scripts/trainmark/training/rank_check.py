"""Checks that the ranks of a run train one network, and each its own share of the batches.

After each epoch, all ranks must have the same weights, bit for bit: they add the same gradients to the same weights.
That says nothing about the samples of which the gradients are. So the first step of two epochs, the last one and one
that nobody knows before it begins, is trained again after the training, by an adapter for one worker, with the weights
that the epoch began with and the rank's own share: it must have the loss that the rank had, dropout included.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.errors import MeasurementError
from trainmark.frameworks.adapter import Adapter
from trainmark.frameworks.sharing import SharingAdapter
from trainmark.machine.ranks import Ranks
from trainmark.networks.ops import Parameter
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.records.shares import is_same_loss


@dataclass(frozen=True)
class Beginning:
    """What an epoch began with. feed: its first step, of all ranks."""

    epoch: int
    weights: Weights
    feed: EpochFeed


class RankCheck:
    """Checks a run with several ranks epoch by epoch. Every rank has to call each method. One alone has nothing to do.

    trained: the arrays that are trained. Running statistics are of each rank's own samples.
    last_epoch: the last epoch of the run.
    """

    def __init__(self, adapter: Adapter, ranks: Ranks, trained: Sequence[Parameter], last_epoch: int) -> None:
        self._adapter, self._ranks, self._trained, self._last_epoch = adapter, ranks, trained, last_epoch
        self._begun = 0
        self._drawn: Beginning | None = None
        self._last: Beginning | None = None
        self._problem = ""

    def before_epoch(self, epoch: int, feed: EpochFeed) -> None:
        """Keep the weights if this epoch is the last one, or drawn: each that has begun is it with the same chance."""
        if self._ranks.size == 1:
            return
        self._begun += 1
        is_drawn = self._ranks.from_first(lambda: secrets.randbelow(self._begun) == 0)
        if is_drawn or epoch == self._last_epoch:
            beginning = Beginning(epoch, self._adapter.weights(), feed.parts(1)[0])
            self._drawn = beginning if is_drawn else self._drawn
            self._last = beginning if epoch == self._last_epoch else self._last

    def after_epoch(self, epoch: int) -> str | None:
        """Return a digest of the trained weights; None for one rank.

        Raises MeasurementError on each rank that has other weights than the first one.
        """
        if self._ranks.size == 1:
            return None
        own = self._digests()
        first = self._ranks.all_values(own)[0]
        if differing := [layer for layer, digest in own.items() if first[layer] != digest]:
            raise MeasurementError(
                f"after epoch {epoch} its weights are not those of rank 0, in {len(differing)} of {len(own)} layers, "
                f"from {differing[0]} on: the ranks must add up all their gradients before each update, and compute "
                "alike; they do not train one network"
            )
        return hashlib.sha256("".join(own.values()).encode()).hexdigest()

    def _digests(self) -> dict[str, str]:
        """Return the digest of each layer's trained arrays."""
        weights = self._adapter.weights()
        digests = {parameter.layer: hashlib.sha256() for parameter in self._trained}
        for parameter in self._trained:
            digests[parameter.layer].update(np.ascontiguousarray(weights[parameter.name]).data)
        return {layer: digest.hexdigest() for layer, digest in digests.items()}

    def replays(self, alone: Callable[[], Adapter], first_losses: Mapping[int, float]) -> list[dict]:
        """Train the first steps of the kept epochs again, and return `replays` of the record.

        alone: returns an adapter for one worker with the run's network and data.
        first_losses: the first loss of each epoch, of this rank's share where the engine has it.

        Raises MeasurementError if some rank can't train alone, for lack of memory for example.
        """
        kept = {one.epoch: one for one in (self._drawn, self._last) if one}
        of_ranks = self._ranks.all_measured(lambda: [self._replay(one, alone) for one in kept.values()])
        told = self._ranks.all_values(dict(first_losses))
        replays = []
        for place, (epoch, beginning) in enumerate(kept.items()):
            found = [(rank, *found) for rank, of_rank in enumerate(of_ranks) if (found := of_rank[place])]
            if found:
                self._check_shares(beginning, [samples for _, _, samples in found])
                losses, alone_losses = [told[rank][epoch] for rank, *_ in found], [loss for _, loss, _ in found]
                replays.append({"epoch": epoch, "losses": losses, "alone_losses": alone_losses})
        return replays

    def judge(self, replays: Sequence[Mapping]) -> None:
        """Raise MeasurementError on each rank that had another first loss than its share alone has."""
        if self._problem:
            raise MeasurementError(self._problem)
        for replay in replays:
            of_ranks = list(zip(replay["losses"], replay["alone_losses"], strict=True))
            for loss, alone_loss in of_ranks[self._ranks.rank : self._ranks.rank + 1]:
                if not is_same_loss(loss, alone_loss):
                    raise MeasurementError(
                        f"in epoch {replay['epoch']} it did not train its own share of the batches: in the first step "
                        f"its loss was {loss:.6g}, and one worker with the same weights, samples and dropout has "
                        f"{alone_loss:.6g}"
                    )

    def _replay(self, beginning: Beginning, alone: Callable[[], Adapter]) -> tuple[float, np.ndarray] | None:
        """Return (loss, samples of the batch); None if this rank has nothing to train again."""
        assert isinstance(self._adapter, SharingAdapter), "several ranks have adapters that share"
        if (feed := self._adapter.replay_of(beginning.feed)) is None:
            return None
        adapter = alone()
        adapter.set_weights(beginning.weights)
        return float(adapter.train_epoch(feed)[0]), _samples_of(feed)

    def _check_shares(self, beginning: Beginning, samples: Sequence[np.ndarray]) -> None:
        if not np.array_equal(np.concatenate(samples), _samples_of(beginning.feed)):
            self._problem = f"in epoch {beginning.epoch} the shares of the ranks are not the parts of the first batch"


def _samples_of(feed: EpochFeed) -> np.ndarray:
    return np.arange(feed.samples) if feed.order is None else feed.order
