"""Several workers of Keras on JAX: keras.distribution's DataParallel, as in its documentation."""

import random
from collections.abc import Iterator
from typing import Any

import jax
import keras
import numpy as np

from trainmark.frameworks.adapter import evaluation_batches
from trainmark.frameworks.jax_workers import JaxSharingAdapter
from trainmark.frameworks.keras_adapter import KerasAdapter
from trainmark.frameworks.layouts import to_channels_last
from trainmark.machine.ranks import Ranks
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.stream import Stream

WORKERS = {"keras-jax": {"name": "keras.distribution", "lacks": ["BatchNorm"]}}


def create(framework: str, threads: int, ranks: Ranks) -> "KerasWorkersAdapter":
    """Return the adapter of a rank."""
    return KerasWorkersAdapter(framework, threads, ranks)


class KerasWorkersAdapter(JaxSharingAdapter, KerasAdapter):
    """See `adapter.Adapter`. It evaluates on this rank's device alone, without the other ranks.

    Samples that only fill a share up have no weight.
    """

    def __init__(self, framework: str, threads: int, ranks: Ranks) -> None:
        super().__init__(framework, threads, ranks)
        self._distribution = keras.distribution.DataParallel(auto_shard_dataset=False)

    def build(self, *, observed_batch: int | None = None, **arguments: Any) -> None:
        self._has_masks = observed_batch is not None
        rows = observed_batch and self._rows(observed_batch) * self.ranks.size
        random.seed(0)  # from it Keras draws the first state of dropout, which has to be the same on all ranks
        with self._distribution.scope():
            super().build(observed_batch=rows, **arguments)
        self._logits = jax.jit(lambda *values: self._evaluated.stateless_call(*values)[0])

    def compile(self, feed: EpochFeed) -> None:
        with self._distribution.scope():
            super().compile(feed)

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        with self._distribution.scope():
            return super().train_epoch(feed)

    def _training_data(self, feed: EpochFeed) -> dict[str, Any]:
        data = super()._training_data(feed)
        if not (self._batch_sizes % self.ranks.size).any():
            return data  # without weights, whose sum would take another exchange
        return data | {"x": self._padded_batches(data["x"])}

    def _padded_batches(self, batches: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any, Any]]:
        """Yield (inputs, labels, weights of the samples): Keras divides by the rows of all shares."""
        for (inputs, labels), samples in zip(batches, self._batch_sizes, strict=True):
            weight = self._rows(samples) * self.ranks.size / samples
            weights = np.full(len(labels), weight, keras.config.floatx())
            yield self._padded(inputs, samples), self._padded(labels, samples), self._padded(weights, samples)

    def _samples_of_rank(self) -> int:
        # The metric is that of all ranks.
        return super()._samples_of_rank() if self.ranks.rank == 0 else 0

    def _first_array(self) -> Any:
        return super()._first_array().addressable_data(0)

    def set_masks(self, masks: Weights) -> None:
        KerasAdapter.set_masks(self, {name: self._padded_shares(mask) for name, mask in masks.items()})

    def predict(self, split: str) -> np.ndarray:
        inputs, values = self._splits[split][0], _local_values(self._evaluated)
        batches = evaluation_batches(inputs, self._architecture)
        if isinstance(inputs, Stream):
            batches = map(to_channels_last, batches)
        return np.concatenate([self._logits(*values, batch) for batch in batches])

    def _call(self, model: keras.Model, inputs: Any, training: bool) -> dict[str, Any]:
        if not (training and self._has_masks):
            return model.stateless_call(*_local_values(model), inputs, training=training)[0]
        outputs, _ = model.stateless_call(*_local_values(model), self._padded_shares(inputs), training=True)
        rows = self._padded_shares(np.arange(1, len(inputs) + 1)) > 0
        return {name: output[rows] for name, output in outputs.items()}


def _local_values(model: keras.Model) -> tuple[list, list]:
    trained, others = (
        [variable.value.addressable_data(0) for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    )
    return trained, others
