"""Compares a trainer in float32 with itself in float64, on full batches of the recipe, and its updates with their rule.

Rounding alone makes the two differ. How much it may is measured in float64: on the same batch, from weights changed by
WEIGHT_CHANGE. So no other trainer, and nothing in float32, decides what is allowed.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from trainmark.frameworks.adapter import ObservedAdapter
from trainmark.networks.graph import Architecture
from trainmark.parity.sketches import array_difference, scalar_difference
from trainmark.parity.trace import PrecisionDifference
from trainmark.parity.update_check import UpdateCheck
from trainmark.parity.whole_epochs import perturb
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import DTYPE, Optimizer

MOST_BATCHES, MOST_SAMPLES = 5, 1024
"""Maximum number of batches, and of samples of each. The first one that shows no difference is the last.

Rounding pushes a hidden unit across the kink of ReLU in some batches, in a deep network in many, and the gradients of
all layers before it differ by up to a hundredth. Arithmetic less precise than float32 shows in each batch.
"""

UPDATES = 2
"""Number of successive updates that are compared with the rule: the second one uses what the first has stored."""

WEIGHT_CHANGE, CHANGE_SEED = 2.0**-20, 5
"""Relative change of each weight, up or down at random, with which rounding is measured in float64: 16 times the
rounding of float32, so that hidden units that rounding can push across a kink are likely to be pushed."""

RATIO = 3.0
"""float32 may differ from float64 by this many times the difference that WEIGHT_CHANGE causes."""

ALWAYS_ALLOWED = 2e-6
"""Difference that is allowed in any case. float32 rounds by 6e-8, TensorFloat-32 by 5e-4, bfloat16 by 4e-3."""

UPDATE_ALLOWED, WEIGHT_ROUNDING = 1e-5, 2.0**-23
"""An update may differ from the rule by this much of itself, plus this much of the weights to which it is added."""


ORDER = ("input", "forward", "loss", "backward", "update")
"""What is compared, in the order of the computation."""


Step = tuple[float, Weights]
"""(loss, gradients)."""

Build = Callable[[str], dict[str, np.ndarray]]
"""Builds the adapter with the initial weights and the recipe's optimizer in a dtype, and returns its state."""


def check_precision(
    adapter: ObservedAdapter,
    architecture: Architecture,
    weights: Weights,
    batches: np.ndarray,
    optimizer: Optimizer,
    build: Build,
) -> tuple[PrecisionDifference, ...]:
    """Return the differences of a trainer in float32 from float64, and of its updates from the rule.

    Of each `what` one is returned: the first that is too large in the order of the computation, or else the one nearest
    to its limit. Nothing is returned if float32 can't hold a loss or gradients.

    weights: the initial weights.
    batches: indices into "train", (batches, samples).
    """
    changed = perturb(weights, WEIGHT_CHANGE, CHANGE_SEED)
    found: list[PrecisionDifference] = []
    updates: list[PrecisionDifference] = []
    for batch in batches:
        state = build("float64")
        exact = _step(adapter, batch)
        adapter.set_state(state)
        adapter.set_weights(changed)
        copy = _step(adapter, batch)
        state = build(DTYPE)
        rule = UpdateCheck(architecture, optimizer, adapter.weights())
        single = _step(adapter, batch)
        if not np.isfinite(single[0]) or not all(np.isfinite(array).all() for array in single[1].values()):
            return ()
        of_batch = _compare(architecture, single, exact, copy)
        found = [min(pair, key=lambda one: one.excess) for pair in zip(found or of_batch, of_batch, strict=True)]
        if not updates:
            updates.append(_update(rule, single[1], adapter.weights()))
            updates += [_update(rule, _step(adapter, batch)[1], adapter.weights()) for _ in range(UPDATES - 1)]
        if all(one.excess <= 1 for one in found):
            break
    else:
        adapter.set_state(state)
        found += _compare_outputs(adapter, architecture, batches[-1], changed, build)
    return tuple(_worst([*found, *updates]))


def _compare(architecture: Architecture, single: Step, exact: Step, copy: Step) -> list[PrecisionDifference]:
    """Return the differences in loss and gradients, in the order of the computation."""
    layers: dict[str, list[str]] = {}
    for parameter in architecture.parameters():
        layers.setdefault(parameter.layer, []).append(parameter.name)
    of_losses = (scalar_difference(one[0], exact[0]) for one in (single, copy))
    return [
        _judged("loss", None, *of_losses),
        *(
            _judged("backward", layer, *(array_difference(one[1], exact[1], names) for one in (single, copy)))
            for layer, names in reversed(layers.items())
        ),
    ]


def _judged(what: str, layer: str | None, difference: float, of_copy: float) -> PrecisionDifference:
    return PrecisionDifference(what, layer, difference, max(ALWAYS_ALLOWED, RATIO * of_copy))


def _step(adapter: ObservedAdapter, batch: np.ndarray) -> Step:
    losses = adapter.train_epoch(EpochFeed(batch, len(batch), len(batch), dropout_seed=0))
    return float(losses[0]), adapter.gradients()


def _update(rule: UpdateCheck, gradients: Weights, weights: Weights) -> PrecisionDifference:
    """Return the difference of the layer whose update is furthest from the rule, relative to the update."""
    updates = rule.compare_updates(gradients, weights).items()
    differences = [
        PrecisionDifference(
            "update", layer, one.relative_to_update, UPDATE_ALLOWED + WEIGHT_ROUNDING * one.weights_to_update
        )
        for layer, one in updates
    ]
    return max(differences, key=lambda one: one.excess)


def _compare_outputs(
    adapter: ObservedAdapter, architecture: Architecture, batch: np.ndarray, changed: Weights, build: Build
) -> Iterator[PrecisionDifference]:
    """Yield the differences of the outputs of all layers in a batch. The adapter is built anew."""
    single = adapter.activations("train", batch, training=True)
    build("float64")
    exact = adapter.activations("train", batch, training=True)
    adapter.set_weights(changed)
    copy = adapter.activations("train", batch, training=True)
    for layer in ("input", *(node.name for node in architecture.nodes)):
        what, of_layer = ("input", None) if layer == "input" else ("forward", layer)
        yield _judged(what, of_layer, *(array_difference(one, exact, [layer]) for one in (single, copy)))


def _worst(differences: Sequence[PrecisionDifference]) -> Iterator[PrecisionDifference]:
    """Yield one difference of each `what`, in ORDER: the first that is too large, or else that nearest to its limit."""
    for what in ORDER:
        if of_kind := [one for one in differences if one.what == what]:
            yield next((one for one in of_kind if one.excess > 1), max(of_kind, key=lambda one: one.excess))
