"""The certified steps: one trainer takes them, step by step, and all that it shows of itself is kept as a trace.

The steps are those of the `stock` loop: `Adapter.train_epoch` on an epoch of one batch. Whole epochs of full batches
follow (whole_epochs), and a check of the adapter by itself (adapter_check).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from trainmark.datasets import prepared
from trainmark.errors import PrecisionError, ShapeError
from trainmark.frameworks.adapter import Adapter
from trainmark.networks.graph import Architecture
from trainmark.parity.adapter_check import check_adapter
from trainmark.parity.epoch_check import EpochTrace
from trainmark.parity.sketches import Sketches
from trainmark.parity.trace import Failure, StageTrace, Trace
from trainmark.parity.update_check import UpdateCheck
from trainmark.parity.whole_epochs import (
    MOST_TESTED,
    EpochPlan,
    feeds_of,
    last_two_batches,
    most_samples,
    needed_samples,
    perturbed,
    signs,
    train_epochs,
)
from trainmark.recipes import input_transform
from trainmark.recipes.batch_order import EpochFeed, epoch_feed, run_seed
from trainmark.recipes.initial_weights import Weights, draw_initial_weights
from trainmark.recipes.recipe import DTYPE, Optimizer, Recipe, asked_batch_size, merged_input, seen_shape

CERTIFIED_STEPS = 10
CERTIFIED_SAMPLES = 8
"""Most samples a step, and of the evaluation."""

EPOCH_STEPS = 2
"""Steps that are also taken as one epoch: few, since it is not compared where fewer count (see compare.CHAOS)."""

REPEAT = 1
"""The repeat whose initial weights and batches are certified."""

MASKS = 2
"""Word of the seed of the dropout masks; 0 and 1 are those of_initial_weights and batches.epoch_feed."""

LAST_BIT = 3
"""Seed of the signs of the changes in the last bit."""

FLOAT32_CHANGE = 2.0**-20
"""By how much each initial weight of the copy in float32 is changed, relative: eight of its last bits."""

Splits = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Plan:
    """What every trainer of a certificate does.

    weights: the first ones. splits: (inputs, labels) of "train" and "test", the few samples that are needed: images
    float64, token ids int32. batches: indices into "train", (steps, samples). seed: of the dropout masks. epochs: that
    are trained besides as runs train them, on splits of their own; None: none, and the adapter is not checked by
    itself. settings: what the certificate says of all this.
    """

    architecture: Architecture
    weights: Weights
    optimizer: Optimizer
    splits: Splits
    batches: np.ndarray
    seed: tuple[int, ...]
    epochs: EpochPlan | None = None
    settings: Mapping = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One of the trainings of a trace, each from the initial weights.

    masks: train with dropout, by masks drawn with numpy. optimizer: use this one instead of the plan's. again: start
    every step, and not only the first, from the initial weights. epoch: also take the first steps as one epoch, as runs
    do; it shows the order of batches, and what a step leaves to the next. copy: start from perturbed initial weights;
    the final weights are not kept. judged: check the updates against their rule; a stage that decides no class needs
    no check.
    """

    dtype: str
    masks: bool = False
    optimizer: Optimizer | None = None
    again: bool = False
    epoch: bool = False
    copy: bool = False
    judged: bool = True


PLAIN = Optimizer("sgd", 0.1)

STAGES = {
    "network": Stage("float64", optimizer=PLAIN, again=True),
    "steps": Stage("float64", epoch=True),
    "twin": Stage("float64", copy=True, judged=False),
    "masks": Stage("float64", masks=True),
    "float32": Stage("float32", optimizer=PLAIN, again=True, judged=False),
    "float32 copy": Stage("float32", optimizer=PLAIN, again=True, copy=True, judged=False),
}
"""The network itself, on every batch from the initial weights; the recipe's training; how far it parts by itself two
that differ in the last bit of their initial weights; the training with dropout, where there is any; the network in
float32; and that of a perturbed copy. Stages of one dtype and one optimizer follow each other: the network is built
once for them. Masks can't be taken off again: that stage is the last of its own."""


