"""What a recipe, the settings of an experiment and a prepared dataset mean together."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Shape
from trainmark.recipes.batch_order import EpochFeed, epoch_feed
from trainmark.recipes.initial_weights import Weights, initial_weights_of
from trainmark.recipes.recipe import (
    InputTransform,
    Optimizer,
    Rates,
    Recipe,
    is_streamed,
    merged_input,
    merged_optimizer,
    resolved_batch_size,
    seen_shape,
)
from trainmark.recipes.schedules import epoch_rates


@dataclass(frozen=True)
class ResolvedTraining:
    """A training, resolved to what its runs do. The repeats of an experiment differ in their seeds alone.

    settings: the experiment's settings by key, as in the config (described in config/schema.yaml).
    manifest: the prepared dataset's (datasets.prepared).
    """

    recipe: Recipe
    settings: Mapping[str, Any]
    manifest: Mapping[str, Any]

    @property
    def samples(self) -> int:
        """Number of training samples."""
        return int(self.manifest["samples"]["train"])

    @property
    def epoch_steps(self) -> int:
        """Number of steps of an epoch."""
        return ceil(self.samples / self.batch_size)

    @property
    def batch_size(self) -> int:
        """Samples of a step; the last step of an epoch may have fewer."""
        return resolved_batch_size(self.recipe.batch_size, self.settings["batch_size"], self.samples)

    @cached_property
    def transform(self) -> InputTransform | None:
        """The transform of stored images; None if the network takes token ids."""
        return merged_input(self.recipe.input, self.settings["input"])

    @property
    def is_streamed(self) -> bool:
        """Whether samples reach the network from a stream, and not from arrays in memory."""
        return is_streamed(self.transform, self.manifest["kind"])

    @property
    def input_shape(self) -> Shape:
        """Shape of a sample as the network sees it."""
        return seen_shape(self.transform, self.manifest["sample_shape"])

    @cached_property
    def architecture(self) -> Architecture:
        """The network."""
        return self.recipe.network(self.input_shape, self.manifest["classes"], self.settings)

    @cached_property
    def optimizer(self) -> Optimizer:
        """The recipe's optimizer with the experiment's changes. A schedule may change its constants in each epoch."""
        return merged_optimizer(self.recipe, self.settings)

    @property
    def first_optimizer(self) -> Optimizer:
        """The optimizer with the constants of the first epoch, with which adapters are built."""
        return self.optimizer.with_rates(self.rates(1))

    def rates(self, epoch: int) -> Rates:
        """Return the constants of the update rule in an epoch (`EpochFeed.rates`)."""
        schedule = self.settings.get("learning_rate_schedule", {})
        return epoch_rates(self.optimizer, schedule, self.batch_size, epoch)

    def epochs_before_optimizer(self, epoch: int, epochs: int) -> int:
        """Return how many epochs were trained before the optimizer of an epoch was made, in a run of so many epochs.

        epoch: from 1.
        """
        part = epochs // (self.optimizer_restarts + 1)
        return (epoch - 1) // part * part

    @property
    def optimizer_restarts(self) -> int:
        """Number of new optimizers within a run, at equal distances."""
        return int(self.settings.get("optimizer_restarts", 0))

    def seed(self, repeat: int) -> tuple[int, int]:
        """Return the seed sequence of a run: the experiment's seed and the repeat's number, so that repeats differ."""
        return (self.settings["seed"], repeat)

    def feed(self, repeat: int, epoch: int) -> EpochFeed:
        """Return the feed of an epoch (counted from 1)."""
        return epoch_feed(self.samples, self.batch_size, self.seed(repeat), epoch, self.rates(epoch))

    def initial_weights(self, repeat: int) -> Weights:
        """Return the weights from which a repeat starts. Raises DataError for a file that can't be used."""
        return initial_weights_of(self.settings, self.architecture, self.recipe.initializer, self.seed(repeat))
