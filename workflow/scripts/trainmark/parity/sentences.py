"""The sentences of a certificate: how equal two trainers are, and where they diverge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainmark.parity.epoch_check import EpochDifference

RULE = "rule"
"""`Location.what` of an update that differs from its update rule in numpy, applied to the trainer's own gradients."""


@dataclass(frozen=True)
class Location:
    """A point in the computation of two trainers, with the difference between them there.

    stage: a key of certified_steps.STAGES.
    step: the step, from 1; 0 for the initial weights.
    layer, op: the layer and its op; None if the point belongs to no layer.
    what: "initial weights", "input", "forward", "loss", "backward", "update", RULE, "running statistics", "epoch" (the
        epoch of several batches: its losses, or a layer's weights after it) or "evaluation".
    """

    stage: str
    step: int
    layer: str | None
    op: str | None
    what: str
    difference: float


EQUAL = {
    "bitwise": "bitwise equal",
    "rounding": "equal up to rounding",
    "single": "equal to single precision",
}
"""Meaning of the classes that may be ranked, best first."""

_SENTENCES = {
    "bitwise": EQUAL["bitwise"],
    "rounding": EQUAL["rounding"] + " (largest difference {largest:.1e})",
    "single": EQUAL["single"] + " (largest difference {largest:.1e}): {divergence}",
    "different": "different (largest difference {largest:.1e}): {divergence}",
}

_CUT = "; comparable steps: {steps} (in later ones the training itself amplifies a last-bit change to more than 1e-10)"

_EPOCH_CUT = "; the epoch of several batches is not compared"

_DIVERGENCE = {
    ("single", True): "computed in float32: {location}",
    ("different", True): "they diverge in {location}",
    ("single", False): "rounding grew gradually, first seen in {location}",
    ("different", False): "they diverge gradually, first seen in {location}",
}
"""Where two trainers diverge, by their class and by whether there are causes."""


def pair_sentence(
    parity: str,
    largest: float,
    location: Location | None,
    causes: Sequence[Location],
    rules: Mapping[str, str],
    steps: int | None,
    epoch_cut: bool = False,
) -> str:
    """Return the sentence about a pair of trainers.

    largest: the largest difference of any stage.
    location: where they diverge, if the class has that.
    causes: all points at which they diverge.
    rules: name of the update rule of each stage.
    steps: number of comparable steps; None if all are.
    epoch_cut: whether the epoch of several batches is not compared for that reason.
    """
    divergence = ""
    if location:
        other_causes = [cause for cause in causes if cause != location]
        template = _DIVERGENCE[parity, bool(causes)]
        divergence = template.format(location=format_location(location, rules[location.stage]))
        divergence += "".join(f"; also in {format_location(cause, rules[cause.stage])}" for cause in other_causes)
    sentence = _SENTENCES[parity].format(largest=largest, divergence=divergence)
    return sentence + (_CUT.format(steps=steps) if steps else "") + (_EPOCH_CUT if epoch_cut else "")


_POINTS = {
    "initial weights": "the initial weights of {layer}",
    "forward": "the forward pass of {layer}",
    "backward": "the backward pass of {layer}",
    "update": "the update of {layer} by {rule}",
    RULE: "the update of {layer}, which does not follow {rule}",
    "running statistics": "the running statistics of {layer}",
    "epoch": "the weights or statistics of {layer} after an epoch of several batches",
    "evaluation": "the evaluation of {layer}",
    "input": "the input (other samples or another order)",
    "loss": "the loss (or the batch that it belongs to)",
}


def format_epoch_difference(difference: EpochDifference) -> str:
    """Return a phrase about a difference in whole epochs."""
    step = difference.step
    what = difference.what if step is None else f"loss of step {step} of {difference.what}"
    layer = f", most in {difference.layer}" if difference.layer else ""
    return (
        f"trained in float32 and full batches, as runs are, the {what} differs by {difference.difference:.1e}{layer} "
        f"(the perturbed copies of both trainers allow {difference.allowed:.1e})"
    )


_EPOCH_LOSSES = "the losses of an epoch of several batches (other batches or another order)"


def format_location(location: Location, rule: str) -> str:
    """Return the location in words: "the forward pass of pool1 (MaxPool2D), step 1: 1.2e-01".

    rule: name of the update rule of its stage.
    """
    is_epoch_loss = location.what == "epoch" and location.layer is None
    template = _EPOCH_LOSSES if is_epoch_loss else _POINTS[location.what]
    point = template.format(layer=f"{location.layer} ({location.op})", rule=rule)
    step = f", step {location.step}" if location.step else ""
    dropout = " with dropout" if location.stage == "masks" else ""
    difference = "" if location.difference == float("inf") else f": {location.difference:.1e}"
    return f"{point}{step}{dropout}{difference}"
