"""The tuned loop of Keras on TensorFlow and JAX: the arrays on the device, an epoch compiled as a whole.

On the CPU, XLA computes convolutions in a compiled loop many times slower than outside it. For networks with
convolutions, JAX therefore compiles single steps there, and TensorFlow does without XLA.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from trainmark.frameworks.keras_adapter import KerasAdapter
from trainmark.frameworks.keras_layers import convolution
from trainmark.frameworks.keras_optimizers import set_rates
from trainmark.frameworks.tuning import StepsTaken
from trainmark.networks.graph import Architecture, maximised
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.stream import Stream

TUNING = {
    "keras-tensorflow": {
        "steps": {"text": "compiled steps without Keras's fit"},
        "epoch": {"text": "arrays on the device, an epoch as a loop of the graph", "resident": True},
        "xla": {"text": "compiled with XLA", "slow_with": "Conv"},
        "maxima": {"text": "gradients only where a maximum over time is", "device": "cpu", "op": "GlobalMaxPool1D"},
    },
    "keras-jax": {
        "steps": {"text": "compiled steps without Keras's fit"},
        "epoch": {"text": "arrays on the device, an epoch as one program", "slow_with": "Conv", "resident": True},
        "maxima": {"text": "gradients only where a maximum over time is", "device": "cpu", "op": "GlobalMaxPool1D"},
    },
}
"""The steps from the stock loop, see `tuning.TuningStep`."""


class Conv1D(keras.layers.Conv1D):
    """A convolution of sequences that in training may give only the largest output of each filter.

    The gradient is then that of one window per filter and not of all.

    maximised: whether only the maximum over time is needed (`graph.maximised`).
    """

    maximised = False

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Return (samples, length, filters); the length is 1 if only the maximum is needed."""
        outputs = super().call(inputs)
        if not (self.maximised and training):
            return outputs
        _, length, channels = inputs.shape
        places = ops.argmax(ops.stop_gradient(outputs), axis=1)[..., None] * self.strides[0]
        places += ops.arange(self.kernel_size[0], dtype="int32")
        rows = length * ops.arange(ops.shape(inputs)[0], dtype="int32")[:, None, None] + places
        windows = ops.take(ops.reshape(inputs, (-1, channels)), rows, axis=0)
        largest = ops.einsum("nfsc,scf->nf", windows, self.kernel)
        return (largest + self.bias if self.use_bias else largest)[:, None]


def create(framework: str, threads: int, taken: StepsTaken) -> "TunedKerasAdapter":
    """Return the tuned adapter of a framework."""
    return TunedKerasAdapter(framework, threads, taken)


def _programs() -> Callable[..., Any]:
    if keras.backend.backend() == "jax":
        from trainmark.frameworks.keras_tuned_jax import JaxPrograms

        return JaxPrograms
    from trainmark.frameworks.keras_tuned_tensorflow import TensorFlowPrograms

    return TensorFlowPrograms


class TunedKerasAdapter(KerasAdapter):
    """See `adapter.Adapter`."""

    loop = "tuned"

    def __init__(self, framework: str, threads: int, taken: StepsTaken) -> None:
        super().__init__(framework, threads)
        self._taken = taken

    def build(self, *, architecture: Architecture, device: str, **arguments: Any) -> None:
        self._steps = self._taken({node.op for node in architecture.nodes}, device)
        if "maxima" in self._steps:
            self._replaced_layers = {"Conv1D": lambda node, rank: convolution(Conv1D, node)}
        super().build(architecture=architecture, device=device, **arguments)
        self._maximised = maximised(architecture) if "maxima" in self._steps else set()
        self._set_maximised(True)
        auxiliary_weights = tuple(weight for _, weight in architecture.auxiliary)
        self._programs = _programs()(self._model, self._optimizer, auxiliary_weights, self._steps)
        self._arrays: tuple[Any, Any] | None = None

    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        """See `adapter.Adapter.load`. The arrays of training are sent to the device once."""
        super().load(split=split, inputs=inputs, labels=labels)
        if split == "train":
            resident = "epoch" in self._steps and not isinstance(inputs, Stream)
            self._arrays = self._programs.send(*self._splits[split]) if resident else None

    def compile(self, feed: EpochFeed) -> None:
        """See `adapter.Adapter.compile`. Of a compiled epoch, JAX trains no step and TensorFlow one."""
        if self._loops(feed):
            assert self._arrays is not None  # _loops tells
            self._begin(feed)
            self._programs.compile_loop(*feed.whole_batches(), self._arrays)
            self._programs.finish()
        else:
            self.train_epoch(feed.one_of_each_size())

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        self._begin(feed)
        if self._loops(feed):
            assert self._arrays is not None  # _loops tells
            batches, last = feed.whole_batches()
            losses = self._programs.loop(batches, last, self._arrays)
            samples = batches.size + len(last)
        else:
            singles, samples = [], 0
            with self._raising_stream_errors():
                for inputs, labels in self._batches_of(feed):
                    singles.append(self._programs.step(inputs, labels))
                    samples += len(labels)
            losses = self._programs.stack(singles)
        self._programs.finish()
        self._counts = {"samples": samples, "batches": len(losses)}
        return np.asarray(ops.convert_to_numpy(losses), np.float64)

    def _begin(self, feed: EpochFeed) -> None:
        set_rates(self._optimizer, feed.rates)
        self._seed_dropout(feed.dropout_seed)
        self._programs.begin()

    def _loops(self, feed: EpochFeed) -> bool:
        """Return whether the epoch is one program, which takes its batches from the arrays on the device."""
        return self._arrays is not None and feed.order is not None and feed.samples >= feed.batch_size

    def _batches_of(self, feed: EpochFeed) -> Iterator[tuple[Any, Any]]:
        inputs, labels = self._splits["train"]
        if isinstance(inputs, Stream):
            yield from self._converted(inputs.training_batches(feed))
        elif self._arrays and feed.order is None and feed.batch_size == len(labels):
            yield self._arrays
        else:
            yield from feed.batches(inputs, labels)

    def activations(self, split: str, indices: Sequence[int] | np.ndarray, *, training: bool) -> dict[str, np.ndarray]:
        """See `adapter.ObservedAdapter.activations`. All outputs are asked for, also in training."""
        self._set_maximised(False)
        try:
            return super().activations(split, indices, training=training)
        finally:
            self._set_maximised(True)

    def _set_maximised(self, value: bool) -> None:
        for name in self._maximised:
            self._model.get_layer(name).maximised = value

    def counted(self) -> dict[str, int]:
        return {**self._counts, "updates": int(keras.ops.convert_to_numpy(self._optimizer.iterations))}
