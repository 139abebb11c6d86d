"""Compares a trainer in float32 with float64, on full batches of the recipe.

float64 is that of numpy where the reference has all layers of the network, and otherwise of the trainer itself.

Rounding alone makes the two differ. How much it may is measured in float64: on the same batch, from weights changed by
WEIGHT_CHANGE. So no other trainer, and nothing in float32, decides what is allowed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod, sqrt
from operator import attrgetter

import numpy as np

from trainmark.frameworks.adapter import Adapter, ObservedAdapter
from trainmark.networks.graph import Architecture
from trainmark.parity.sketches import array_difference, scalar_difference
from trainmark.parity.trace import PrecisionDifference
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights, perturb
from trainmark.recipes.recipe import DTYPE, Optimizer
from trainmark.recipes.reference import Reference, has_layers

MOST_BATCHES, MOST_SAMPLES = 5, 1024
"""Maximum number of batches, and of samples of each. The first one that shows no difference is the last.

Rounding pushes a hidden unit across the kink of ReLU in some batches, in a deep network in many, and the gradients of
all layers before it differ by up to a hundredth. Arithmetic less precise than float32 shows in each batch.
"""

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

ORDER = ("input", "forward", "loss", "backward")
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
    samples: tuple[np.ndarray, np.ndarray],
    build: Build,
) -> tuple[PrecisionDifference, ...]:
    """Return the differences of a trainer in float32 from float64.

    Of each `what` one is returned: the first that is too large in the order of the computation, or else the largest.
    Nothing is returned if float32 can't hold a loss or gradients.

    weights: the initial weights.
    batches: indices into "train", (batches, samples).
    samples: (inputs, labels) of "train"; inputs in float64.
    """
    changed = perturb(weights, WEIGHT_CHANGE, CHANGE_SEED)
    found: list[PrecisionDifference] = []
    for chosen in filter(len, (batches[:1], batches[1:])):  # all others at once: some frameworks compile each build
        if has_layers(architecture):
            take = partial(_step_in_numpy, Reference(architecture, weights, optimizer), samples)
        else:
            take = partial(_step_from, adapter, build("float64", optimizer, True))
        exact = [take(weights, batch) for batch in chosen]
        of_copies = [
            _differences(architecture, take(changed, batch), step) for batch, step in zip(chosen, exact, strict=True)
        ]
        rate = _large_rate(architecture, weights, exact[0][1])
        state = build(DTYPE, Optimizer("sgd", rate), False)
        for batch, of_batch, of_copy in zip(chosen, exact, of_copies, strict=True):
            adapter.set_state(state)
            single = _step_as_run(adapter, batch, rate)
            if not _is_finite(single):
                return ()
            differences = _differences(architecture, single, of_batch)
            judged = _judged(architecture, len(batch), differences, of_copy)
            found = [min(pair, key=_excess) for pair in zip(found or judged, judged, strict=True)]
        if all(one.excess <= 1 for one in found):
            return tuple(_worst(found))
    outputs = _compare_outputs(adapter, architecture, batches[-1], changed, lambda dtype: build(dtype, optimizer, True))
    return tuple(_worst([*found, *outputs]))


def _layers(architecture: Architecture) -> dict[str, list[str]]:
    """Return the names of the trained arrays by layer."""
    layers: dict[str, list[str]] = {}
    for parameter in architecture.parameters():
        layers.setdefault(parameter.layer, []).append(parameter.name)
    return layers


def _differences(architecture: Architecture, step: Step, exact: Step) -> dict[str | None, float]:
    """Return the difference in the loss, by None, and in the gradients of each layer, from the output back."""
    of_layers = reversed(_layers(architecture).items())
    return {None: scalar_difference(step[0], exact[0])} | {
        layer: array_difference(step[1], exact[1], names) for layer, names in of_layers
    }


def _judged(
    architecture: Architecture,
    samples: int,
    differences: Mapping[str | None, float],
    of_copy: Mapping[str | None, float],
) -> list[PrecisionDifference]:
    """Return these differences with their limits.

    A unit that was pushed across a kink changes the gradients of all layers before it. The copy's may be one behind
    that of float32, so what it changed in a layer further back counts, too.
    """
    shapes, loss, largest = architecture.shapes(), differences[None], 0.0
    judged = [_with_limit("loss", None, samples, loss, of_copy[None])]
    for layer in filter(None, differences):
        largest = max(largest, of_copy[layer])
        judged.append(_with_limit("backward", layer, samples * prod(shapes[layer][1:]), differences[layer], largest))
    return judged


def _with_limit(what: str, layer: str | None, terms: int, difference: float, of_copy: float) -> PrecisionDifference:
    """terms: number of terms of a sum, which may be added one after the other."""
    allowed = max(ALWAYS_ALLOWED, RATIO * of_copy, RATIO * ROUNDING * sqrt(terms))
    return PrecisionDifference(what, layer, difference, allowed)


_excess = attrgetter("excess")


def _step(adapter: ObservedAdapter, batch: np.ndarray) -> Step:
    losses = adapter.train_epoch(EpochFeed(batch, len(batch), len(batch), dropout_seed=0))
    return float(losses[0]), adapter.gradients()


def _step_from(adapter: ObservedAdapter, state: Weights, weights: Weights, batch: np.ndarray) -> Step:
    """Return the step of an adapter in this state, but with these weights."""
    adapter.set_state(state)
    adapter.set_weights(weights)
    return _step(adapter, batch)


def _step_in_numpy(
    reference: Reference, samples: tuple[np.ndarray, np.ndarray], weights: Weights, batch: np.ndarray
) -> Step:
    reference.set_weights(weights)
    inputs, labels = samples
    return reference.train_step(inputs[batch], labels[batch]), reference.gradients


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


def _compare_outputs(
    adapter: ObservedAdapter,
    architecture: Architecture,
    batch: np.ndarray,
    changed: Weights,
    build: Callable[[str], Weights],
) -> Iterator[PrecisionDifference]:
    """Yield the differences of the outputs of all layers in a batch. build: builds the adapter with this dtype."""
    build(DTYPE)
    single = adapter.activations("train", batch, training=True)
    build("float64")
    exact = adapter.activations("train", batch, training=True)
    adapter.set_weights(changed)
    copy = adapter.activations("train", batch, training=True)
    for layer in ("input", *(node.name for node in architecture.nodes)):
        what, of_layer = ("input", None) if layer == "input" else ("forward", layer)
        yield _with_limit(what, of_layer, 1, *(array_difference(one, exact, [layer]) for one in (single, copy)))


def _worst(differences: Sequence[PrecisionDifference]) -> Iterator[PrecisionDifference]:
    """Yield one difference of each `what`, in ORDER: the first that is too large, or else the largest."""
    for what in ORDER:
        if of_kind := [one for one in differences if one.what == what]:
            yield next((one for one in of_kind if one.excess > 1), max(of_kind, key=lambda one: one.difference))