def trace(adapter: Adapter, plan: Plan, device: str, stages: Mapping[str, Stage] = STAGES) -> Trace:
    """Take the steps of each stage, train the plan's epochs, and check the adapter.

    A layer of another shape, two-byte numbers, and memory that runs out, are a trace that says so. Raises DeviceError
    where the framework does not see the device, or puts its arrays on another.
    """
    taken: dict[str, StageTrace] = {}
    epochs: EpochTrace | None = None
    checks: dict[str, str | None] = {}
    failure, name = None, ""
    try:
        for name, stage, state in _built(adapter, plan, device, stages):
            taken[name] = _trace_stage(adapter, plan, stage, state)
        if plan.epochs:
            name = "epochs"
            epochs = train_epochs(adapter, plan.epochs, device)
            name = "checks"
            checks = check_adapter(adapter, plan.architecture, device)
    except ShapeError as error:
        failure = Failure("shape", name, error.node, str(error))
    except PrecisionError as error:
        failure = Failure("precision", name, None, str(error))
    except Exception as error:
        if not adapter.is_out_of_memory(error):
            raise
        print(f"out of memory in the stage {name}: {error}", flush=True)  # to the log: it may have many lines
        failure = Failure("out_of_memory", name, None, type(error).__name__)
    float32_ops = tuple(adapter.float32_ops)
    versions = adapter.versions()
    return Trace(adapter.framework, device, versions, taken, epochs, checks, plan.settings, failure, float32_ops)


State = dict[str, np.ndarray]


def _built(
    adapter: Adapter, plan: Plan, device: str, stages: Mapping[str, Stage]
) -> Iterator[tuple[str, Stage, State]]:
    """Each stage that the network has, with its initial state, which the adapter is in."""
    built, state = None, {}
    for name, stage in stages.items():
        if stage.masks and not plan.architecture.has_dropout:
            continue
        optimizer = stage.optimizer or plan.optimizer
        if built != (stage.dtype, optimizer):
            _build(adapter, plan, device, stage.dtype, optimizer)
            built, state = (stage.dtype, optimizer), adapter.state()
        adapter.set_state(state)
        if stage.copy:
            adapter.set_weights(perturbed_copy(plan.weights, stage.dtype))
        yield name, stage, adapter.state()


def _build(adapter: Adapter, plan: Plan, device: str, dtype: str, optimizer: Optimizer) -> None:
    """Make the network anew, with the samples that it needs."""
    adapter.build(
        architecture=plan.architecture,
        weights=plan.weights,
        optimizer=optimizer,
        device=device,
        dtype=dtype,
        observed_batch=plan.batches.shape[1],
    )
    adapter.check_device(device)
    adapter.check_precision("weights", adapter.weights())
    for split, (inputs, labels) in plan.splits.items():
        seen = inputs.astype(dtype) if np.issubdtype(inputs.dtype, np.floating) else inputs
        adapter.load(split=split, inputs=seen, labels=labels)


