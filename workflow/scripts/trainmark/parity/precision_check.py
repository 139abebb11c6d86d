"""Compares a trainer in float32 with itself in float64, on full batches of the recipe, and its updates with their rule.

Rounding alone makes the two differ. How much it may is measured in float64: on the same batch, from weights changed by
WEIGHT_CHANGE. So no other trainer, and nothing in float32, decides what is allowed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod, sqrt
from operator import attrgetter

import numpy as np

from trainmark.frameworks.adapter import Adapter, ObservedAdapter
from trainmark.networks.graph import Architecture
from trainmark.parity.sketches import array_difference, scalar_difference
from trainmark.parity.trace import PrecisionDifference
from trainmark.parity.update_check import UpdateCheck
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights, perturb
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

ROUNDING = 2.0**-24
"""Rounding of float32. A sum of n terms, added one after the other, is wrong by this times the root of n: XLA adds the
gradients of a word's vector so, and of the word that fills texts up there are thousands (observed: .6 times that).
"""

UPDATE_ALLOWED = 1e-5
"""An update may differ from the rule by this much of itself, plus two roundings of the weights to which it is added."""


ORDER = ("input", "forward", "loss", "backward", "update")
"""What is compared, in the order of the computation."""


Step = tuple[float, Weights]
"""(loss, gradients)."""

Build = Callable[[str, Optimizer, bool], dict[str, np.ndarray]]
"""Builds the adapter from the initial weights and returns its state. Arguments: dtype, optimizer, and whether it shows
gradients; otherwise it is built as for a run, but without dropout."""


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
        state = build("float64", optimizer, True)
        exact = _step(adapter, batch)
        adapter.set_state(state)
        adapter.set_weights(changed)
        copy = _step(adapter, batch)
        rate = _large_rate(architecture, weights, exact[1])
        build(DTYPE, Optimizer("sgd", rate), False)
        as_run = _step_as_run(adapter, batch, rate)
        state = build(DTYPE, optimizer, True)
        rule = UpdateCheck(architecture, optimizer, adapter.weights())
        observed = _step(adapter, batch)
        if not _is_finite(as_run) or not _is_finite(observed):
            return ()
        both = zip(
            *(_compare(architecture, len(batch), single, exact, copy) for single in (as_run, observed)), strict=True
        )
        of_batch = [max(pair, key=_excess) for pair in both]
        found = [min(pair, key=_excess) for pair in zip(found or of_batch, of_batch, strict=True)]
        if not updates:
            updates.append(_update(rule, observed[1], adapter.weights()))
            updates += [_update(rule, _step(adapter, batch)[1], adapter.weights()) for _ in range(UPDATES - 1)]
        if all(one.excess <= 1 for one in found):
            break
    else:
        adapter.set_state(state)
        single = adapter.activations("train", batches[-1], training=True)
        build("float64", optimizer, True)
        found += _compare_outputs(adapter, architecture, batches[-1], changed, single)
    return tuple(_worst([*found, *updates]))


def _layers(architecture: Architecture) -> dict[str, list[str]]:
    """Return the names of the trained arrays by layer."""
    layers: dict[str, list[str]] = {}
    for parameter in architecture.parameters():
        layers.setdefault(parameter.layer, []).append(parameter.name)
    return layers


def _compare(
    architecture: Architecture, samples: int, single: Step, exact: Step, copy: Step
) -> list[PrecisionDifference]:
    """Return the differences in loss and gradients, in the order of the computation."""
    shapes = architecture.shapes()
    of_losses = (scalar_difference(one[0], exact[0]) for one in (single, copy))
    of_layers = (
        (
            layer,
            samples * prod(shapes[layer][1:]),
            (array_difference(one[1], exact[1], names) for one in (single, copy)),
        )
        for layer, names in reversed(_layers(architecture).items())
    )
    return [
        _judged("loss", None, samples, *of_losses),
        *(_judged("backward", layer, terms, *differences) for layer, terms, differences in of_layers),
    ]


def _judged(what: str, layer: str | None, terms: int, difference: float, of_copy: float) -> PrecisionDifference:
    """Return a difference with its limit. terms: number of terms of a sum, which may be added one after the other."""
    allowed = max(ALWAYS_ALLOWED, RATIO * of_copy, RATIO * ROUNDING * sqrt(terms))
    return PrecisionDifference(what, layer, difference, allowed)


_excess = attrgetter("excess")


def _step(adapter: ObservedAdapter, batch: np.ndarray) -> Step:
    losses = adapter.train_epoch(EpochFeed(batch, len(batch), len(batch), dropout_seed=0))
    return float(losses[0]), adapter.gradients()


def _large_rate(architecture: Architecture, weights: Weights, gradients: Weights) -> float:
    """Return a learning rate at which each layer moves much further than rounding changes its weights."""
    sizes = [
        [np.sqrt(sum((arrays[name] ** 2).sum() for name in names)) for arrays in (weights, gradients)]
        for names in _layers(architecture).values()
    ]
    return 64 * max((float(size / gradient) for size, gradient in sizes if gradient), default=1.0)


def _step_as_run(adapter: Adapter, batch: np.ndarray, rate: float) -> Step:
    """Return the step of an adapter that shows no gradients, which plain SGD makes a difference of weights."""
    before = adapter.weights()
    losses = adapter.train_epoch(EpochFeed(batch, len(batch), len(batch), dropout_seed=0))
    after = adapter.weights()
    return float(losses[0]), {name: (before[name].astype(np.float64) - after[name]) / rate for name in before}


def _is_finite(step: Step) -> bool:
    loss, gradients = step
    return bool(np.isfinite(loss)) and all(np.isfinite(gradient).all() for gradient in gradients.values())


def _update(rule: UpdateCheck, gradients: Weights, weights: Weights) -> PrecisionDifference:
    """Return the difference of the layer whose update is furthest from the rule, relative to the update."""
    updates = rule.compare_updates(gradients, weights).items()
    differences = [
        PrecisionDifference(
            "update", layer, one.relative_to_update, UPDATE_ALLOWED + 2 * ROUNDING * one.weights_to_update
        )
        for layer, one in updates
    ]
    return max(differences, key=lambda one: one.excess)


def _compare_outputs(
    adapter: ObservedAdapter,
    architecture: Architecture,
    batch: np.ndarray,
    changed: Weights,
    single: Mapping[str, np.ndarray],
) -> Iterator[PrecisionDifference]:
    """Yield the differences of the outputs of all layers in a batch. single: those in float32."""
    exact = adapter.activations("train", batch, training=True)
    adapter.set_weights(changed)
    copy = adapter.activations("train", batch, training=True)
    for layer in ("input", *(node.name for node in architecture.nodes)):
        what, of_layer = ("input", None) if layer == "input" else ("forward", layer)
        yield _judged(what, of_layer, 1, *(array_difference(one, exact, [layer]) for one in (single, copy)))


def _worst(differences: Sequence[PrecisionDifference]) -> Iterator[PrecisionDifference]:
    """Yield one difference of each `what`, in ORDER: the first that is too large, or else that nearest to its limit."""
    for what in ORDER:
        if of_kind := [one for one in differences if one.what == what]:
            yield next((one for one in of_kind if one.excess > 1), max(of_kind, key=lambda one: one.excess))
