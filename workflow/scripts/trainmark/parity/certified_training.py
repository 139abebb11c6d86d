"""The certified training of a recipe: the steps and epochs that every trainer repeats, and the samples they need."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from trainmark.datasets import prepared
from trainmark.frameworks.adapter import evaluation_batch_size
from trainmark.loading.streams import open_streams
from trainmark.parity.certified_steps import CertifiedTraining, certified_step_count
from trainmark.parity.precision_check import MOST_BATCHES, MOST_SAMPLES
from trainmark.parity.whole_epochs import (
    MAX_TEST_SAMPLES,
    CertifiedEpochs,
    Splits,
    certified_feeds,
    is_large,
    max_samples,
    needed_samples,
)
from trainmark.recipes import input_transform
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import initial_weights_of
from trainmark.recipes.recipe import DTYPE, Recipe
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.recipes.stream import Batch, Stream
from trainmark.recipes.weights_file import initial_weights_file
from trainmark.records.inputs import initial_weights_sha256

CERTIFIED_SAMPLES = 8
"""Maximum number of samples in a step and in the evaluation. In a step, one for each worker if these are more."""

REPEAT = 1
"""The repeat whose initial weights and batches are certified."""


@dataclass(frozen=True)
class Inputs:
    """Where the inputs of a certified training come from.

    cpus, packed_folder: see `loading.splits.open_splits`.
    """

    resolved: ResolvedTraining
    dataset_folder: Path
    mean: np.ndarray | None
    cpus: int
    packed_folder: Path | None

    def streams(self, dtype: str) -> Mapping[str, Stream]:
        """Open the streams of both splits."""
        transform, loader = self.resolved.transform, self.resolved.settings["loader"]
        assert transform is not None  # token ids are not streamed
        return open_streams(self.dataset_folder, self.mean, transform, dtype, loader, self.cpus, self.packed_folder)

    def arrays(self, split: str, chosen: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (network inputs, labels) of some samples; those for training are transformed as in the first epoch."""
        if self.resolved.is_streamed:
            stream = self.streams(dtype)[split]
            feed = EpochFeed(chosen, len(chosen), len(chosen), 0, self.resolved.feed(REPEAT, 1).augmentation_seed)
            in_training = split == "train"
            (batch,) = stream.training_batches(feed) if in_training else stream.stored_batches(len(chosen), chosen)
            stream.close()
            return batch
        stored, labels = prepared.read_split(self.dataset_folder, split)
        inputs = input_transform.network_inputs(stored[chosen], self.mean, self.resolved.transform, dtype)
        return inputs, np.asarray(labels[chosen])


class Chosen(Stream):
    """Some samples of a stream, as a stream to evaluate."""

    def __init__(self, stream: Stream, chosen: np.ndarray) -> None:
        self._stream, self._chosen = stream, chosen
        self.labels, self.input_shape, self.dtype = stream.labels[chosen], stream.input_shape, stream.dtype
        self.evaluation_batch_size = stream.evaluation_batch_size

    def training_batches(self, feed: EpochFeed) -> Iterator[Batch]:
        """See `Stream`. It has none."""
        raise NotImplementedError("these samples are for evaluation")

    def stored_batches(self, batch_size: int, samples: np.ndarray | None = None) -> Iterator[Batch]:
        """See `Stream`."""
        return self._stream.stored_batches(batch_size, self._chosen if samples is None else self._chosen[samples])

    def close(self) -> None:
        """See `Stream`."""
        self._stream.close()


def certified_batches(feed: Callable[[int], EpochFeed], steps: int, samples: int = CERTIFIED_SAMPLES) -> np.ndarray:
    """Return the sample indices of the certified steps: (steps, samples of a step).

    Each step takes the first samples of one of the run's first batches. A batch with fewer samples than the others is
    left out. If the first epoch has too few batches, those of the next epochs follow.

    feed: returns an epoch of the run by its number, from 1.
    samples: number of samples of a step; fewer if a batch has fewer.
    """
    batches: list[np.ndarray] = []
    for one in map(feed, count(1)):
        size = min(samples, one.batch_size)
        order = np.arange(one.samples) if one.order is None else one.order
        starts = range(0, one.samples, one.batch_size)
        batches += [order[start : start + size] for start in starts if start + size <= one.samples]
        if len(batches) >= steps:
            break
    return np.stack(batches[:steps])


