"""Did two trainers train the same network? Their traces side by side: a class, and where they begin to part.

Differences are relative: of two numbers |a - b| / max(|a|, |b|), of arrays the same of their norms. Arrays are compared
layer by layer, all trained ones of a layer together and its statistics together, and not one by one: an array whose
gradient is 0 in real arithmetic, as that of a bias before a batch normalisation, has a gradient of rounding errors
alone, in no relation to those of another framework.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainmark.networks.graph import Architecture
from trainmark.parity.epoch_check import EVALUATION, LOSSES, SLOW_LOSSES, SLOW_UPDATE, UPDATE, Apart, compare_epochs
from trainmark.parity.sentences import RULE, Place, format_apart, format_place, pair_sentence
from trainmark.parity.sketches import array_difference, scalar_difference
from trainmark.parity.trace import SINGLE_SKETCHES, STEP_SKETCHES, Failure, StageTrace, Trace

CLASSES = {"bitwise": 0.0, "rounding": 1e-9, "single": 1e-5, "different": float("inf")}
"""Classes from the best to the worst, each with the difference that stays below it; float32 rounds by up to 6e-8."""

NOT_CERTIFIED = "not certified"
"""In place of a class, where a trainer ran out of memory, or diverged."""

REFUSED = ("different", NOT_CERTIFIED)
"""Pairs of these are not ranked. They may be refused without, or in spite of, their stages' differences."""

CERTIFIED = ("network", "steps", "masks")
"""The stages that decide the class, and at which one it is looked for first where the pair parts."""

TWIN = "twin"
"""The stage `steps` once more, from initial weights that differ in their last bit."""

CHAOS = 1e-10
"""Steps count while a trainer and its twin are not further apart: later ones turn rounding into anything."""

DRIFTS = {"losses": (SLOW_LOSSES, LOSSES), "weights": (SLOW_UPDATE, UPDATE), "evaluation": (EVALUATION,)}
"""What is said of whole epochs, and what of them it is: the first that there is."""

FLOAT32, FLOAT32_COPY = "float32", "float32 copy"
"""The stages that tell whether anything is computed in less than float32: the network's own, and the perturbed copy."""

FLOAT32_ALLOWED = 3.0
"""In float32 two trainers may part this many times as far as both part from their perturbed copies.

Of the batches the one in which the two part least counts, and of a copy the median: rounding pushes a hidden unit over
ReLU's kink in some batches, in a deep network in many, and what computes in less than float32 differs in all.
"""

FLOAT32_LEAST = 2e-6
"""And this far in any case. float32 rounds by 6e-8, TensorFloat-32 and float16 by 5e-4, bfloat16 by 4e-3."""

NOISE = 1e-12
"""Below it a difference is the rounding of float64 anywhere in a network."""

JUMP = 100
"""A difference this many times larger than all that came before it was made where it is seen, not handed on."""

FLOAT32_GROWTH = 4
"""The same for what float32 inside a framework may hand on in the plainest stage: keras-torch was seen to double it."""


@dataclass(frozen=True)
class Pair:
    """Two trainers compared.

    parity: a key of CLASSES, the worst of the stages', or NOT_CERTIFIED. stages: class, steps that count and largest
    differences of each; "evaluation" None where not all steps count. causes: where the pair parts, in the order of the
    computation, each with a difference that what came before does not explain; place: the first of these that no known
    float32 explains. None, and empty, below `single`. float32: the largest differences of the network in float32, the
    median over the batches. epochs: how far whole epochs are apart, and may be (epoch_check.compare_epochs). Both None
    where a trainer did not come that far. reasons: why the pair is `different` besides its stages.
    """

    first: str
    second: str
    parity: str
    stages: dict[str, dict]
    place: Place | None
    causes: tuple[Place, ...]
    sentence: str
    float32: dict[str, float] | None = None
    epochs: tuple[Apart, ...] | None = None
    reasons: tuple[str, ...] = ()

    @property
    def drift(self) -> dict[str, float] | None:
        """How far whole epochs part, by losses, weights and evaluation; infinite where a run's are not finite."""
        if self.epochs is None:
            return None
        found = {one.what: one.difference for one in self.epochs}
        if UPDATE not in found:
            return dict.fromkeys(DRIFTS, float("inf"))
        return {name: next(found[what] for what in kinds if what in found) for name, kinds in DRIFTS.items()}


