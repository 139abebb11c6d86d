"""The certified steps: one trainer takes them, step by step, and all that it shows of itself is kept as a trace.

The steps are those of the `stock` loop: `Adapter.train_epoch` on an epoch of one batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from trainmark.datasets import prepared
from trainmark.errors import ShapeError
from trainmark.frameworks.adapter import Adapter
from trainmark.networks.graph import Architecture
from trainmark.parity.sketches import Sketches
from trainmark.parity.trace import Failure, StageTrace, Trace
from trainmark.parity.update_check import UpdateCheck
from trainmark.recipes import input_transform
from trainmark.recipes.batch_order import EpochFeed, epoch_feed, run_seed
from trainmark.recipes.initial_weights import Weights, first_weights
from trainmark.recipes.recipe import Optimizer, Recipe, asked_batch_size, merged_input, seen_shape

CERTIFIED_STEPS = 10
CERTIFIED_SAMPLES = 8
"""Most samples a step, and of the evaluation."""

EPOCH_STEPS = 2
"""Steps that are also taken as one epoch: few, since it is not compared where fewer count (see compare.CHAOS)."""

REPEAT = 1
"""The repeat whose first weights and batches are certified."""

MASKS = 2
"""Word of the seed of the dropout masks; 0 and 1 are those of weights.first_weights and batches.epoch_feed."""

LAST_BIT = 3
"""Seed of the signs of the changes in the last bit."""

Splits = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Plan:
    """What every trainer of a certificate does.

    weights: the first ones. splits: (inputs, labels) of "train" and "test", the few samples that are needed: images
    float64, token ids int32. batches: indices into "train", (steps, samples). seed: of the dropout masks. settings:
    what the certificate says of all this.
    """

    architecture: Architecture
    weights: Weights
    optimizer: Optimizer
    splits: Splits
    batches: np.ndarray
    seed: tuple[int, ...]
    settings: Mapping = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One of the trainings of a trace, each from the first weights.

    masks: whether dropout is on, by masks drawn with numpy. optimizer: in place of the plan's. again: whether every
    step, and not only the first, starts from the first weights. epoch: whether the first steps are also taken as one
    epoch, as runs take them: it shows the order of batches, and what a step leaves to the next.
    last_bit: whether it begins from weights that are changed in their last bit; its final weights are not kept. judged:
    whether its updates are checked against their rule: those of a stage that decides no class need not be.
    """

    dtype: str
    masks: bool = False
    optimizer: Optimizer | None = None
    again: bool = False
    epoch: bool = False
    last_bit: bool = False
    judged: bool = True


STAGES = {
    "network": Stage("float64", optimizer=Optimizer("sgd", 0.1), again=True),
    "steps": Stage("float64", epoch=True),
    "masks": Stage("float64", masks=True),
    "twin": Stage("float64", last_bit=True, judged=False),
    "float32": Stage("float32", judged=False),
}
"""The network itself, on every batch from the first weights; the recipe's training; that with dropout, where there is
any; how far the training by itself parts two that differ in the last bit of their first weights; and how far float32
drifts."""


def trace(adapter: Adapter, plan: Plan, device: str, stages: Mapping[str, Stage] = STAGES) -> Trace:
    """Take the steps of each stage. A layer of another shape, and memory that runs out, is a trace that says so.

    Raises DeviceError where the framework does not see the device, or puts its arrays on another.
    """
    taken: dict[str, StageTrace] = {}
    failure = None
    for name, stage in stages.items():
        if stage.masks and not plan.architecture.has_dropout:
            continue
        try:
            taken[name] = _trace_stage(adapter, plan, device, stage)
        except ShapeError as error:
            failure = Failure("shape", name, error.node, str(error))
        except Exception as error:
            if not adapter.is_out_of_memory(error):
                raise
            print(f"out of memory in the stage {name}: {error}", flush=True)  # to the log: it may have many lines
            failure = Failure("out_of_memory", name, None, type(error).__name__)
        if failure:
            break
    float32_ops = tuple(adapter.float32_ops)
    return Trace(adapter.framework, device, adapter.versions(), taken, plan.settings, failure, float32_ops)


