"""The certificate: the JSON file that says of every two trainers of a group whether they train the same network.

A group is an experiment's recipe on a dataset. Checked against its schema on write and on read, and on read against the
digest that it carries and against itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

from trainmark.errors import CertificateError
from trainmark.files.json_schema import JsonFiles
from trainmark.networks.graph import Architecture
from trainmark.parity.compare import CLASSES, NOT_CERTIFIED, Pair, compare
from trainmark.parity.contradictions import contradictions
from trainmark.parity.epoch_check import AT_SLOW_RATE, SLOW_LOSSES
from trainmark.parity.sentences import Place
from trainmark.parity.trace import Trace
from trainmark.plan.run import CERTIFICATE_FILE
from trainmark.records.record import decode_loss, encode_loss

SCHEMA_VERSION = 2

SCHEMA_FILE = Path(__file__).with_name("certificate.schema.json")

GROUP_KEYS = ("experiment", "recipe", "dataset")

DIFFERENCES = ("losses", "gradients", "weights", "evaluation", "updates")
"""What is compared in each stage."""

MISSING = f"{NOT_CERTIFIED}: no certificate names this pair"

STAGE_TITLES = {
    "network": "the network itself",
    "steps": "with the recipe's optimizer",
    "masks": "with dropout",
}


CODE = "code"
"""Key of a trace's settings that is each trainer's own: the code that traced it, as `code_record` gives it."""


def certificate(
    group: Mapping[str, str], traces: Sequence[Trace], architecture: Architecture, code: Mapping[str, object]
) -> dict:
    """Of all pairs of these traces. group: its experiment, recipe and dataset. code: of the comparison.

    Raises CertificateError where the traces are of different settings.
    """
    settings = _common(traces[0])
    for trace in traces:
        if _common(trace) != settings:
            raise CertificateError(
                f"{trace.trainer} and {traces[0].trainer} were traced with different settings, {trace.settings} and "
                f"{settings}; delete results/traces and run snakemake again"
            )
    return {
        "schema_version": SCHEMA_VERSION,
        **group,
        "settings": settings,
        "code": dict(code),
        "classes": {name: bound if bound < 1 else None for name, bound in CLASSES.items()},
        "trainers": [
            {
                "framework": trace.framework,
                "device": trace.device,
                "versions": dict(trace.versions),
                "code": trace.settings[CODE],
                "failure": asdict(trace.failure) if trace.failure else None,
                "checks": dict(trace.checks),
            }
            for trace in traces
        ],
        "pairs": [_as_json(compare(first, second, architecture)) for first, second in combinations(traces, 2)],
    }


def _common(trace: Trace) -> dict:
    """The settings that a trace has in common with the others of its group."""
    return {key: value for key, value in trace.settings.items() if key != CODE}


def _as_json(pair: Pair) -> dict:
    return {
        **{key: getattr(pair, key) for key in ("first", "second", "parity", "sentence")},
        "stages": {name: _encoded(stage) for name, stage in pair.stages.items()},
        "float32": None if pair.float32 is None else _encoded(pair.float32),
        "epochs": None if pair.epochs is None else [_encoded(asdict(one)) for one in pair.epochs],
        "drift": None if pair.drift is None else _encoded(pair.drift),
        "reasons": list(pair.reasons),
        "place": None if pair.place is None else _place(pair.place),
        "causes": [_place(place) for place in pair.causes],
    }


def _place(place: Place) -> dict:
    return _encoded(asdict(place))


def _encoded(values: Mapping) -> dict:
    return {key: encode_loss(value) if isinstance(value, float) else value for key, value in values.items()}


# --- files --------------------------------------------------------------------------------------------------------


AGAIN = "delete it, and snakemake certifies again"

_FILES = JsonFiles("certificate", SCHEMA_FILE, CertificateError, AGAIN)


def write_certificate(found: dict, path: Path) -> None:
    """Write a certificate as a whole or not at all. Raises CertificateError where it does not fit the schema."""
    _FILES.write(found, path)


def read_certificate(path: Path) -> dict:
    """Read a certificate. Raises CertificateError where it is none, was changed, or contradicts itself."""
    found = _FILES.read(path)
    if wrong := next(contradictions(found), None):
        raise CertificateError(f"{path} contradicts itself: {wrong}; {AGAIN}")
    return found


def read_certificates(folder: Path, groups: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], dict]:
    """The certificates of these (experiment, recipe, dataset). Raises CertificateError as `read_certificate` does."""
    return {
        group: read_certificate(folder / CERTIFICATE_FILE.format(**dict(zip(GROUP_KEYS, group, strict=True))))
        for group in groups
    }


# --- for people ---------------------------------------------------------------------------------------------------


def pair_of(found: Mapping | None, first: str, second: str) -> dict | None:
    """The pair of two trainers ("chainer on cpu"), in either order; None where the certificate, if any, lacks it."""
    pairs = found["pairs"] if found else []
    return next((pair for pair in pairs if {pair["first"], pair["second"]} == {first, second}), None)


def certificate_lines(found: Mapping) -> Iterator[str]:
    """A line a pair: "chainer on cpu and keras-jax on cpu: equal but for rounding, 3.1e-13 at most; ..."."""
    for pair in found["pairs"]:
        yield f"{pair['first']} and {pair['second']}: {pair['sentence']}{_format_drift(pair)}"


def _format_drift(pair: Mapping) -> str:
    """How far the losses of whole epochs drift, as the end of a sentence."""
    drift = pair["drift"]
    if drift is None:
        return ""
    if decode_loss(drift["losses"]) == float("inf"):
        return "; in whole epochs, in float32, the losses are not finite"
    slow = any(one["what"] == SLOW_LOSSES for one in pair["epochs"] or [])
    rate = f" {AT_SLOW_RATE}" if slow else ""
    return f"; in whole epochs, in float32, the losses drift by {format_difference(drift['losses'])}{rate}"


def format_difference(value: float | str) -> str:
    """A difference as people read it: "1.2e-13", "0", "infinite"."""
    number = decode_loss(value)
    if number == 0:
        return "0"
    return "infinite" if number == float("inf") else f"{number:.1e}"
