"""The certificate: a JSON file that says for every pair of trainers of a group whether they train the same network.

A group is an experiment, a recipe and a dataset. A certificate is checked against its schema when it is written and
read. When it is read, its digest is verified and it is searched for contradictions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

from trainmark.errors import CertificateError
from trainmark.files.json_schema import JsonFiles
from trainmark.networks.graph import Architecture
from trainmark.parity.compare import DECIDING_STAGES, NOT_CERTIFIED, PARITY_CLASSES, REFUSED, class_of, compare
from trainmark.parity.epoch_check import LOSSES
from trainmark.parity.trace import Trace
from trainmark.records.record import decode_loss, encode_loss
from trainmark.trainer import Trainer

SCHEMA_VERSION = 8

SCHEMA_FILE = Path(__file__).with_name("certificate.schema.json")

GROUP_KEYS = ("experiment", "recipe", "dataset")

DIFFERENCES = ("losses", "gradients", "weights", "evaluation", "updates")
"""The differences that each stage has."""

MISSING = f"{NOT_CERTIFIED}: no certificate contains this pair"

STAGE_TITLES = {
    "network": "the network itself",
    "steps": "with the recipe's optimizer",
    "masks": "with dropout",
}


def certificate(
    group: Mapping[str, str], traces: Sequence[Trace], architecture: Architecture, code: Mapping[str, object]
) -> dict:
    """Compare all pairs of these traces and return the certificate.

    code: the code that compares.

    Raises CertificateError if the traces have different settings.
    """
    settings = _common_settings(traces[0])
    for trace in traces:
        if _common_settings(trace) != settings:
            raise CertificateError(
                f"{trace.trainer.name} and {traces[0].trainer.name} were traced with different settings, "
                f"{trace.settings} and {settings}; delete results/traces and run snakemake again"
            )
    return {
        "schema_version": SCHEMA_VERSION,
        **group,
        "settings": settings,
        "code": dict(code),
        "parity_classes": {name: bound if bound < 1 else None for name, bound in PARITY_CLASSES.items()},
        "trainers": [
            {
                "trainer": str(trace.trainer),
                "versions": dict(trace.versions),
                "code": trace.settings["code"],
                "failure": asdict(trace.failure) if trace.failure else None,
                "precision": _encoded(tuple(map(asdict, trace.precision))),
                "checks": dict(trace.checks),
            }
            for trace in traces
        ],
        "pairs": [
            _encoded(asdict(pair))
            for pair in (compare(first, second, architecture) for first, second in combinations(traces, 2))
        ],
    }


def _common_settings(trace: Trace) -> dict:
    """Return the settings that must be the same in all traces of a group: all but the code that traced."""
    return {key: value for key, value in trace.settings.items() if key != "code"}


def _encoded(value: Any) -> Any:
    """Return a value as JSON, with each float as in a record."""
    if isinstance(value, dict):
        return {key: _encoded(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_encoded(one) for one in value]
    return encode_loss(value) if isinstance(value, float) else value


# --- files --------------------------------------------------------------------------------------------------------


ADVICE = "delete it and run snakemake again"

_FILES = JsonFiles("certificate", SCHEMA_FILE, CertificateError, ADVICE)


def write_certificate(document: dict, path: Path) -> None:
    """Write a certificate atomically. Raises CertificateError if it does not fit the schema."""
    _FILES.write(document, path)


def read_certificate(path: Path) -> dict:
    """Read a certificate. Raises CertificateError if it is not valid, was edited or contradicts itself."""
    document = _FILES.read(path)
    if contradiction := next(contradictions(document), None):
        raise CertificateError(f"{path} contradicts itself: {contradiction}; {ADVICE}")
    return document


def read_certificates(
    folder: Path, plan: Mapping, groups: Iterable[tuple[str, str, str]]
) -> dict[tuple[str, str, str], dict]:
    """Read the certificates of these (experiment, recipe, dataset). Raises CertificateError like `read_certificate`.

    folder: the results folder. plan: see `plan_file.read_plan`.
    """
    return {group: read_certificate(folder / plan["certificates"]["/".join(group)]["file"]) for group in groups}


# --- contradictions -----------------------------------------------------------------------------------------------


def contradictions(certificate: Mapping) -> Iterator[str]:
    """Yield a phrase for each contradiction in a certificate that fits its schema."""
    failed = {
        Trainer.parse(one["trainer"]).name: one["failure"] or any(one["checks"].values()) or _is_imprecise(one)
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


def _is_imprecise(trainer: Mapping) -> bool:
    return any(float(one["difference"]) > float(one["allowed"]) for one in trainer["precision"])


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


# --- for people ---------------------------------------------------------------------------------------------------


def pair_of(certificate: Mapping | None, first: str, second: str) -> dict | None:
    """Return the pair of two trainers (such as "chainer on cpu"), in either order; None if it is not there."""
    pairs = certificate["pairs"] if certificate else []
    return next((pair for pair in pairs if {pair["first"], pair["second"]} == {first, second}), None)


def certificate_lines(certificate: Mapping) -> Iterator[str]:
    """Yield a line per pair: "chainer on cpu and keras-jax on cpu: equal up to rounding (largest difference 3e-13)"."""
    for pair in certificate["pairs"]:
        yield f"{pair['first']} and {pair['second']}: {pair['sentence']}{_format_epochs(pair)}"


def _format_epochs(pair: Mapping) -> str:
    """Return the end of a sentence: how much the losses of whole epochs differ."""
    losses = [one["difference"] for one in pair["epochs"] or [] if one["what"] == LOSSES]
    return "".join(f"; over whole epochs in float32 the losses differ by {format_difference(one)}" for one in losses)


def format_difference(value: float | str) -> str:
    """Return a difference as text: "1.2e-13", "0" or "infinite"."""
    number = decode_loss(value)
    if number == 0:
        return "0"
    return "infinite" if number == float("inf") else f"{number:.1e}"