def _build(adapter: Adapter, plan: Plan, device: str, stage: Stage, optimizer: Optimizer) -> None:
    """Make the network anew, with the samples that it needs."""
    adapter.build(
        architecture=plan.architecture,
        weights=changed_in_the_last_bit(plan.weights) if stage.last_bit else plan.weights,
        optimizer=optimizer,
        device=device,
        dtype=stage.dtype,
        observed_batch=plan.batches.shape[1],
    )
    adapter.check_device(device)
    for split, (inputs, labels) in plan.splits.items():
        seen = inputs.astype(stage.dtype) if np.issubdtype(inputs.dtype, np.floating) else inputs
        adapter.load(split=split, inputs=seen, labels=labels)


def _trace_stage(adapter: Adapter, plan: Plan, device: str, stage: Stage) -> StageTrace:
    optimizer = stage.optimizer or plan.optimizer
    _build(adapter, plan, device, stage, optimizer)
    first_weights, state = adapter.weights(), adapter.state()
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
            check = UpdateCheck(plan.architecture, optimizer, first_weights)
        if stage.masks:
            adapter.set_masks(masks(plan.architecture, len(batch), plan.seed, step))
        if step == 1:
            activations = Sketches.of(adapter.activations("train", batch, training=True))
        losses.append(adapter.train_epoch(EpochFeed(batch, len(batch), len(batch), dropout_seed=0))[0])
        gradient, final = adapter.gradients(), adapter.weights()
        gradients.append(Sketches.of(gradient))
        weights.append(Sketches.of(final))
        if stage.judged:
            updates.append(check.after(gradient, final))
    evaluation = adapter.activations("test", np.arange(len(plan.splits["test"][1])), training=False)
    # In the plainest stage, of what makes the accuracy of runs; it is another program to compile.
    logits = adapter.predict("test") if stage.again else evaluation[plan.architecture.output]
    return StageTrace(
        rule=optimizer.rule,
        losses=np.array(losses, np.float64),
        epoch_losses=epoch_losses,
        epoch_weights=epoch_weights,
        update_layers=tuple(layer for layer, _ in updates),
        update_errors=np.array([error for _, error in updates], np.float64),
        first_weights=Sketches.of(first_weights),
        activations=activations,
        gradients=tuple(gradients),
        weights=tuple(weights),
        evaluation=Sketches.of(evaluation),
        logits=logits,
        final={} if stage.last_bit else final,
    )


def changed_in_the_last_bit(weights: Weights) -> Weights:
    """Each float64 value one larger or smaller in its last bit, by numpy's choice; zeros stay."""
    generator = np.random.default_rng(LAST_BIT)
    signs = {name: generator.integers(0, 2, array.shape) for name, array in weights.items()}
    return {name: np.nextafter(array, array * np.where(signs[name], 2, 0.5)) for name, array in weights.items()}


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
    splits = {}
    for split, wanted in chosen.items():
        stored, labels = prepared.read_split(dataset_folder, split)
        seen = input_transform.network_inputs(stored[wanted], mean, transform, "float64")
        splits[split] = _cut(seen, recipe.certified_side), np.asarray(labels[wanted])
    architecture = recipe.architecture(splits["train"][0].shape[1:], manifest["classes"])
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
    }
    weights = first_weights(architecture, recipe.initializer, seeds)
    return Plan(architecture, weights, recipe.optimizer, splits, places.reshape(batches.shape), seeds, shown)


def _cut(inputs: np.ndarray, side: int | None) -> np.ndarray:
    """The centred window of `side` pixels of images that are larger."""
    if side is None or min(inputs.shape[2:]) < side:
        return inputs
    top, left, height, width = input_transform.centre_window(inputs.shape[2:], (side, side))
    return inputs[:, :, top : top + height, left : left + width]