def compare(first: Trace, second: Trace, architecture: Architecture) -> Pair:
    """The class of two trainers of this architecture, and where they part.

    A trainer that failed has the pair's class by its failure: a layer of another shape is `different`.
    """
    names = first.trainer, second.trainer
    failures = [(trace.trainer, trace.failure) for trace in (first, second) if trace.failure]
    if failures:
        return _failed(names, *_worst_failure(failures), architecture)
    known = {*first.float32_ops, *second.float32_ops}
    common = [stage for stage in first.stages if stage in second.stages]
    layers = _Layers(architecture)
    all_steps = max(len(first.stages[stage].losses) for stage in common)
    horizon = max(filter(None, (layers.horizon(trace) for trace in (first, second))), default=all_steps)
    sides = {
        stage: (first.stages[stage].until(steps), second.stages[stage].until(steps))
        for stage in CERTIFIED
        for steps in [all_steps if stage == "network" else horizon]  # its steps all start from the initial weights
        if stage in common
    }
    if diverged := [stage for stage, pair in sides.items() if not any(np.isfinite(side.losses).all() for side in pair)]:
        sentence = f"not certified: the losses of both are not finite, in the stage {diverged[0]}"
        return Pair(*names, NOT_CERTIFIED, {}, None, (), sentence)
    stages = {stage: _certified(layers.differences(*pair), *pair) for stage, pair in sides.items()}
    parity = max((stages[stage]["parity"] for stage in stages), key=list(CLASSES).index)
    place: Place | None = None
    causes: tuple[Place, ...] = ()
    if parity in ("single", "different"):
        parting = next(stage for stage in stages if stages[stage]["parity"] == parity)
        places = list(layers.places(parting, *sides[parting]))
        place, causes = parting_place(places, known)
        if parity == "single":
            # The plainest stage tells best what is behind float32: no step hands on to another, no optimizer magnifies.
            suspects = parting_place(places, known, FLOAT32_GROWTH if parting == CERTIFIED[0] else JUMP)
            if not _is_known(suspects[0], known):
                parity = stages[parting]["parity"] = "different"
                place, causes = suspects
    rules = {stage: found.rule for stage, found in first.stages.items()}
    cut = horizon if horizon < all_steps else None
    epoch_cut = any(first.stages[stage].epoch_weights and not side[0].epoch_weights for stage, side in sides.items())
    sentence = pair_sentence(parity, _largest(stages.values()), place, causes, rules, cut, epoch_cut)
    float32, epochs, reasons = None, None, []
    if {FLOAT32, FLOAT32_COPY} <= set(common):
        float32, less = layers.float32(first, second)
        reasons += [less] if less else []
    if first.epochs and second.epochs:
        epochs = tuple(compare_epochs(first.epochs, second.epochs, [one.name for one in architecture.parameters()]))
        reasons += [format_apart(one) for one in epochs if one.excess > 1][:1]
    reasons += [*_wrong_by_itself(first), *_wrong_by_itself(second)]
    if reasons:
        first_words = sentence if parity == "different" else "different"
        sentence = f"{first_words}: {'; '.join(reasons)}"
        parity = "different"
    return Pair(*names, parity, stages, place, tuple(causes), sentence, float32, epochs, tuple(reasons))


def _wrong_by_itself(trace: Trace) -> Iterator[str]:
    """What a trainer does that no other is needed to call wrong."""
    if trace.epochs and trace.epochs.wrong_counts:
        yield f"{trace.trainer} {trace.epochs.wrong_counts} of the real data"
    yield from (f"{trace.trainer} {wrong}" for wrong in trace.checks.values() if wrong)