def certified_training(
    recipe: Recipe,
    settings: Mapping,
    dataset_folder: Path,
    mean_file: Path | None,
    cpus: int = 1,
    packed_folder: Path | None = None,
    workers: int = 1,
) -> CertifiedTraining:
    """Return the certified training of a recipe on a prepared dataset.

    mean_file, cpus, packed_folder: see `loading.splits.open_splits`.
    workers: the largest number of workers of the trainers that repeat it.

    Images are cropped to the recipe's `certified_side`. If runs take them from streams, the steps train on images
    cropped and flipped as in the first epoch, and the whole epochs on streams.
    """
    manifest = prepared.read_manifest(dataset_folder)
    resolved = ResolvedTraining(recipe, settings, manifest)
    seeds, tests = resolved.seed(REPEAT), manifest["samples"]["test"]
    mean = np.load(mean_file, allow_pickle=False) if mean_file else None
    inputs = Inputs(resolved, dataset_folder, mean, cpus, packed_folder)
    steps = certified_step_count(resolved.architecture)
    feed = partial(resolved.feed, REPEAT)
    batches = certified_batches(feed, steps, max(CERTIFIED_SAMPLES, workers))
    full_batches = certified_batches(feed, MOST_BATCHES, min(resolved.batch_size, MOST_SAMPLES))
    indices = np.concatenate([batches.ravel(), full_batches.ravel()])
    train_indices, positions = np.unique(indices, return_inverse=True)
    test_indices = _spread(tests, CERTIFIED_SAMPLES)
    splits = {}
    for split, chosen in (("train", train_indices), ("test", test_indices)):
        images, labels = inputs.arrays(split, chosen, "float64")
        side = recipe.certified_side
        if side is not None and min(images.shape[2:]) > side:  # smaller images stay as they are
            top, left, height, width = input_transform.centre_window(images.shape[2:], (side, side))
            images = images[:, :, top : top + height, left : left + width]
        splits[split] = images, labels
    architecture = recipe.network(splits["train"][0].shape[1:], manifest["classes"], settings)
    epochs = _certified_epochs(feed, tests, inputs)
    description = {
        "architecture": architecture.name,
        "parameters": architecture.parameter_count(),
        "classes": manifest["classes"],
        "input_shape": list(architecture.input_shape),
        "trained_input_shape": list(resolved.input_shape),
        "dataset_sha256": manifest["content_sha256"],
        "steps": steps,
        "batch_size": int(batches.shape[1]),
        "evaluation_samples": len(test_indices),
        "epochs": {
            "batches": [one.steps for one in epochs.feeds],
            "samples": [one.samples for one in epochs.feeds],
            "batch_size": resolved.batch_size,
        },
        "initial_weights_sha256": initial_weights_sha256(initial_weights_file(settings)),
    }
    weights = initial_weights_of(settings, architecture, recipe.initializer, seeds, resized=True)
    in_steps, in_full = np.split(positions, [batches.size])
    restarts = resolved.optimizer_restarts > 0
    return CertifiedTraining(
        architecture=architecture,
        weights=weights,
        optimizer=epochs.optimizer,
        splits=splits,
        batches=in_steps.reshape(batches.shape),
        full_batches=in_full.reshape(full_batches.shape),
        seed=seeds,
        epochs=epochs,
        settings=description,
        restarts=restarts,
    )


def _spread(samples: int, most: int) -> np.ndarray:
    """Return at most `most` sample indices, spread evenly."""
    return np.linspace(0, samples - 1, min(most, samples)).astype(int)


def _certified_epochs(feed: Callable[[int], EpochFeed], tests: int, inputs: Inputs) -> CertifiedEpochs:
    """Return the whole epochs of a recipe. feed: see `certified_feeds`. tests: the number of test samples."""
    resolved = inputs.resolved
    splits: Splits = {}
    limit = max_samples(resolved.architecture)
    feeds = () if is_large(resolved.architecture) else certified_feeds(feed, limit)
    test_indices = _spread(tests, min(limit, MAX_TEST_SAMPLES))
    if feeds and resolved.is_streamed:
        streams = inputs.streams(DTYPE)
        train, test = streams["train"], streams["test"]
        train.evaluation_batch_size = test.evaluation_batch_size = evaluation_batch_size(resolved.architecture)
        splits = {"train": (train, train.labels), "test": (Chosen(test, test_indices), test.labels[test_indices])}
    elif feeds:
        train_indices, feeds = needed_samples(feeds)
        chosen = {"train": train_indices, "test": test_indices}
        splits = {split: inputs.arrays(split, indices, DTYPE) for split, indices in chosen.items()}
    return CertifiedEpochs(
        architecture=resolved.architecture,
        weights=resolved.initial_weights(REPEAT),
        optimizer=resolved.first_optimizer,
        splits=splits,
        feeds=feeds,
    )
