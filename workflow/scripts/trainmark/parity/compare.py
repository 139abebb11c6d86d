"""Compares the traces of two trainers: how equal they are (the parity class), and where they diverge.

Differences are relative: of two numbers |a - b| / max(|a|, |b|), of arrays the same of their norms. Arrays are not
compared one by one but layer by layer: all trained arrays of a layer together, and its running statistics together. The
reason is that some arrays have a gradient of 0 in exact arithmetic, such as a bias before a batch normalisation. Their
computed gradient consists of rounding errors only, which are unrelated in two frameworks.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainmark.networks.graph import Architecture
from trainmark.parity.epoch_check import EpochDifference, compare_epochs
from trainmark.parity.sentences import RULE, Location, format_epoch_difference, format_location, pair_sentence
from trainmark.parity.sketches import array_difference, scalar_difference
from trainmark.parity.trace import SINGLE_SKETCHES, STEP_SKETCHES, Failure, StageTrace, Trace

PARITY_CLASSES = {"bitwise": 0.0, "rounding": 1e-9, "single": 1e-5, "different": float("inf")}
"""The classes from best to worst, each with the bound that differences stay below; float32 rounds by up to 6e-8."""


def class_of(difference: float) -> str:
    """Return the class of a difference; `bitwise` shows in the bits alone."""
    return next(name for name, bound in PARITY_CLASSES.items() if difference < bound or name == "different")


NOT_CERTIFIED = "not certified"
"""Stands for the class if a trainer ran out of memory or does not show its gradients, or if both diverged."""

REFUSED = ("different", NOT_CERTIFIED)
"""Pairs of these classes are not ranked. A pair can also be refused for reasons other than its stages' differences."""

NOTHING_SHOWN = ("out_of_memory", "unobserved")
"""The kinds of failures that show nothing about the training."""

DECIDING_STAGES = ("network", "steps", "masks")
"""The stages that decide the class, in the order in which a divergence is looked for."""

PERTURBED_COPY = "perturbed copy"
"""The stage `steps` repeated from initial weights that differ in their last bit."""

SELF_DIVERGENCE_LIMIT = 1e-10
"""Steps are comparable while a trainer differs from its perturbed copy by less; later, rounding grows without limit."""

NOISE = 1e-12
"""Smaller differences are float64 rounding and can occur anywhere in a network."""

JUMP = 100
"""If a difference is more than JUMP times larger than every earlier one, it originates at this point and was not
propagated from an earlier one."""

FLOAT32_GROWTH = 4
"""Like JUMP, for differences that float32 inside a framework may amplify in the simplest stage.

keras-torch was observed to double them.
"""


@dataclass(frozen=True)
class Pair:
    """The comparison of two trainers, with the fields of a pair in certificate.schema.json.

    location, causes: of the classes `single` and `different`; None and empty for others.
    float32, epochs: None if a trainer failed before.
    """

    first: str
    second: str
    parity: str
    stages: dict[str, dict]
    location: Location | None
    causes: tuple[Location, ...]
    sentence: str
    float32: dict[str, float] | None = None
    epochs: tuple[EpochDifference, ...] | None = None
    reasons: tuple[str, ...] = ()


