"""What several workers of Flax and Keras share: JAX's distributed runtime, where a step is one program of all ranks.

The arrays of a batch are divided among the devices of the ranks, and those of the network are on each: XLA then adds
the sums over the samples of all. Arrays are divided equally, so the shares of a small batch are padded.
"""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax._src import distributed, xla_bridge  # no public interface tells gloo its address
from jax.extend.backend import register_backend_factory
from jaxlib import _jax

from trainmark.frameworks.sharing import SharingAdapter
from trainmark.machine.ranks import Ranks, address_of_first
from trainmark.recipes.batch_order import EpochFeed, share_of


def _client_on_loopback() -> Any:
    """Return a client of this process's CPUs. For JAX's own, gloo looks up the host's name, which may not resolve."""
    client = distributed.global_state.client
    return xla_bridge.make_cpu_client(_jax.make_gloo_tcp_collectives(distributed_client=client, hostname="127.0.0.1"))


class JaxSharingAdapter(SharingAdapter):
    """See `sharing.SharingAdapter`. The losses of a rank are over the samples of all ranks already."""

    def __init__(self, framework: str, threads: int, ranks: Ranks) -> None:
        if not jax.distributed.is_initialized():
            jax.distributed.initialize(address_of_first(ranks), ranks.size, ranks.rank)
            if len(ranks.local) == ranks.size:
                register_backend_factory("cpu", _client_on_loopback, priority=0, fail_quietly=False)
        super().__init__(framework, threads, ranks)

    def _share(self, feed: EpochFeed) -> EpochFeed:
        """The program of all ranks draws the masks of whole batches, from one seed."""
        return replace(super()._share(feed), dropout_seed=feed.dropout_seed)

    def replay_of(self, feed: EpochFeed) -> EpochFeed | None:
        """See `sharing.SharingAdapter.replay_of`. The first loss is that of the whole batch, with one set of masks.

        Only the first rank has it again, if all are on its host, which then has the memory for it. Masks of padded
        shares are others.
        """
        is_padded = bool((feed.batch_sizes()[:1] % self.ranks.size).any())
        is_here = self.ranks.rank == 0 and len(self.ranks.local) == self.ranks.size
        return feed if is_here and not is_padded else None

    def _losses_of_share(self, losses: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        return None

    def _rows(self, samples: int) -> int:
        """Return the rows of each padded share of a batch with so many samples."""
        return -(-samples // self.ranks.size)

    def _padded(self, share: np.ndarray, samples: int, value: int = 0) -> np.ndarray:
        """Return the share of a batch with so many rows as the largest share has; the last ones have this value."""
        rows = self._rows(samples) - len(share)
        return np.pad(share, [(0, rows), *[(0, 0)] * (share.ndim - 1)], constant_values=value)

    def _padded_shares(self, batch: np.ndarray) -> np.ndarray:
        """Return a batch as the devices of all ranks have it."""
        shares = (batch[share_of(len(batch), rank, self.ranks.size)] for rank in range(self.ranks.size))
        return np.concatenate([self._padded(share, len(batch)) for share in shares])
