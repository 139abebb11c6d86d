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
    rules: name of the update rule of each stage.
    steps: number of comparable steps; None if all are.
    epoch_cut: whether the epoch of several batches is not compared for that reason.
    """
    sentence = EQUAL.get(parity, parity)
    if parity != "bitwise":
        sentence += f" (largest difference {largest:.1e})"
    if location:
        if causes:
            sentence += ": computed in float32: " if parity == "single" else ": they diverge in "
        else:
            grew = "rounding grew gradually" if parity == "single" else "they diverge gradually"
            sentence += f": {grew}, first seen in "
        shown = [location, *(cause for cause in causes if cause != location)]
        sentence += "; also in ".join(format_location(one, rules[one.stage]) for one in shown)
    if steps:
        amplified = "the training itself amplifies a last-bit change to more than 1e-10"
        sentence += f"; comparable steps: {steps} (in later ones {amplified})"
    return sentence + ("; the epoch of several batches is not compared" if epoch_cut else "")


_POINTS = {
    "initial weights": "the initial weights of {layer}",
    "forward": "the forward pass of {layer}",
    "backward": "the backward pass of {layer}",
    "update": "the update of {layer} by {rule}",
    RULE: "the update of {layer}, which does not follow {rule}",
    "running statistics": "the running statistics of {layer}",
    "epoch": "the weights or statistics of {layer} after an epoch of several batches",
    "epoch losses": "the losses of an epoch of several batches (other batches or another order)",
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
        f"(allowed: {difference.allowed:.0e})"
    )


def format_location(location: Location, rule: str) -> str:
    """Return the location in words: "the forward pass of pool1 (MaxPool2D), step 1: 1.2e-01".

    rule: name of the update rule of its stage.
    """
    point = _POINTS["epoch losses" if (location.what, location.layer) == ("epoch", None) else location.what].format(
        layer=f"{location.layer} ({location.op})", rule=rule
    )
    step = f", step {location.step}" if location.step else ""
    dropout = " with dropout" if location.stage == "masks" else ""
    difference = "" if location.difference == float("inf") else f": {location.difference:.1e}"
    return f"{point}{step}{dropout}{difference}"
