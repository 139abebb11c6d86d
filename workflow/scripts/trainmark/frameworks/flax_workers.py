"""Several workers of Flax: JAX's distributed runtime. Every step is one program over the devices of all ranks.

The arrays of a batch are divided among the devices, and those of the network are on each: XLA then adds the sums over
the samples of all ranks. Arrays are divided equally, so the shares of a small last batch are padded.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx

from trainmark.frameworks.flax_adapter import FlaxAdapter
from trainmark.frameworks.flax_layers import Network, mean_cross_entropy
from trainmark.frameworks.sharing import SharingAdapter
from trainmark.machine.ranks import Ranks, address_of_first
from trainmark.recipes.batch_order import EpochFeed, share_of

WORKERS = {"flax": {"name": "JAX's distributed runtime", "lacks": ["BatchNorm"]}}

PADDING = -1
"""The label of a sample that only fills a share up."""


def create(framework: str, threads: int, ranks: Ranks) -> "FlaxWorkersAdapter":
    """Return the adapter of a rank."""
    return FlaxWorkersAdapter(framework, threads, ranks)


def mean_over_given(network: Network, inputs: jax.Array, labels: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Return the loss of a step over the samples that are no padding.

    labels: those of all samples, and how many of them are no padding, which would take another exchange to count.
    """
    of_samples, count = labels
    given = of_samples != PADDING
    return mean_cross_entropy(network, inputs, given * of_samples, lambda losses: (given * losses).sum() / count)


def create_step(everywhere: jax.sharding.Sharding) -> Callable:
    """Return the function that trains a step and returns its loss. everywhere: puts an array on each device."""

    @nnx.jit
    def training_step(network: Network, optimizer: nnx.Optimizer, inputs: Any, labels: Any) -> jax.Array:
        loss, gradients = nnx.value_and_grad(mean_over_given)(network, inputs, labels)
        optimizer.update(network, gradients)
        both = (network, optimizer)  # of which XLA would divide some arrays, such as masks
        nnx.update(both, jax.lax.with_sharding_constraint(nnx.state(both), everywhere))
        return loss

    return training_step


class FlaxWorkersAdapter(SharingAdapter, FlaxAdapter):
    """See `adapter.Adapter`. Its losses are over the samples of all ranks already."""

    def __init__(self, framework: str, threads: int, ranks: Ranks) -> None:
        if not jax.distributed.is_initialized():
            jax.distributed.initialize(address_of_first(ranks), ranks.size, ranks.rank)
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("workers",))
        self._divided = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("workers"))
        self._everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        self._training_step = create_step(self._everywhere)
        super().__init__(framework, threads, ranks)

    def _batches(self, feed: EpochFeed) -> Iterator[tuple[Any, Any]]:
        self._spread()
        self._given = 0
        for (inputs, labels), samples in zip(super()._batches(feed), self._batch_sizes, strict=True):
            self._given += len(labels)
            parts = self._filled(inputs, samples), self._filled(labels, samples, PADDING)
            inputs, labels = (jax.make_array_from_process_local_data(self._divided, part) for part in parts)
            yield inputs, (labels, np.int32(samples))

    def _spread(self) -> None:
        """Put what was set since the last step on all devices. Otherwise the next step would be compiled anew."""
        both = (self._network, self._optimizer)

        def spread(leaf: jax.Array) -> jax.Array:
            if leaf.sharding == self._everywhere:
                return leaf
            return jax.make_array_from_single_device_arrays(leaf.shape, self._everywhere, [leaf])

        nnx.update(both, jax.tree.map(spread, nnx.state(both)))

    def _samples_of_rank(self) -> int:
        return self._given

    def _filled(self, share: np.ndarray, samples: int, value: int = 0) -> np.ndarray:
        """Return the share of a batch with so many rows as the largest share has; the last ones have this value."""
        rows = -(-samples // self.ranks.size) - len(share)
        return np.pad(share, [(0, rows), *[(0, 0)] * (share.ndim - 1)], constant_values=value)

    def _masks_of_share(self, mask: np.ndarray) -> np.ndarray:
        """Return the masks of all shares, each filled up as they are."""
        shares = (mask[share_of(len(mask), rank, self.ranks.size)] for rank in range(self.ranks.size))
        return np.concatenate([self._filled(share, len(mask)) for share in shares])

    def _evaluated(self) -> Network:
        """Return the network on this rank's device alone, which can evaluate without the other ranks."""
        graph, state = nnx.split(self._network)
        return nnx.merge(graph, jax.tree.map(lambda leaf: leaf.addressable_data(0), state))