def _trace_stage(adapter: Adapter, plan: Plan, stage: Stage, state: State) -> StageTrace:
    optimizer = stage.optimizer or plan.optimizer
    initial_weights = adapter.weights()
    epoch_losses, epoch_weights = np.zeros(0), None
    if stage.epoch:  # first: it makes room for its losses, and what is compiled for them serves single steps too
        order = np.concatenate(plan.batches[:EPOCH_STEPS])
        feed = EpochFeed(order, plan.batches.shape[1], len(order), dropout_seed=0)
        epoch_losses, epoch_weights = adapter.train_epoch(feed), Sketches.of(adapter.weights())
        adapter.set_state(state)
    losses, gradients, weights, updates = [], [], [], []
    for step, batch in enumerate(plan.batches, start=1):
        if stage.again:
            adapter.set_state(state)
        if step == 1 or stage.again:
            check = UpdateCheck(plan.architecture, optimizer, initial_weights)
        if stage.masks:
            adapter.set_masks(masks(plan.architecture, len(batch), plan.seed, step))
        if step == 1:
            activations = _sketched(adapter, "output", adapter.activations("train", batch, training=True))
        losses.append(adapter.train_epoch(EpochFeed(batch, len(batch), len(batch), dropout_seed=0))[0])
        gradient, final = adapter.gradients(), adapter.weights()
        gradients.append(_sketched(adapter, "gradient", gradient))
        weights.append(Sketches.of(final))
        if stage.judged:
            updates.append(check.after(gradient, final))
    evaluation = adapter.activations("test", np.arange(len(plan.splits["test"][1])), training=False)
    # In the plainest stage, of what makes the accuracy of runs; it is another program to compile.
    logits = adapter.predict("test") if stage.again else evaluation[plan.architecture.output]
    adapter.check_precision("prediction", {plan.architecture.output: logits})
    return StageTrace(
        rule=optimizer.rule,
        losses=np.array(losses, np.float64),
        epoch_losses=epoch_losses,
        epoch_weights=epoch_weights,
        update_layers=tuple(layer for layer, _ in updates),
        update_errors=np.array([error for _, error in updates], np.float64),
        initial_weights=Sketches.of(initial_weights),
        activations=activations,
        gradients=tuple(gradients),
        weights=tuple(weights),
        evaluation=_sketched(adapter, "output", evaluation),
        logits=logits,
        final={} if stage.copy else final,
    )


def _sketched(adapter: Adapter, what: str, arrays: Mapping[str, np.ndarray]) -> Sketches:
    adapter.check_precision(what, arrays)
    return Sketches.of(arrays)


def perturbed_copy(weights: Weights, dtype: str) -> Weights:
    """Each value a little larger or smaller, by numpy's choice; zeros stay. In float64 by its last bit."""
    if dtype == "float32":
        return perturbed(weights, FLOAT32_CHANGE, LAST_BIT)
    drawn = signs(weights, LAST_BIT)
    return {name: np.nextafter(array, array * 2.0 ** drawn[name]) for name, array in weights.items()}


def masks(architecture: Architecture, samples: int, seed: tuple[int, ...], step: int) -> Weights:
    """What each Dropout layer multiplies its input by in a step: 0, or 1 / (1 - rate); float64, (samples, *shape)."""
    generator = np.random.default_rng([*seed, MASKS, step])
    shapes = architecture.shapes()
    drawn = {}
    for node in architecture.nodes:
        if node.op == "Dropout":
            kept = generator.random((samples, *shapes[node.name])) >= node.attributes["rate"]
            drawn[node.name] = kept / (1 - node.attributes["rate"])
    return drawn


# --- the plan -----------------------------------------------------------------------------------------------------


def certified_batches(samples: int, batch_size: int | None, seed: tuple[int, ...]) -> np.ndarray:
    """The first CERTIFIED_SAMPLES of each of the run's first batches, by their indices: (CERTIFIED_STEPS, samples).

    A batch that is smaller than the others is left out. Where an epoch has too few batches, the next ones follow.
    """
    size = min(CERTIFIED_SAMPLES, batch_size or samples, samples)
    batches: list[np.ndarray] = []
    for epoch in count(1):
        feed = epoch_feed(samples, batch_size, seed, epoch)
        order = np.arange(samples) if feed.order is None else feed.order
        starts = range(0, samples, feed.batch_size)
        batches += [order[start : start + size] for start in starts if start + size <= samples]
        if len(batches) >= CERTIFIED_STEPS:
            break
    return np.stack(batches[:CERTIFIED_STEPS])


