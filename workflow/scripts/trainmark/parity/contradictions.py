"""Finds contradictions in a certificate, for example a class that does not follow from the stored differences."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from trainmark.parity.compare import DECIDING_STAGES, PARITY_CLASSES, REFUSED, class_of
from trainmark.records.record import decode_loss
from trainmark.trainer import Trainer


def contradictions(certificate: Mapping) -> Iterator[str]:
    """Yield a phrase for each contradiction in a certificate that fits its schema."""
    failed = {
        Trainer.parse(one["trainer"]).name: one["failure"] or any(one["checks"].values())
        for one in certificate["trainers"]
    }
    pairs = [(pair["first"], pair["second"]) for pair in certificate["pairs"]]
    if pairs != list(combinations(failed, 2)):
        yield f"its pairs are not all pairs of its trainers, {', '.join(failed)}"
        return
    for pair in certificate["pairs"]:
        name = f"{pair['first']} and {pair['second']}"
        if (failed[pair["first"]] or failed[pair["second"]]) and pair["parity"] not in REFUSED:
            yield f"{name} are {pair['parity']}, although one of them failed"
        yield from (f"{name} are {wrong}" for wrong in _wrong_classes(pair))


def _wrong_classes(pair: Mapping) -> Iterator[str]:
    stage_classes = {name: stage["parity"] for name, stage in pair["stages"].items()}
    if not stage_classes:
        if pair["parity"] not in REFUSED:
            yield f"{pair['parity']}, but no stage is stored"
        return
    worst = "different" if pair["reasons"] else max(stage_classes.values(), key=list(PARITY_CLASSES).index)
    if pair["parity"] != worst or not {*DECIDING_STAGES[:2]} <= stage_classes.keys():
        yield f"{pair['parity']}, but their stages are {stage_classes}"
    too_far = [one["what"] for one in pair["epochs"] or [] if float(one["difference"]) > float(one["allowed"])]
    if too_far and not pair["reasons"]:
        yield f"{pair['parity']}, but differ too much in {too_far[0]}"
    for name, stage in pair["stages"].items():
        if stage["parity"] not in _possible_classes(stage):
            yield f"{stage['parity']} in the stage {name}, but its differences mean {_possible_classes(stage)[0]}"


def _possible_classes(stage: Mapping) -> list[str]:
    """Return the classes that a stage with these differences can have, the likeliest first.

    Any stage can be `different`: a small difference is, too, if no known float32 explains it.
    """
    between = [decode_loss(stage[name]) or 0.0 for name in ("losses", "gradients", "weights", "evaluation")]
    updates = decode_loss(stage["updates"]) or 0.0
    if updates >= PARITY_CLASSES["rounding"]:
        return ["different"]
    return [class_of(max(*between, updates)), "different", *([] if any(between) else ["bitwise"])]