def compare(first: Trace, second: Trace, architecture: Architecture) -> Pair:
    """Compare two trainers of this architecture.

    If a trainer failed, its failure decides the class: another output shape or 16-bit numbers are `different`; out of
    memory, and an adapter that shows no gradients, are NOT_CERTIFIED.
    """
    names = first.trainer.name, second.trainer.name
    failures = [(trace.trainer.name, trace.failure) for trace in (first, second) if trace.failure]
    if failures:
        # Another shape or 16-bit numbers decide the class rather than what shows nothing.
        return _failed_pair(names, *min(failures, key=lambda named: named[1].kind in NOTHING_SHOWN), architecture)
    float32_ops = {*first.float32_ops, *second.float32_ops}
    common = [stage for stage in first.stages if stage in second.stages]
    layers = _Layers(architecture)
    all_steps = max(len(first.stages[stage].losses) for stage in common)
    # The larger number of the two: a trainer that computes in float32 diverges from its copy at once.
    of_both = filter(None, (layers.comparable_steps(trace) for trace in (first, second)))
    comparable_steps = max(of_both, default=all_steps)
    sides = {
        stage: (first.stages[stage].until(steps), second.stages[stage].until(steps))
        for stage in DECIDING_STAGES
        for steps in [all_steps if stage == "network" else comparable_steps]  # its steps are independent
        if stage in common
    }
    if diverged := [stage for stage, pair in sides.items() if not any(np.isfinite(side.losses).all() for side in pair)]:
        sentence = f"not certified: both trainers have losses that are not finite, in the stage {diverged[0]}"
        return Pair(*names, NOT_CERTIFIED, {}, None, (), sentence)
    stages = {stage: _stage_result(layers.differences(*pair), *pair) for stage, pair in sides.items()}
    parity = max((stage["parity"] for stage in stages.values()), key=list(PARITY_CLASSES).index)
    location: Location | None = None
    causes: tuple[Location, ...] = ()
    if parity in ("single", "different"):
        diverging_stage = next(name for name, stage in stages.items() if stage["parity"] == parity)
        locations = list(layers.locations(diverging_stage, *sides[diverging_stage]))
        location, causes = find_divergence(locations, float32_ops)
        if parity == "single":
            # In the simplest stage differences grow least: steps are independent, and no optimizer amplifies them.
            is_simplest = diverging_stage == DECIDING_STAGES[0]
            suspects = find_divergence(locations, float32_ops, FLOAT32_GROWTH if is_simplest else JUMP)
            if not _is_explained(suspects[0], float32_ops):
                parity = stages[diverging_stage]["parity"] = "different"
                location, causes = suspects
    rules = {stage: stage_trace.rule for stage, stage_trace in first.stages.items()}
    cut = comparable_steps if comparable_steps < all_steps else None
    epoch_cut = any(first.stages[stage].epoch_weights and not side[0].epoch_weights for stage, side in sides.items())
    sentence = pair_sentence(parity, _largest(stages.values()), location, causes, rules, cut, epoch_cut)
    float32, epochs, reasons = None, None, []
    if first.precision and second.precision:
        float32 = {
            one.what: one.difference + other.difference
            for one in first.precision
            for other in second.precision
            if one.what == other.what
        }
    if first.epochs and second.epochs:
        parameters = [one.name for one in architecture.parameters()]
        rounding = sum(one.allowed for trace in (first, second) for one in trace.precision if one.what == "backward")
        epochs = tuple(compare_epochs(first.epochs, second.epochs, parameters, rounding, amplifies=cut is not None))
        reasons += [format_epoch_difference(one) for one in epochs if one.excess > 1][:1]
    of_steps = [reason for trace in (first, second) for reason in (*layers.imprecise(trace), *_wrong_updates(trace))]
    reasons = [*of_steps, *reasons, *_own_errors(first), *_own_errors(second)]
    if reasons:
        beginning = sentence if parity == "different" else "different"
        sentence, parity = f"{beginning}: {'; '.join(reasons)}", "different"
    return Pair(*names, parity, stages, location, causes, sentence, float32, epochs, tuple(reasons))


def _wrong_updates(trace: Trace) -> Iterator[str]:
    if wrong := trace.checks.get("update"):
        yield f"{trace.trainer.name} {wrong}"


def _own_errors(trace: Trace) -> Iterator[str]:
    """Yield phrases about what else is wrong with a trainer by itself, without a comparison."""
    if trace.epochs and trace.epochs.wrong_counts:
        yield f"{trace.trainer.name} {trace.epochs.wrong_counts} of the real data"
    yield from (f"{trace.trainer.name} {wrong}" for name, wrong in trace.checks.items() if wrong and name != "update")