def certified_plan(recipe: Recipe, settings: Mapping, dataset_folder: Path, mean_file: Path | None) -> Plan:
    """The plan of a recipe on a prepared dataset.

    settings: the experiment's, by key, as the config gives them. mean_file: of the dataset's mean image, None for token
    ids. Images are cut down to the recipe's `certified_side`.
    """
    seeds = run_seed(settings["seed"], REPEAT)
    transform = merged_input(recipe, settings["input"])
    manifest = prepared.read_manifest(dataset_folder)
    batch_size = asked_batch_size(recipe, settings["batch_size"])
    batches = certified_batches(manifest["samples"]["train"], batch_size, seeds)
    indices, places = np.unique(batches, return_inverse=True)
    tested = manifest["samples"]["test"]
    chosen = {"train": indices, "test": np.linspace(0, tested - 1, min(CERTIFIED_SAMPLES, tested)).astype(int)}
    mean = np.load(mean_file, allow_pickle=False) if mean_file else None
    stored = {split: prepared.read_split(dataset_folder, split) for split in chosen}

    def seen(split: str, wanted: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = stored[split]
        return input_transform.network_inputs(inputs[wanted], mean, transform, dtype), np.asarray(labels[wanted])

    splits = {}
    for split, wanted in chosen.items():
        inputs, labels = seen(split, wanted, "float64")
        splits[split] = _cut(inputs, recipe.certified_side), labels
    architecture = recipe.architecture(splits["train"][0].shape[1:], manifest["classes"])
    trained = recipe.architecture(seen_shape(transform, manifest["sample_shape"]), manifest["classes"])
    epochs = _epoch_plan(recipe, trained, manifest, batch_size, seeds, seen)
    shown = {
        "seed": settings["seed"],
        "architecture": architecture.name,
        "parameters": architecture.parameter_count(),
        "classes": manifest["classes"],
        "initializer": recipe.initializer,
        "optimizer": recipe.optimizer.as_dict(),
        "input_shape": list(architecture.input_shape),
        "trained_input_shape": list(seen_shape(transform, manifest["sample_shape"])),
        "dataset_sha256": manifest["content_sha256"],
        "steps": CERTIFIED_STEPS,
        "samples": int(batches.shape[1]),
        "evaluation_samples": len(chosen["test"]),
        "epochs": _format_feeds(epochs.feeds),
    }
    weights = draw_initial_weights(architecture, recipe.initializer, seeds)
    return Plan(architecture, weights, recipe.optimizer, splits, places.reshape(batches.shape), seeds, epochs, shown)


def _format_feeds(feeds: Sequence[EpochFeed]) -> dict:
    """What the certificate says of the whole epochs."""
    return {
        "batches": [feed.steps for feed in feeds],
        "samples": [feed.samples for feed in feeds],
        "batch_size": feeds[0].batch_size,
    }


def _epoch_plan(
    recipe: Recipe,
    architecture: Architecture,
    manifest: Mapping,
    batch_size: int | None,
    seeds: tuple[int, ...],
    seen: Callable[[str, np.ndarray, str], tuple[np.ndarray, np.ndarray]],
) -> EpochPlan:
    """seen: (inputs, labels) of some samples of a split in a dtype, as the network sees them."""
    most = most_samples(architecture)
    feeds = feeds_of(manifest["samples"]["train"], batch_size, seeds, most)
    tail = last_two_batches(feeds[0])
    indices, placed = needed_samples([*feeds, tail] if tail else feeds)
    tested = manifest["samples"]["test"]
    chosen = np.linspace(0, tested - 1, min(most, MOST_TESTED, tested)).astype(int)
    return EpochPlan(
        architecture=architecture,
        weights=draw_initial_weights(architecture, recipe.initializer, seeds),
        optimizer=recipe.optimizer,
        splits={"train": seen("train", indices, DTYPE), "test": seen("test", chosen, DTYPE)},
        feeds=placed[: len(feeds)],
        tail=placed[-1] if tail else None,
    )


def _cut(inputs: np.ndarray, side: int | None) -> np.ndarray:
    """The centred window of `side` pixels of images that are larger."""
    if side is None or min(inputs.shape[2:]) < side:
        return inputs
    top, left, height, width = input_transform.centre_window(inputs.shape[2:], (side, side))
    return inputs[:, :, top : top + height, left : left + width]
