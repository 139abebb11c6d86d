"""Checks that the records, certificates and cross-evaluations of a campaign fit each other: all are of one config."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainmark.checks.records import group_of
from trainmark.checks.separate_runs import check_separate
from trainmark.checks.variants import check_variants
from trainmark.config.load import keys_that_decide
from trainmark.errors import CertificateError, RecordError
from trainmark.plan.products import RESULTS
from trainmark.plan.run import OF_TRAINER, Run, of_trainer
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.resolved import batch_size_of
from trainmark.trainer import Trainer
from trainmark.variant import GROUP, split_name


def _shared(record: Mapping) -> dict[str, Any]:
    """Return what is equal in all records of one experiment, recipe and dataset, by its name in messages."""
    of_tuned, asked = keys_that_decide(["tuned"]), record["inputs"]
    return {
        "settings": {key: value for key, value in record["settings"].items() if key not in of_tuned},
        "dataset": record["dataset"],
        "recipe": asked["recipe"],
        "initial weights": asked["initial_weights_sha256"],
    }


def check_records(records: Mapping[str, Mapping]) -> None:
    """Raise RecordError if two records cannot both be of one campaign. records: by path."""
    first_of_group: dict[tuple, tuple[str, Mapping]] = {}
    path_of_process: dict[tuple, str] = {}
    for path, record in records.items():
        other, first = first_of_group.setdefault(group_of(record), (path, record))
        own, shared = _shared(record), _shared(first)
        if name := next((name for name in own if own[name] != shared[name]), None):
            raise RecordError(
                f"{path} and {other} are of one experiment, recipe and dataset, but differ in their {name}"
                f"{_difference(shared[name], own[name])}; delete the one that is not what the config asks for, and "
                "snakemake trains its run again"
            )
        session = record["sessions"][0]
        process = (session["host"], session["boot_id"], session["held_seconds"][0], *session["cpus"])
        if (other_path := path_of_process.setdefault(process, path)) != path:
            raise RecordError(
                f"{path} and {other_path} say that one process trained both, but a process trains only one run: one of "
                "them is a copy; delete both, and snakemake trains the runs again"
            )
    check_separate(records)
    _check_drawn(records)
    check_variants(records)


def _check_drawn(records: Mapping[str, Mapping]) -> None:
    """Raise RecordError if two runs of one repeat began with other weights, or were trained on other batches.

    The seed decides both for all trainers and variants, unless settings change the network, its file of weights or the
    batch size.
    """
    first_of: dict[tuple, tuple[str, str]] = {}
    for path, record in records.items():
        for what, drawn_from, digest in _drawn(record):
            other, first = first_of.setdefault((what, *drawn_from), (path, digest))
            if digest != first:
                raise RecordError(
                    f"{path} and {other} are of one repeat, but {what}; delete the one that is not what the config "
                    "asks for, and snakemake trains its run again"
                )


def _drawn(record: Mapping) -> Iterator[tuple[str, tuple, str]]:
    """Yield (what differs if it does, all that decides it, its digest) of what the seed of a run decides."""
    run, network = record["run"], record["network"]
    if run["framework"] == FRAMEWORK:
        return
    numpy = record["provenance"]["versions"].get("numpy")  # another version may draw others from the same seed
    repeat = (split_name(run["experiment"])[0], run["recipe"], run["dataset"], run["repeat"], numpy)
    if network["initial_weights_sha256"]:
        built = (network["parameters"], record["inputs"]["initial_weights_sha256"])
        yield "began with other weights", (*repeat, *built), network["initial_weights_sha256"]
    for entry in record["curves"]:
        batches = (*repeat, batch_size_of(record), entry["epoch"])
        yield f"trained on other batches in epoch {entry['epoch']}", batches, entry["batches_sha256"]


def _difference(first: Any, second: Any) -> str:
    """Describe the first difference of two mappings: " (seed: 1 and 2)"; "" for other values."""
    if not isinstance(first, Mapping):
        return ""
    key = next(key for key in {**first, **second} if first.get(key) != second.get(key))
    return f" ({key}: {str(first.get(key))[:60]} and {str(second.get(key))[:60]})"


def check_certificates(certificates: Mapping[tuple[str, str, str], Mapping], records: Iterable[Mapping]) -> None:
    """Raise CertificateError if a certificate belongs to another group, or was made with other settings than its runs.

    certificates: by the group whose file each was read from.
    """
    for group, certificate in certificates.items():
        own = tuple(certificate[key] for key in GROUP)
        if own != group:
            raise CertificateError(
                f"the certificate of {', '.join(group)} was made for {', '.join(own)}: it was copied or moved; "
                f"{_again(group)}"
            )
    for record in records:
        group = group_of(record)
        if group not in certificates:
            continue
        settings, asked = certificates[group]["settings"], record["inputs"]
        compared = [
            ("dataset_sha256", settings["dataset_sha256"], record["dataset"]["content_sha256"]),
            ("initial_weights_sha256", settings["initial_weights_sha256"], asked["initial_weights_sha256"]),
        ]
        compared += [(key, settings["recipe"].get(key), value) for key, value in asked["recipe"].items()]
        compared += [(key, value, record["settings"].get(key)) for key, value in settings["experiment"].items()]
        for key, certified, trained in compared:
            if certified != trained:
                raise CertificateError(
                    f"the certificate of {', '.join(group)} was made with the {key} {certified}, but the run "
                    f"{record['run']['id']} was trained with {trained}; {_again(group)}"
                )


def check_evaluations(evaluations: Mapping[str, Mapping], records: Iterable[Mapping]) -> None:
    """Raise RecordError if a cross-evaluation belongs to another trainer, or if a run's weights were not evaluated.

    evaluations: by the trainer that evaluates, as the plan names it.
    records: of all groups; those without kept weights are ignored.
    """
    groups, evaluated = set(), set()
    for of, evaluation in evaluations.items():
        *group, trainer = of.split("/")
        if evaluation["trainer"] != trainer:
            maker, named = (Trainer.parse(one).name for one in (evaluation["trainer"], trainer))
            raise RecordError(
                f"the cross-evaluation of {of} was made by {maker}, not by {named}: it was copied or moved; "
                f"{_evaluate_again(of)}"
            )
        groups.add(tuple(group))
        evaluated.update(evaluation["runs"])
    for record in records:
        run_id = record["run"]["id"]
        if record["weights"] and group_of(record) in groups and run_id not in evaluated:
            again = _evaluate_again("/".join(group_of(record)))
            raise RecordError(f"no other trainer evaluated the weights of the run {run_id}; {again}")


def _evaluate_again(of: str) -> str:
    return f"delete {RESULTS}/evaluations/{of}, and snakemake evaluates again"


def check_tunings(tunings: Mapping[str, Mapping], records: Iterable[Mapping]) -> None:
    """Raise RecordError if a timed tuning belongs to another trainer, or was made with other settings than its runs.

    tunings: by their trainer, as the plan names it.
    """
    for of, tuning in tunings.items():
        if (own := OF_TRAINER.format_map(tuning)) != of:
            raise RecordError(f"the timed tuning of {of} was made for {own}: it was copied or moved; {_time_again(of)}")
    for record in records:
        of, trained_with = of_trainer(Run.of(record["run"])), record["settings"]
        if of in tunings and (timed_with := tunings[of]["inputs"]["settings"]) != trained_with:
            difference = _difference(timed_with, trained_with)
            raise RecordError(
                f"the timed tuning of {of} was made with other settings than the run {record['run']['id']}"
                f"{difference}; {_time_again(of)}"
            )


def _time_again(of: str) -> str:
    return f"delete {RESULTS}/tuning/{of}, and snakemake times the loop again"


def _again(group: Iterable[str]) -> str:
    return f"delete {RESULTS}/certificates/{'/'.join(group)}, and snakemake certifies again"