def parting_place(
    places: Sequence[Place], known: Set[str] = frozenset(), jump: float = JUMP
) -> tuple[Place, tuple[Place, ...]]:
    """(where a pair parts, all places like it) among the places of a stage, in the order of the computation.

    A place counts where its difference is above NOISE and `jump` times larger than any before it; later ones may be
    kinks, as of ReLU, that an earlier one pushed a value over. So does the first update that is off its rule, whatever
    came before: no difference that is handed on makes it so. The pair parts in the first that is not known to come
    from float32 inside a framework (`known` ops), or in the first. Where none counts, and the difference has grown
    slowly, it parts in the first above that of `rounding`, or the largest.
    """
    causes: list[Place] = []
    before = 0.0
    off_rule = next((one for one in places if one.what == RULE and one.difference >= CLASSES["rounding"]), None)
    for place in places:
        if place.what == RULE:
            if place is off_rule:  # it says more than that the two updates differ
                same = place.step, place.layer, "update"
                causes = [*(one for one in causes if (one.step, one.layer, one.what) != same), place]
            continue
        if place.difference > max(NOISE, jump * before):
            causes.append(place)
        before = max(before, place.difference)
    if causes:
        return next((cause for cause in causes if not _is_known(cause, known)), causes[0]), tuple(causes)
    largest = max(places, key=lambda place: place.difference)
    return next((place for place in places if place.difference >= CLASSES["rounding"]), largest), ()


def _is_known(place: Place, known: Set[str]) -> bool:
    """Whether float32 inside a framework explains a place: an op that is known to, or what its result is used for.

    It never explains an update that is not by the rule: that is judged by the trainer's own gradients.
    """
    small = place.difference < CLASSES["single"] and place.what != RULE
    return small and (place.op in known or (place.op is None and bool(known)))


def _certified(differences: dict[str, Any], first: StageTrace, second: StageTrace) -> dict:
    """What the pair says of a stage: its class, the steps that count, and the differences."""
    between = [value for name, value in differences.items() if name != "updates"]
    if differences["updates"] >= CLASSES["rounding"]:  # not the recipe's training, in one or in both
        parity = "different"
    elif not any(between) and _equal_sketches(first, second):
        parity = "bitwise"
    else:
        largest = _largest([differences])
        parity = next(name for name, bound in CLASSES.items() if largest < bound or name == "different")
    return {"parity": parity, "steps": len(first.losses), **differences}


def _equal_sketches(first: StageTrace, second: StageTrace) -> bool:
    """Whether all that was kept of the stages besides is equal to the last bit too."""
    pairs = [(getattr(first, key), getattr(second, key)) for key in SINGLE_SKETCHES]
    for key in STEP_SKETCHES:
        pairs += zip(getattr(first, key), getattr(second, key), strict=True)
    return all(a == b if a is None else a.equal(b) for a, b in pairs)


def _largest(differences: Iterable[dict]) -> float:
    return max(value for one in differences for value in one.values() if isinstance(value, float))


# --- differences --------------------------------------------------------------------------------------------------


