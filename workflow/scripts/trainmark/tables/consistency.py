"""Do the records of a table, and its certificates, fit each other? They were one campaign's, of one config."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from trainmark.errors import CertificateError, RecordError
from trainmark.plan.products import CERTIFICATES, EVALUATIONS
from trainmark.plan.run import trainer_name

GROUP = ("experiment", "recipe", "dataset")

SHARED: dict[str, Callable[[Mapping], Any]] = {
    "settings": lambda record: record["settings"],
    "dataset": lambda record: record["dataset"],
    "recipe": lambda record: record["inputs"]["recipe"],
    "mean image": lambda record: record["inputs"]["mean_sha256"],
}
"""What the records of one experiment, recipe and dataset have in common, by its name."""

CERTIFIED: dict[str, Callable[[Mapping], Any]] = {
    "optimizer": lambda record: record["settings"]["optimizer"],
    "initializer": lambda record: record["settings"]["initializer"],
    "dataset_sha256": lambda record: record["dataset"]["content_sha256"],
}
"""What a certificate's settings and the records of its group have in common, by the key in the certificate."""


def check_records(records: Mapping[str, Mapping]) -> None:
    """Raise RecordError where two records, by their paths, can't both be of one campaign."""
    of_group: dict[tuple, tuple[str, Mapping]] = {}
    of_process: dict[tuple, str] = {}
    for path, record in records.items():
        other, first = of_group.setdefault(_group(record), (path, record))
        for name, value in SHARED.items():
            if value(record) != value(first):
                raise RecordError(
                    f"{path} and {other} are of one experiment, recipe and dataset, and differ in their {name}"
                    f"{_difference(value(first), value(record))}; delete the one that is not what the config asks for, "
                    "and snakemake trains its run again"
                )
        session = record["sessions"][0]
        process = (session["host"], session["boot_id"], session["held_seconds"][0], *session["cpus"])
        if (same := of_process.setdefault(process, path)) != path:
            raise RecordError(
                f"{path} and {same} say that one process trained both, and a process trains one run: one of them is a "
                "copy; delete both, and snakemake trains the runs again"
            )


def _group(record: Mapping) -> tuple[str, str, str]:
    run = record["run"]
    return run["experiment"], run["recipe"], run["dataset"]


def _difference(first: Any, second: Any) -> str:
    """Where two mappings differ first, as " (seed: 1 and 2)"; nothing for other values."""
    if not isinstance(first, Mapping):
        return ""
    key = next(key for key in {**first, **second} if first.get(key) != second.get(key))
    return f" ({key}: {str(first.get(key))[:60]} and {str(second.get(key))[:60]})"


def check_certificates(certificates: Mapping[tuple[str, str, str], Mapping], records: Iterable[Mapping]) -> None:
    """Raise CertificateError where a certificate is of another group than its file, or of other settings than its runs.

    certificates: by the group that each was read for.
    """
    for group, found in certificates.items():
        own = tuple(found[key] for key in GROUP)
        if own != group:
            raise CertificateError(
                f"the certificate of {', '.join(group)} is that of {', '.join(own)}: it was copied or moved; "
                f"{_again(group)}"
            )
    for record in records:
        group = _group(record)
        if group not in certificates:
            continue
        settings = certificates[group]["settings"]
        asked = record["settings"]["experiment"]
        pairs = {key: (settings[key], value(record)) for key, value in CERTIFIED.items()}
        pairs |= {key: (value, asked.get(key)) for key, value in settings["experiment"].items()}
        for key, (certified, trained) in pairs.items():
            if certified != trained:
                raise CertificateError(
                    f"the certificate of {', '.join(group)} was made with the {key} {certified}, and the run "
                    f"{record['run']['id']} was trained with {trained}; {_again(group)}"
                )


def check_evaluations(evaluations: Mapping[str, Mapping], records: Iterable[Mapping]) -> None:
    """Raise RecordError where a cross-evaluation is another trainer's, or one of a run's weights is missing.

    evaluations: by file. records: of the groups that keep their weights, and of others.
    """
    groups, evaluated = set(), set()
    for file, found in evaluations.items():
        *group, framework, device = file.removesuffix(".json").split("/")
        if (found["framework"], found["device"]) != (framework, device):
            raise RecordError(
                f"the cross-evaluation {file} was made by {trainer_name(found['framework'], found['device'])}, and not "
                f"by {trainer_name(framework, device)}: it was copied or moved; delete it, and snakemake evaluates "
                "again"
            )
        groups.add(tuple(group))
        evaluated.update(found["runs"])
    for record in records:
        run_id = record["run"]["id"]
        if record["weights"] and _group(record) in groups and run_id not in evaluated:
            raise RecordError(
                f"no other trainer evaluated the weights of the run {run_id}; delete {EVALUATIONS}/"
                f"{'/'.join(_group(record))}, and snakemake evaluates them"
            )


def _again(group: Iterable[str]) -> str:
    return f"delete {CERTIFICATES}/{'/'.join(group)}.json, and snakemake certifies again"


def code_differences(certificate: Mapping | None, runs: pd.DataFrame) -> list[str]:
    """A sentence for each trainer of a certificate whose runs were trained by other code than was certified."""
    sentences = []
    for trainer in certificate["trainers"] if certificate else []:
        certified = trainer["code"]["modules"]
        own = runs[(runs["framework"] == trainer["framework"]) & (runs["device"] == trainer["device"])]
        trained = [item for modules in own["code_modules"] for item in json.loads(modules).items()]
        others = sorted({name for name, digest in trained if certified.get(name, digest) != digest})
        if others:
            sentences.append(
                f"{trainer_name(trainer['framework'], trainer['device'])} was certified with other code than trained "
                f"its runs ({', '.join(others)}). To compare them, delete the certificate and these records, and call "
                "snakemake again."
            )
    return sentences
