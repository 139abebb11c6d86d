"""What two trainers are said to be, and where they part, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainmark.parity.epoch_check import Apart

RULE = "rule"
"""What of a place where an update is not the one that its rule makes in numpy of the trainer's own gradients."""


@dataclass(frozen=True)
class Place:
    """Something that two trainers did, and how far they are apart in it.

    what: "initial weights", "input", "forward", "loss", "backward", "update", RULE, "running statistics", "epoch" (of
    several batches: its losses, or what it leaves in a layer) or "evaluation". step: from 1; 0 for the initial weights.
    layer, op: None where it is of no layer.
    """

    stage: str
    step: int
    layer: str | None
    op: str | None
    what: str
    difference: float


EQUAL = {
    "bitwise": "bitwise equal",
    "rounding": "equal but for rounding",
    "single": "equal to single precision",
}
"""What the classes that may be ranked mean, best first."""

_SENTENCES = {
    "bitwise": EQUAL["bitwise"],
    "rounding": EQUAL["rounding"] + ", {largest:.1e} at most",
    "single": EQUAL["single"] + ", {largest:.1e} at most: {places}",
    "different": "different, by up to {largest:.1e}: {places}",
}

_HORIZON = (
    "; {steps} of the steps count, since later ones turn a change in a last bit into more than 1e-10 by themselves"
)

_EPOCH_CUT = ", and an epoch of several batches is not compared"

_PARTING = {
    ("single", True): "computed in float32 in {place}",
    ("different", True): "they part in {place}",
    ("single", False): "rounding that grew, seen first in {place}",
    ("different", False): "they part slowly, seen first in {place}",
}
"""Where they part, by class and by whether there are causes."""


def pair_sentence(
    parity: str,
    largest: float,
    place: Place | None,
    causes: Sequence[Place],
    rules: Mapping[str, str],
    steps: int | None,
    epoch_cut: bool = False,
) -> str:
    """What a pair is, for people.

    rules: of the stages' updates. steps: how many count, where not all do; epoch_cut: whether so few that the epoch of
    several batches does not.
    """
    told = ""
    if place:
        later = [one for one in causes if one != place]
        told = _PARTING[parity, bool(causes)].format(place=format_place(place, rules[place.stage]))
        told += "".join(f"; also in {format_place(one, rules[one.stage])}" for one in later)
    sentence = _SENTENCES[parity].format(largest=largest, places=told)
    return sentence + (_HORIZON.format(steps=steps) if steps else "") + (_EPOCH_CUT if epoch_cut else "")


_TOLD = {
    "initial weights": "the initial weights of {layer}",
    "forward": "the forward of {layer}",
    "backward": "the backward of {layer}",
    "update": "the update of {layer} by {rule}",
    RULE: "the update of {layer}, which is not that of {rule}",
    "running statistics": "the running statistics of {layer}",
    "epoch": "the weights or statistics of {layer} after an epoch of several batches",
    "evaluation": "the evaluation of {layer}",
    "input": "the input: other samples, or the same in another order",
    "loss": "the loss, or the batch that it is of",
}


def format_apart(apart: Apart) -> str:
    """How far whole epochs are apart, in words."""
    what = apart.what if apart.step is None else f"loss of step {apart.step} of {apart.what}"
    layer = f", most in {apart.layer}" if apart.layer else ""
    return (
        f"trained as runs are, in float32 and full batches, the {what} differs by {apart.difference:.1e}{layer}, where "
        f"perturbed copies of both allow {apart.allowed:.1e}"
    )


_EPOCH_LOSSES = "an epoch of several batches: other batches, or another order"


def format_place(place: Place, rule: str) -> str:
    """In words: "the forward of pool1 (MaxPool2D), step 1: 1.2e-01". rule: of the stage's updates."""
    told = _EPOCH_LOSSES if place.what == "epoch" and place.layer is None else _TOLD[place.what]
    text = told.format(layer=f"{place.layer} ({place.op})", rule=rule)
    when = f", step {place.step}" if place.step else ""
    dropout = " with dropout" if place.stage == "masks" else ""
    apart = "" if place.difference == float("inf") else f": {place.difference:.1e}"
    return f"{text}{when}{dropout}{apart}"
