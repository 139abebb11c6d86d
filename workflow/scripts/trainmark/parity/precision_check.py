"""Compares a trainer in float32 with itself in float64, on full batches of the recipe, and its updates with their rule.

Rounding alone makes the two differ. How much it may is measured in float64: on the same batch from weights changed by
WEIGHT_CHANGE. So no other trainer, and nothing in float32, decides what is allowed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from trainmark.frameworks.adapter import ObservedAdapter
from trainmark.networks.graph import Architecture
from trainmark.parity.sketches import array_difference, scalar_difference
from trainmark.parity.update_check import UpdateCheck
from trainmark.parity.whole_epochs import perturb
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import DTYPE, Optimizer

BATCHES, LARGE_NETWORK_BATCHES = 3, 1
"""Number of full batches, and that of a large network (see `whole_epochs.is_large`)."""

MOST_SAMPLES = 1024
"""Maximum number of samples of a batch."""

UPDATES = 2
"""Number of successive updates that are compared with the rule: the second one uses what the first has stored."""

WEIGHT_CHANGE, CHANGE_SEED = 2.0**-20, 5
"""Relative change of each initial weight, up or down at random, with which rounding is measured in float64.

It is 16 times the rounding of float32, so that hidden units that rounding can push across the kink of ReLU are pushed.
"""

RATIO = 3.0
"""float32 may differ from float64 by this many times the difference that WEIGHT_CHANGE causes."""

ALWAYS_ALLOWED = 2e-6
"""Difference that is allowed in any case. float32 rounds by 6e-8, TensorFloat-32 by 5e-4, bfloat16 by 4e-3."""

UPDATE_ALLOWED, WEIGHT_ROUNDING = 1e-5, 2.0**-23
"""An update may differ from the rule by this much of itself, plus this much of the weights to which it is added."""


ORDER = ("input", "forward", "loss", "backward", "update")
"""What is compared, in the order of the computation."""


@dataclass(frozen=True)
class PrecisionDifference:
    """The difference of a trainer in float32 from float64 or, of "update", from the rule.

    what: one of ORDER, all a `sentences.Location.what`; the first two only if one of the next two is too large.
    """

    what: str
    layer: str | None
    difference: float
    allowed: float

    @property
    def excess(self) -> float:
        """The difference divided by the allowed one."""
        return self.difference / self.allowed


Step = tuple[float, Weights]
"""(loss, gradients)."""

Differences = defaultdict[tuple[str, str | None], list[float]]
"""The difference of each batch, by (what, layer)."""


def check_precision(
    adapter: ObservedAdapter,
    architecture: Architecture,
    weights: Weights,
    batches: np.ndarray,
    optimizer: Optimizer,
    build: Callable[[str, Optimizer], dict[str, np.ndarray]],
) -> tuple[PrecisionDifference, ...]:
    """Return the differences of a trainer in float32 from float64, and of its updates from the rule.

    Of each `what` one is returned: the first that is too large in the order of the computation, or else the one nearest
    to its limit. Batches whose loss or gradients float32 can't hold are left out.

    weights: the initial weights.
    batches: indices into "train", (batches, samples).
    build: builds the adapter in a dtype and with an optimizer, and returns its state.
    """
    layers: dict[str, list[str]] = {}
    for parameter in architecture.parameters():
        layers.setdefault(parameter.layer, []).append(parameter.name)

    def compare(one: Step, other: Step, differences: Differences) -> None:
        differences["loss", None].append(scalar_difference(one[0], other[0]))
        for layer, names in reversed(layers.items()):
            differences["backward", layer].append(array_difference(one[1], other[1], names))

    changed = perturb(weights, WEIGHT_CHANGE, CHANGE_SEED)
    exact, changes, differences = [], Differences(list), Differences(list)
    state = build("float64", optimizer)
    for batch in batches:
        adapter.set_state(state)
        exact.append(_step(adapter, batch))
        adapter.set_state(state)
        adapter.set_weights(changed)
        compare(_step(adapter, batch), exact[-1], changes)
    state = build(DTYPE, optimizer)
    updates: list[PrecisionDifference] = []
    for number, batch in enumerate(batches):
        adapter.set_state(state)
        rule = UpdateCheck(architecture, optimizer, adapter.weights())
        step = _step(adapter, batch)
        if not np.isfinite(step[0]) or not all(np.isfinite(array).all() for array in step[1].values()):
            continue
        compare(step, exact[number], differences)
        if not updates:
            updates.append(_update(rule, step[1], adapter.weights()))
            for _ in range(UPDATES - 1):
                updates.append(_update(rule, _step(adapter, batch)[1], adapter.weights()))
    found = [*_judged(differences, changes)]
    if any(one.excess > 1 for one in found):
        adapter.set_state(state)
        found += _outputs(adapter, architecture, batches[0], changed, partial(build, "float64", optimizer))
    return tuple(_worst([*found, *updates]))


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


def _judged(differences: Differences, changes: Differences) -> Iterator[PrecisionDifference]:
    """Yield the differences with their limits.

    Of the batches that with the smallest difference counts, because rounding pushes hidden units across the kink of
    ReLU in some; arithmetic less precise than float32 shows in all. A loss has no kink.
    """
    for (what, layer), of_batches in differences.items():
        difference = max(of_batches) if what == "loss" else min(of_batches)
        yield PrecisionDifference(what, layer, difference, max(ALWAYS_ALLOWED, RATIO * max(changes[what, layer])))


def _outputs(
    adapter: ObservedAdapter,
    architecture: Architecture,
    batch: np.ndarray,
    changed: Weights,
    build: Callable[[], object],
) -> Iterator[PrecisionDifference]:
    """Yield the differences of the outputs of all layers in a batch. The adapter is built anew by `build`."""
    single = adapter.activations("train", batch, training=True)
    build()
    exact = adapter.activations("train", batch, training=True)
    adapter.set_weights(changed)
    copy = adapter.activations("train", batch, training=True)
    for layer in ("input", *(node.name for node in architecture.nodes)):
        what, of_layer = ("input", None) if layer == "input" else ("forward", layer)
        allowed = max(ALWAYS_ALLOWED, RATIO * array_difference(copy, exact, [layer]))
        yield PrecisionDifference(what, of_layer, array_difference(single, exact, [layer]), allowed)


def _worst(differences: Sequence[PrecisionDifference]) -> Iterator[PrecisionDifference]:
    """Yield one difference of each `what`, in ORDER: the first that is too large, or else that nearest to its limit."""
    for what in ORDER:
        if of_kind := [one for one in differences if one.what == what]:
            yield next((one for one in of_kind if one.excess > 1), max(of_kind, key=lambda one: one.excess))
