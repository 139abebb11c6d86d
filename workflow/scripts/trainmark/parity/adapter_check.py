"""Compares an adapter with numpy in what a comparison of two trainers does not show.

Small networks with known results are built and trained as runs do: in float32 and without `observed_batch`.

Update: the first updates of a softmax regression by the recipe's update rule. Order: three epochs of it, each at a
learning rate of its own. Evaluation: more samples than fit into one evaluation batch, before the training and after
each epoch. Dropout: see dropout_check.
"""

from dataclasses import replace

import numpy as np

from trainmark.frameworks.adapter import EVALUATION_BATCH_SIZE, Adapter
from trainmark.networks.graph import Architecture, chain
from trainmark.parity.dropout_check import wrong_dropout
from trainmark.parity.precision_check import ROUNDING
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import DTYPE, Optimizer
from trainmark.recipes.reference import Reference

TOLERANCE = 1e-5
"""Relative tolerance of logits and of updates, and a tenth of that of losses: float32 rounds by 6e-8."""

UPDATES = 2
"""Number of successive updates that are compared one by one: the second one uses what the first has stored."""

FEATURES, CLASSES, EPOCHS = 6, 3, 3

FULL_BATCHES, LAST_BATCH, MORE_SAMPLES = 4, 8, 2
"""An epoch's full batches, the samples of its shorter last one (one for each worker, if they are more), and by how many
the others are larger."""

LEARNING_RATES = (0.05, 0.02, 0.08)
"""Learning rate of each epoch: first that of the optimizer, then those of feeds, as schedules change it.

They are those of no recipe: at 1e-3, an update of Adam is so small beside a weight that its digits are lost.
"""


def check_adapter(
    adapter: Adapter,
    architecture: Architecture,
    optimizer: Optimizer,
    seed: tuple[int, ...],
    device: str,
    workers: int = 1,
) -> dict[str, str | None]:
    """Return by check what is wrong, as a phrase, or None.

    The checks are "evaluation", "update", "order" and, if the network has it, "dropout".

    architecture: the recipe's network, of which each Dropout layer is checked.
    optimizer: that of the runs; the learning rates are LEARNING_RATES.
    seed: that of a run.

    The adapter is built anew.
    """
    checks: dict[str, str | None] = _wrong_training(adapter, optimizer, device, workers)
    if architecture.has_dropout:
        checks["dropout"] = wrong_dropout(adapter, architecture, seed, device, workers)
    return checks


# --- evaluation and order -----------------------------------------------------------------------------------------


def _wrong_training(adapter: Adapter, optimizer: Optimizer, device: str, workers: int) -> dict[str, str | None]:
    """Return what is wrong with the order, and with the evaluation before the training and after each epoch."""
    generator = np.random.default_rng(5)
    weights = {"dense.kernel": generator.normal(size=(FEATURES, CLASSES)), "dense.bias": generator.normal(size=CLASSES)}
    optimizer = replace(optimizer, learning_rate=LEARNING_RATES[0])
    layers: list[tuple[str, str, dict]] = [("flatten", "Flatten", {}), ("dense", "Dense", {"units": CLASSES})]
    network = chain("checked", (1, 1, FEATURES), layers)
    adapter.build(architecture=network, weights=weights, optimizer=optimizer, device=device, dtype=DTYPE)
    last = max(LAST_BATCH, workers)
    batch_size = last + MORE_SAMPLES
    samples = FULL_BATCHES * batch_size + last
    inputs = {
        split: generator.normal(size=(count, FEATURES)).astype(DTYPE)
        for split, count in (("train", samples), ("test", 2 * EVALUATION_BATCH_SIZE + 7))
    }
    labels = generator.integers(0, CLASSES, samples)
    for split, rows in inputs.items():
        adapter.load(
            split=split, inputs=rows.reshape(-1, 1, 1, FEATURES), labels=labels[np.arange(len(rows)) % samples]
        )
    expected = Reference(network, weights, optimizer)
    expected.load(split="train", inputs=inputs["train"], labels=labels)
    wrong_evaluation = _wrong_logits(adapter, inputs["test"], 0) or _wrong_logits(adapter, inputs["test"], 0)
    one_batch = EpochFeed(np.arange(batch_size), batch_size, batch_size, dropout_seed=0)
    wrong_updates = [_wrong_update(adapter, expected, one_batch, update) for update in range(1, UPDATES + 1)]
    wrong_update, wrong_order, updates = next(filter(None, wrong_updates), None), None, UPDATES
    for epoch, rate in enumerate(LEARNING_RATES, start=1):
        feed = EpochFeed(
            generator.permutation(samples), batch_size, samples, dropout_seed=epoch,
            rates=(("learning_rate", rate),) if epoch > 1 else (),
        )  # fmt: skip
        losses = adapter.train_epoch(feed)
        updates += feed.steps
        wrong_order = wrong_order or _wrong_epoch(adapter, feed, updates, losses, expected.train_epoch(feed), epoch)
        wrong_evaluation = wrong_evaluation or _wrong_logits(adapter, inputs["test"], epoch)
    if wrong_update:
        wrong_order = None  # it follows
    elif not wrong_order and not is_same_movement(weights, adapter.weights(), expected.weights(), updates):
        wrong_order = f"has other weights than numpy after {EPOCHS} epochs of the same batches and learning rates"
    return {"evaluation": wrong_evaluation, "update": wrong_update, "order": wrong_order}