def find_divergence(
    locations: Sequence[Location], float32_ops: Set[str] = frozenset(), jump: float = JUMP
) -> tuple[Location, tuple[Location, ...]]:
    """Return (where two trainers diverge, all causes) among the locations of a stage, in the order of the computation.

    A location is a cause if its difference is above NOISE and more than `jump` times larger than every earlier one.
    Later causes may be kinks, such as that of ReLU, across which an earlier one pushed a value. The first update that
    does not follow its rule is a cause in any case, because no propagated difference makes an update break its rule.

    The trainers diverge in the first cause that `float32_ops` do not explain, or else in the first cause. Without a
    cause the difference has grown slowly: then they diverge in the first location outside `rounding`, or else in the
    one with the largest difference.
    """
    causes: list[Location] = []
    largest_before = 0.0
    broken_rule = next(
        (one for one in locations if one.what == RULE and one.difference >= PARITY_CLASSES["rounding"]), None
    )
    for location in locations:
        if location.what == RULE:
            if location is broken_rule:  # replaces the plain difference of the same two updates, which says less
                same_update = location.step, location.layer, "update"
                causes = [*(one for one in causes if (one.step, one.layer, one.what) != same_update), location]
            continue
        if location.difference > max(NOISE, jump * largest_before):
            causes.append(location)
        largest_before = max(largest_before, location.difference)
    if causes:
        return next((cause for cause in causes if not _is_explained(cause, float32_ops)), causes[0]), tuple(causes)
    largest = max(locations, key=lambda location: location.difference)
    return next((one for one in locations if one.difference >= PARITY_CLASSES["rounding"]), largest), ()


def _is_explained(location: Location, float32_ops: Set[str]) -> bool:
    """Return whether float32 inside a framework explains a difference.

    It explains small differences in one of `float32_ops`, and in what belongs to no op and uses their results, such as
    the loss. It never explains an update that does not follow its rule, because that is judged by the trainer's own
    gradients.
    """
    is_small = location.difference < PARITY_CLASSES["single"] and location.what != RULE
    return is_small and (location.op in float32_ops or (location.op is None and bool(float32_ops)))


def _stage_result(differences: dict[str, Any], first: StageTrace, second: StageTrace) -> dict:
    """Return class, number of comparable steps and differences of a stage."""
    between = [value for name, value in differences.items() if name != "updates"]
    sketches = [(getattr(first, key), getattr(second, key)) for key in SINGLE_SKETCHES]
    for key in STEP_SKETCHES:
        sketches += zip(getattr(first, key), getattr(second, key), strict=True)
    parity = class_of(_largest([differences]))
    if (differences["updates"] or 0.0) >= PARITY_CLASSES["rounding"]:
        # One trainer or both do not follow the recipe's rule.
        parity = "different"
    elif not any(between) and all(a == b if a is None else a.equal(b) for a, b in sketches):
        parity = "bitwise"
    return {"parity": parity, "steps": len(first.losses), **differences}


def _largest(differences: Iterable[dict]) -> float:
    return max(value for one in differences for value in one.values() if isinstance(value, float))


# --- differences --------------------------------------------------------------------------------------------------