class _Layers:
    """The layers of an architecture, with the names of their arrays, and what two traces of it differ in."""

    def __init__(self, architecture: Architecture) -> None:
        self._output = architecture.output
        self._ops = {node.name: node.op for node in architecture.nodes}
        self._evaluated = [node.name for node in architecture.inference_nodes()]
        self._trained: dict[str, list[str]] = {}
        self._statistics: dict[str, list[str]] = {}
        self._arrays: dict[str, list[str]] = {}
        for parameter in architecture.arrays():
            for arrays in (self._arrays, self._trained if parameter.trained else self._statistics):
                arrays.setdefault(parameter.layer, []).append(parameter.name)

    def horizon(self, trace: Trace) -> int | None:
        """How many steps count: those before the trainer parts from its twin, 1 at the least; None without a twin.

        Of two trainers the larger number counts: one that computes in float32 inside parts from its twin at once, and
        says nothing of the training.
        """
        if TWIN not in trace.stages:
            return None
        steps, twin = trace.stages["steps"], trace.stages[TWIN]
        for step in range(1, len(steps.losses) + 1):
            if max(place.difference for place in self._step_places(TWIN, step, steps, twin)) >= CHAOS:
                return max(1, step - 1)
        return len(steps.losses)

    def differences(self, first: StageTrace, second: StageTrace) -> dict[str, float | None]:
        """What `between` gives, and the largest difference of an update from the rule, in any step of either."""
        updates = max(float(max(stage.update_errors)) for stage in (first, second))
        return {**self.between(first, second), "updates": updates}

    def between(self, first: StageTrace, second: StageTrace) -> dict[str, float | None]:
        """The largest ones of a stage: of losses, gradients' norms, weights and evaluation's logits.

        Of the weights after each step by their sketches, and after the last one in full. Where the stage was cut by
        sketches alone, and None of the logits.
        """
        norms = [
            scalar_difference(a.norm(names), b.norm(names))
            for a, b in zip(first.gradients, second.gradients, strict=True)
            for names in (*self._trained.values(), list(a.shapes))
        ]
        losses = [scalar_difference(a, b) for a, b in zip(first.losses, second.losses, strict=True)]
        losses += [scalar_difference(a, b) for a, b in zip(first.epoch_losses, second.epoch_losses, strict=True)]
        layers = [*self._trained.values(), *self._statistics.values()]
        steps = list(zip(first.weights, second.weights, strict=True))
        weights = [a.difference(b, names) for a, b in steps for names in layers]
        if first.epoch_weights and second.epoch_weights:
            weights += [first.epoch_weights.difference(second.epoch_weights, names) for names in layers]
        logits = None
        if first.final is not None and second.final is not None:
            weights += [array_difference(first.final, second.final, names) for names in layers]
            logits = array_difference({"": first.logits}, {"": second.logits}, [""])
        return {"losses": max(losses), "gradients": max(norms), "weights": max(weights), "evaluation": logits}

    def float32(self, first: Trace, second: Trace) -> tuple[dict[str, float], str | None]:
        """(largest differences in float32 by what they are of, where less than float32 is computed, in words)."""
        sides = [(trace.stages[FLOAT32], trace.stages[FLOAT32_COPY]) for trace in (first, second)]
        between, *copies = (self._by_batch(*pair) for pair in ((sides[0][0], sides[1][0]), *sides))
        largest: dict[str, float] = {}
        wrong = None
        for (what, layer), differences in between.items():
            largest[what] = max(largest.get(what, 0.0), float(np.median(differences)))
            copied = min(float(np.median(copy.get((what, layer), 0.0))) for copy in copies)
            allowed = max(FLOAT32_LEAST, FLOAT32_ALLOWED * copied)
            if min(differences) > allowed and not wrong:
                place = self._place(FLOAT32, 0, layer, what, min(differences))
                told = format_place(place, first.stages[FLOAT32].rule)
                wrong = f"less than float32, or another training, in {told}, where rounding makes {allowed:.1e} at most"
        return largest, wrong

    def _by_batch(self, first: StageTrace, second: StageTrace) -> dict[tuple[str, str | None], list[float]]:
        """The differences in each batch by (what, layer), in the order of the computation; of outputs in the first.

        A step whose loss is finite in neither shows nothing: float32 overflows where it may in any framework.
        """
        finite = np.isfinite(first.losses) | np.isfinite(second.losses)
        found: dict[tuple[str, str | None], list[float]] = {}
        for layer in ("input", *self._ops) if finite[0] else ():
            key = ("input", None) if layer == "input" else ("forward", layer)
            found[key] = [first.activations.difference(second.activations, [layer])]
        for step in np.flatnonzero(finite) + 1:
            for place in self._step_places(FLOAT32, int(step), first, second):
                found.setdefault((place.what, place.layer), []).append(place.difference)
        return found

    def places(self, stage: str, first: StageTrace, second: StageTrace) -> Iterator[Place]:
        """All that the trainers did in a stage, in the order of the computation, gradients from the output back."""
        for layer, names in self._arrays.items():
            difference = first.initial_weights.difference(second.initial_weights, names)
            yield self._place(stage, 0, layer, "initial weights", difference)
        difference = first.activations.difference(second.activations, ["input"])
        yield self._place(stage, 1, None, "input", difference)
        for layer in self._ops:
            difference = first.activations.difference(second.activations, [layer])
            yield self._place(stage, 1, layer, "forward", difference)
        for step in range(1, len(first.update_errors) + 1):  # also beyond what is compared
            if step <= len(first.losses):
                yield from self._step_places(stage, step, first, second)
            off = max((first, second), key=lambda stage: stage.update_errors[step - 1])
            yield self._place(stage, step, off.update_layers[step - 1], RULE, float(off.update_errors[step - 1]))
        for step, losses in enumerate(zip(first.epoch_losses, second.epoch_losses, strict=True), start=1):
            yield self._place(stage, step, None, "epoch", scalar_difference(*losses))
        for layer, names in self._arrays.items() if first.epoch_weights else ():
            assert first.epoch_weights and second.epoch_weights  # cut alike
            difference = first.epoch_weights.difference(second.epoch_weights, names)
            yield self._place(stage, len(first.epoch_losses), layer, "epoch", difference)
        for layer in self._evaluated if first.evaluation else ():
            assert first.evaluation and second.evaluation
            difference = first.evaluation.difference(second.evaluation, [layer])
            yield self._place(stage, len(first.losses), layer, "evaluation", difference)
        if first.logits is not None:
            difference = array_difference({"": first.logits}, {"": second.logits}, [""])
            yield self._place(stage, len(first.losses), self._output, "evaluation", difference)

    def _step_places(self, stage: str, step: int, first: StageTrace, second: StageTrace) -> Iterator[Place]:
        difference = scalar_difference(first.losses[step - 1], second.losses[step - 1])
        yield self._place(stage, step, None, "loss", difference)
        gradients = first.gradients[step - 1], second.gradients[step - 1]
        for layer, names in reversed(self._trained.items()):
            yield self._place(stage, step, layer, "backward", gradients[0].difference(gradients[1], names))
        weights = first.weights[step - 1], second.weights[step - 1]
        for what, arrays in (("update", self._trained), ("running statistics", self._statistics)):
            for layer, names in arrays.items():
                yield self._place(stage, step, layer, what, weights[0].difference(weights[1], names))

    def _place(self, stage: str, step: int, layer: str | None, what: str, difference: float) -> Place:
        return Place(stage, step, layer, layer and self._ops.get(layer), what, difference)


# --- failures -----------------------------------------------------------------------------------------------------


def _worst_failure(failures: list[tuple[str, Failure]]) -> tuple[str, Failure]:
    """A layer of another shape, and two-byte numbers, say more than memory that ran out."""
    return min(failures, key=lambda one: one[1].kind == "out_of_memory")


def _failed(names: tuple[str, str], trainer: str, failure: Failure, architecture: Architecture) -> Pair:
    if failure.kind == "out_of_memory":
        sentence = f"not certified: {trainer} ran out of memory ({failure.message})"
        return Pair(*names, NOT_CERTIFIED, {}, None, (), sentence)
    if failure.kind == "precision":
        return Pair(*names, "different", {}, None, (), f"different: {failure.message}")
    op = next((node.op for node in architecture.nodes if node.name == failure.node), None)
    place = Place(failure.stage, 1, failure.node, op, "forward", float("inf"))
    return Pair(*names, "different", {}, place, (place,), f"different: {failure.message}")
