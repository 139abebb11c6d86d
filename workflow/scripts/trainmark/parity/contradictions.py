"""Does a certificate contradict itself? The class of a pair follows from its differences."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from trainmark.parity.compare import CERTIFIED, CLASSES, REFUSED
from trainmark.plan.run import trainer_name
from trainmark.records.record import decode_loss


def contradictions(found: Mapping) -> Iterator[str]:
    """Each way in which a certificate that fits its schema contradicts itself, as a phrase."""
    settings = found["settings"]
    if settings["seed"] != settings["experiment"].get("seed"):
        yield f"its seed is {settings['seed']} in one place and {settings['experiment'].get('seed')} in another"
    failed = {
        trainer_name(one["framework"], one["device"]): one["failure"] or any(one["checks"].values())
        for one in found["trainers"]
    }
    pairs = [(pair["first"], pair["second"]) for pair in found["pairs"]]
    if pairs != list(combinations(failed, 2)):
        yield f"its pairs are not every two of its trainers, {', '.join(failed)}"
        return
    for pair in found["pairs"]:
        name = f"{pair['first']} and {pair['second']}"
        if (failed[pair["first"]] or failed[pair["second"]]) and pair["parity"] not in REFUSED:
            yield f"{name} are {pair['parity']}, and one of them failed"
        yield from (f"{name} are {wrong}" for wrong in _wrong_classes(pair))


def _wrong_classes(pair: Mapping) -> Iterator[str]:
    classes = {name: stage["parity"] for name, stage in pair["stages"].items()}
    if not classes:
        if pair["parity"] not in REFUSED:
            yield f"{pair['parity']}, and no stage shows it"
        return
    worst = "different" if pair["reasons"] else max(classes.values(), key=list(CLASSES).index)
    if pair["parity"] != worst or not {*CERTIFIED[:2]} <= classes.keys():
        yield f"{pair['parity']}, and their stages are {classes}"
    too_far = [one["what"] for one in pair["epochs"] or [] if float(one["difference"]) > float(one["allowed"])]
    if too_far and not pair["reasons"]:
        yield f"{pair['parity']}, and part too far in {too_far[0]}"
    for name, stage in pair["stages"].items():
        if stage["parity"] not in _possible(stage):
            yield f"{stage['parity']} in the stage {name}, and its differences say {_possible(stage)[0]}"


def _possible(stage: Mapping) -> list[str]:
    """The classes that a stage of these differences can have, the likeliest first; `different` needs no difference."""
    between = [decode_loss(stage[name]) or 0.0 for name in ("losses", "gradients", "weights", "evaluation")]
    updates = decode_loss(stage["updates"]) or 0.0
    largest = max(*between, updates)
    likeliest = next(name for name, bound in CLASSES.items() if largest < bound or name == "different")
    if updates >= CLASSES["rounding"]:
        return ["different"]
    return [likeliest, "different", *([] if any(between) else ["bitwise"])]