class _Layers:
    """The layers of an architecture with their arrays; computes the differences between two traces of it."""

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

    def comparable_steps(self, trace: Trace) -> int | None:
        """Return the number of steps before a trainer diverges from its perturbed copy, at least 1.

        None if the trace has no perturbed copy.
        """
        if PERTURBED_COPY not in trace.stages:
            return None
        steps, copy = trace.stages["steps"], trace.stages[PERTURBED_COPY]
        for step in range(1, len(steps.losses) + 1):
            locations = self._step_locations(PERTURBED_COPY, step, steps, copy)
            if max(location.difference for location in locations) >= SELF_DIVERGENCE_LIMIT:
                return max(1, step - 1)
        return len(steps.losses)

    def differences(self, first: StageTrace, second: StageTrace) -> dict[str, float | None]:
        """Return the largest differences in losses, norms of gradients, weights and logits of the evaluation.

        Weights are compared after each step by their sketches, and after the last one in full. In a stage that was cut
        only sketches are compared, and "evaluation" is None. "updates" differ from the rule, in any step of either
        trainer.
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
        largest = {"losses": max(losses), "gradients": max(norms), "weights": max(weights), "evaluation": logits}
        errors = [*first.update_errors, *second.update_errors]
        return largest | {"updates": float(max(errors)) if errors else None}

    def imprecise(self, trace: Trace) -> Iterator[str]:
        """Yield a phrase about the first difference of a trainer from float64 that is too large."""
        for one in [one for one in trace.precision if one.excess > 1][:1]:
            where = format_location(self._location("precision", 0, one.layer, one.what, one.difference), rule="")
            yield (
                f"{trace.trainer.name} is less precise than float32, or computes something else, in {where} (rounding "
                f"explains at most {one.allowed:.1e})"
            )

    def locations(self, stage: str, first: StageTrace, second: StageTrace) -> Iterator[Location]:
        """Yield all points of a stage in the order of the computation; gradients go from the output back."""
        for layer, names in self._arrays.items():
            difference = first.initial_weights.difference(second.initial_weights, names)
            yield self._location(stage, 0, layer, "initial weights", difference)
        difference = first.activations.difference(second.activations, ["input"])
        yield self._location(stage, 1, None, "input", difference)
        for layer in self._ops:
            difference = first.activations.difference(second.activations, [layer])
            yield self._location(stage, 1, layer, "forward", difference)
        for step in range(1, max(len(first.losses), len(first.update_errors)) + 1):
            if step <= len(first.losses):
                yield from self._step_locations(stage, step, first, second)
            yield from self._broken_rule(stage, step, first, second)
        for step, losses in enumerate(zip(first.epoch_losses, second.epoch_losses, strict=True), start=1):
            yield self._location(stage, step, None, "epoch", scalar_difference(*losses))
        if first.epoch_weights and second.epoch_weights:  # both are cut at the same step
            for layer, names in self._arrays.items():
                difference = first.epoch_weights.difference(second.epoch_weights, names)
                yield self._location(stage, len(first.epoch_losses), layer, "epoch", difference)
        if first.evaluation and second.evaluation:
            for layer in self._evaluated:
                difference = first.evaluation.difference(second.evaluation, [layer])
                yield self._location(stage, len(first.losses), layer, "evaluation", difference)
            difference = array_difference({"": first.logits}, {"": second.logits}, [""])
            yield self._location(stage, len(first.losses), self._output, "evaluation", difference)

    def _broken_rule(self, stage: str, step: int, *traces: StageTrace) -> Iterator[Location]:
        """Yield the larger difference of an update from its rule; all are judged, and all else until the cut."""
        if step <= len(traces[0].update_errors):
            worse = max(traces, key=lambda trace: trace.update_errors[step - 1])
            error = float(worse.update_errors[step - 1])
            yield self._location(stage, step, worse.update_layers[step - 1], RULE, error)

    def _step_locations(self, stage: str, step: int, first: StageTrace, second: StageTrace) -> Iterator[Location]:
        difference = scalar_difference(first.losses[step - 1], second.losses[step - 1])
        yield self._location(stage, step, None, "loss", difference)
        gradients = first.gradients[step - 1], second.gradients[step - 1]
        for layer, names in reversed(self._trained.items()):
            yield self._location(stage, step, layer, "backward", gradients[0].difference(gradients[1], names))
        weights = first.weights[step - 1], second.weights[step - 1]
        for what, arrays in (("update", self._trained), ("running statistics", self._statistics)):
            for layer, names in arrays.items():
                yield self._location(stage, step, layer, what, weights[0].difference(weights[1], names))

    def _location(self, stage: str, step: int, layer: str | None, what: str, difference: float) -> Location:
        return Location(stage, step, layer, layer and self._ops.get(layer), what, difference)


def _failed_pair(names: tuple[str, str], trainer: str, failure: Failure, architecture: Architecture) -> Pair:
    if failure.kind in NOTHING_SHOWN:
        is_memory = failure.kind == "out_of_memory"
        what = f"{trainer} ran out of memory ({failure.message})" if is_memory else failure.message
        return Pair(*names, NOT_CERTIFIED, {}, None, (), f"{NOT_CERTIFIED}: {what}")
    location = None
    if failure.kind == "shape":
        op = next((node.op for node in architecture.nodes if node.name == failure.node), None)
        location = Location(failure.stage, 1, failure.node, op, "forward", float("inf"))
    return Pair(*names, "different", {}, location, (location,) if location else (), f"different: {failure.message}")
