"""The tuned loop of Flax: the arrays on the device, an epoch compiled as a whole, and its state updated in place.

On the CPU, XLA computes convolutions in a compiled loop many times slower than outside it. Networks with convolutions
are therefore trained in single steps there.
"""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx

from trainmark.frameworks.flax_adapter import FlaxAdapter, train
from trainmark.frameworks.flax_layers import convolution
from trainmark.frameworks.flax_optimizers import set_rates
from trainmark.frameworks.jax_kernels import compiled, fetched, largest_outputs
from trainmark.frameworks.tuning import StepsTaken
from trainmark.networks.graph import Architecture, maximised
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.stream import Stream

TUNING = {
    "flax": {
        "steps": {"text": "compiled steps without nnx.jit, updated in place"},
        "epoch": {"text": "arrays on the device, an epoch as one program", "slow_with": "Conv", "resident": True},
        "maxima": {"text": "gradients only where a maximum over time is", "device": "cpu", "op": "GlobalMaxPool1D"},
    }
}
"""The steps from the stock loop, see `tuning.TuningStep`."""


class Conv(nnx.Conv):
    """A convolution of sequences that may give only the largest output of each filter.

    maximised: whether it does, as a sequence of length 1 (`graph.maximised`).
    """

    maximised = False

    def __call__(self, inputs: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return (samples, length, filters)."""
        outputs = super().__call__(inputs)
        if not self.maximised:
            return outputs
        assert isinstance(self.strides, int)  # as `flax_layers.convolution` gives it
        largest = largest_outputs(outputs, inputs, self.kernel[...], self.strides)
        return largest if self.bias is None else largest + self.bias[...]


def create(framework: str, threads: int, taken: StepsTaken) -> "TunedFlaxAdapter":
    """Return the tuned adapter of a framework."""
    return TunedFlaxAdapter(framework, threads, taken)


class TunedFlaxAdapter(FlaxAdapter):
    """See `adapter.Adapter`."""

    loop = "tuned"

    def __init__(self, framework: str, threads: int, taken: StepsTaken) -> None:
        super().__init__(framework, threads)
        self._taken = taken

    def build(self, *, architecture: Architecture, device: str, dtype: str, **arguments: Any) -> None:
        self._steps = self._taken({node.op for node in architecture.nodes}, device)
        if "maxima" in self._steps:
            self._replaced_layers = {"Conv1D": lambda node, shape, options: convolution(node, shape, options, Conv)}
        super().build(architecture=architecture, device=device, dtype=dtype, **arguments)
        self._arrays: tuple[Any, Any] | None = None
        self._trained = self._network, self._optimizer
        self._network.train()
        convolutions = maximised(architecture) if "maxima" in self._steps else set()
        self._set_maximised(convolutions, True)
        graph, state = nnx.split(self._trained)
        self._set_maximised(convolutions, False)  # outside of training, all outputs are asked for
        self._structure = jax.tree.structure(state)

        def step(leaves: list[jax.Array], inputs: jax.Array, labels: jax.Array) -> tuple[list[jax.Array], jax.Array]:
            trained = nnx.merge(graph, jax.tree.unflatten(self._structure, leaves))
            loss = train(*trained, inputs, labels)
            return jax.tree.leaves(nnx.state(trained)), loss

        self._step, self._epoch = compiled(step)

    def _set_maximised(self, names: set[str], value: bool) -> None:
        for name in names:
            self._network.layer(name).maximised = value

    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        """See `adapter.Adapter.load`. The arrays of training are sent to the device once, and are there at the end."""
        super().load(split=split, inputs=inputs, labels=labels)
        if split == "train":
            resident = "epoch" in self._steps and not isinstance(inputs, Stream)
            self._arrays = jax.block_until_ready(jax.device_put(self._splits[split])) if resident else None

    def compile(self, feed: EpochFeed) -> None:
        """See `adapter.Adapter.compile`. The program of an epoch is compiled, and no step of it is trained."""
        if not self._loops(feed):
            super().compile(feed)
            return
        self._epoch(self._begin(feed), *feed.whole_batches(), self._arrays)

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        leaves = self._begin(feed)
        losses: Any = []
        samples = 0
        try:
            if self._loops(feed):
                batches, last = feed.whole_batches()
                program = self._epoch(leaves, batches, last, self._arrays)
                leaves, losses = program(leaves, batches, last, self._arrays)
                samples = batches.size + len(last)
            else:
                for inputs, labels in self._batches(feed):
                    leaves, loss = self._step(leaves, inputs, labels)
                    losses.append(loss)
                    samples += len(labels)
        finally:  # after an error too: the arrays that the variables had before are gone
            nnx.update(self._trained, jax.tree.unflatten(self._structure, leaves))
        self._counted = {"samples": samples, "batches": len(losses)}
        return fetched(losses) if isinstance(losses, list) else np.asarray(losses, np.float64)

    def _begin(self, feed: EpochFeed) -> list[jax.Array]:
        """Give an epoch its rates and its seed; return the state that its first step takes."""
        set_rates(self._optimizer, feed.rates)
        self._seed_dropout(feed.dropout_seed)
        return jax.tree.leaves(nnx.state(self._trained))

    def _batches(self, feed: EpochFeed) -> Iterator[tuple[Any, Any]]:
        if self._arrays and feed.order is None and feed.batch_size == feed.samples:
            yield self._arrays
        else:
            yield from super()._batches(feed)

    def _loops(self, feed: EpochFeed) -> bool:
        """Return whether the epoch is one program, which takes its batches from the arrays on the device."""
        return self._arrays is not None and feed.order is not None and feed.samples >= feed.batch_size