def _wrong_update(adapter: Adapter, expected: Reference, feed: EpochFeed, update: int) -> str | None:
    """Train one batch and compare the change of the weights with numpy's, relative to it."""
    before, right = adapter.weights(), expected.weights()
    adapter.train_epoch(feed)
    expected.train_epoch(feed)
    after, due = adapter.weights(), {name: array - right[name] for name, array in expected.weights().items()}
    size, of_weights, distance = (
        np.sqrt(sum((array**2).sum() for array in arrays))
        for arrays in (
            due.values(), right.values(), [after[name].astype(np.float64) - before[name] - due[name] for name in due]
        )
    )  # fmt: skip
    allowed = TOLERANCE + 2 * ROUNDING * of_weights / size
    if distance <= allowed * size:
        return None
    return (
        f"makes update {update} by {expected.rule} in float32 otherwise than numpy: it differs by "
        f"{distance / size:.1e} of the update (allowed: {allowed:.0e})"
    )


def _wrong_logits(adapter: Adapter, inputs: np.ndarray, epochs: int) -> str | None:
    """Compare the logits of the split "test" with those of the adapter's weights after so many epochs."""
    weights = adapter.weights()
    expected = inputs.astype(np.float64) @ weights["dense.kernel"] + weights["dense.bias"]
    logits = adapter.predict("test")
    if logits.shape != expected.shape:
        return f"predicts {len(logits)} samples instead of {len(expected)}"
    wrong = ~(np.abs(logits - expected) <= TOLERANCE * np.abs(expected).max()).all(axis=1)
    if wrong.any():
        after = f" after epoch {epochs}" if epochs else ""
        return f"evaluates sample {np.argmax(wrong) + 1} of {len(expected)}{after} to other logits than numpy"
    return None


def _wrong_epoch(
    adapter: Adapter, feed: EpochFeed, updates: int, losses: np.ndarray, expected: np.ndarray, epoch: int
) -> str | None:
    """Compare counts and losses of an epoch with numpy's; it has its own order and a shorter last batch."""
    if wrong := feed.wrong_counts(adapter.counted(), updates):
        return f"{wrong} in epoch {epoch}"
    if len(losses) != feed.steps:
        return f"returns {len(losses)} losses for {feed.steps} steps in epoch {epoch}"
    for step, (loss, right) in enumerate(zip(losses, expected, strict=True), start=1):
        if not abs(loss - right) <= 10 * TOLERANCE * abs(right):
            return (
                f"has the loss {loss:.6g} in epoch {epoch}, step {step} of {feed.steps}; numpy has "
                f"{right:.6g} for the same batches and learning rate"
            )
    return None


def is_same_movement(initial: Weights, trained: Weights, expected: Weights, updates: int) -> bool:
    """Return whether weights are those expected, to TOLERANCE of how far they moved and a rounding of each update."""
    moved = max(np.abs(expected[name] - initial[name]).max() for name in expected)
    rounding = updates * ROUNDING * max(np.abs(array).max() for array in expected.values())
    return all(
        np.allclose(trained[name], expected[name], rtol=0, atol=TOLERANCE * moved + rounding) for name in expected
    )
