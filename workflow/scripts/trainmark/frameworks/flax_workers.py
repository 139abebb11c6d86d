"""Several workers of Flax: a step by nnx.jit over arrays that are divided among the devices of all ranks."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx

from trainmark.frameworks.flax_adapter import FlaxAdapter
from trainmark.frameworks.flax_layers import Network, mean_cross_entropy
from trainmark.frameworks.jax_workers import JaxSharingAdapter
from trainmark.machine.ranks import Ranks
from trainmark.recipes.batch_order import EpochFeed

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


class FlaxWorkersAdapter(JaxSharingAdapter, FlaxAdapter):
    """See `adapter.Adapter`."""

    def __init__(self, framework: str, threads: int, ranks: Ranks) -> None:
        super().__init__(framework, threads, ranks)
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("workers",))
        self._divided = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("workers"))
        self._everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        self._training_step = create_step(self._everywhere)

    def _batches(self, feed: EpochFeed) -> Iterator[tuple[Any, Any]]:
        self._spread()
        self._given = 0
        for (inputs, labels), samples in zip(super()._batches(feed), self._batch_sizes, strict=True):
            self._given += len(labels)
            parts = self._padded(inputs, samples), self._padded(labels, samples, PADDING)
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

    def _masks_of_share(self, mask: np.ndarray) -> np.ndarray:
        return self._padded_shares(mask)

    def _evaluated(self) -> Network:
        """Return the network on this rank's device alone, which can evaluate without the other ranks."""
        graph, state = nnx.split(self._network)
        return nnx.merge(graph, jax.tree.map(lambda leaf: leaf.addressable_data(0), state))
