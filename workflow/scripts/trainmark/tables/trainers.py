"""Pairs trainers, and says by their certificates whether they train the same network: only such pairs are ranked."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product

import pandas as pd

from trainmark.parity.certificate import MISSING, pair_of
from trainmark.parity.compare import NOT_CERTIFIED, PARITY_CLASSES
from trainmark.recipes.command import DATASET, FRAMEWORK
from trainmark.tables.formatting import format_versions
from trainmark.tables.frames import NOTHING, by_trainer, groups
from trainmark.tables.pairs import Pair
from trainmark.trainer import TRAINER, Trainer
from trainmark.variant import GROUP, Group

OF_COMMAND = (
    f"{NOT_CERTIFIED}: nothing shows that a command trains the same network; its epochs hold all that it does in them, "
    "such as its own evaluation"
)

Certificates = Mapping[Group, Mapping]
"""Certificates by (experiment, recipe, dataset)."""


def baselines_of(runs: pd.DataFrame, experiments: Mapping[str, Mapping]) -> dict[tuple, str]:
    """The baseline of each group, such as "chainer on cpu": what its experiment names, or the group's first trainer. If
    all of its runs were censored, it is the first trainer that has a run which is ok. experiments: of the config.
    """
    found = {}
    for values, group in groups(runs[runs["framework"] != FRAMEWORK], GROUP):
        is_ok = {trainer.name: (own["status"] == "ok").any() for trainer, own in by_trainer(group)}
        first = experiments.get(values[0], NOTHING).get("baseline") or next(iter(is_ok))
        found[values] = first if is_ok.get(first, True) else next((name for name, ok in is_ok.items() if ok), first)
    return found


def trainer_pairs(
    runs: pd.DataFrame, certificates: Certificates, wrong: Mapping = NOTHING, experiments: Mapping = NOTHING
) -> Iterator[Pair]:
    """Yield each pair of trainers of a group at one number of epochs, a baseline as the first of its pairs.

    wrong: from `checks.pairs_of_runs.wrong_pairs`. experiments: those of the config, which may name a baseline.
    """
    runs = runs[runs["framework"] != FRAMEWORK]
    baselines, most_epochs = baselines_of(runs, experiments), runs.groupby(GROUP)["epochs"].max()
    for (*of_group, epochs), own in groups(runs, [*GROUP, "epochs"]):
        group = (of_group[0], of_group[1], of_group[2])
        certificate, of_trainers = certificates.get(group), dict(by_trainer(own))
        other_packages = {trainer: _other_packages(certificate, trainer, own) for trainer, own in of_trainers.items()}
        for both in combinations(of_trainers, 2):
            first, second = sorted(both, key=lambda trainer: trainer.name != baselines[group])
            pair = pair_of(certificate, first.name, second.name)
            parity, reason = (pair["parity"], pair["sentence"]) if pair else (NOT_CERTIFIED, MISSING)
            if sentence := wrong.get((*group, first.name, second.name)):  # the runs contradict the certificate
                parity, reason = "different", sentence
            elif other := other_packages[first] or other_packages[second]:
                parity, reason = NOT_CERTIFIED, other
            at = {"is_longest": epochs == most_epochs[group], "is_over_baseline": first.name == baselines[group]}
            own_runs = (of_trainers[first], of_trainers[second])
            yield Pair("trainers", group, epochs, first, second, own_runs, parity, reason, **at)


def is_compared(pair: Pair) -> bool:
    """Whether two trainers differ in exactly one of their parts, or one of them is the baseline."""
    parts = zip(pair.first, pair.second, strict=True)
    return pair.is_over_baseline or sum(bool(one != other) for one, other in parts) == 1


def parity_table(pairs: Iterable[Pair]) -> pd.DataFrame:
    """A row for every pair of trainers of a group, compared or not: the worst parity over the numbers of epochs."""
    worst: dict[tuple, Pair] = {}
    order = [*PARITY_CLASSES, NOT_CERTIFIED]
    for pair in pairs:
        names = (*pair.group, pair.first.name, pair.second.name)
        worst[names] = max(worst.get(names, pair), pair, key=lambda one: order.index(one.parity))
    rows = [[*names, pair.parity, pair.reason] for names, pair in worst.items()]
    return pd.DataFrame(rows, columns=[*GROUP, "first", "second", "parity", "reason"])


def command_pairs(runs: pd.DataFrame) -> Iterator[Pair]:
    """Yield each training of an experiment with each of its commands on the same device."""
    same, is_command = ["experiment", "epochs", "device"], runs["framework"] == FRAMEWORK
    for (experiment, epochs, device), of_commands in groups(runs[is_command], same):
        beside = runs[~is_command & (runs[same] == [experiment, epochs, device]).all(axis=1)]
        of_trainers = list(groups(beside, ["recipe", "dataset", *TRAINER]))
        for ((command,), own), (of, of_trainer) in product(groups(of_commands, ["recipe"]), of_trainers):
            group, both, of_first = (experiment, command, DATASET), (of_trainer, own), f" ({of[0]} on {of[1]})"
            names = Trainer(*of[2:]), Trainer(FRAMEWORK, device)
            yield Pair("commands", group, epochs, *names, both, NOT_CERTIFIED, OF_COMMAND, of_first=of_first)


def _other_packages(certificate: Mapping | None, trainer: Trainer, runs: pd.DataFrame) -> str:
    """Why a pair is not certified: a trainer was certified with other package versions than its runs have; else ""."""
    of_trainers = (certificate or {}).get("trainers", [])
    certified = {one["trainer"]: format_versions(one["versions"]) for one in of_trainers}.get(str(trainer))
    others = sorted({*runs["versions"][runs["status"] == "ok"]} - {certified})
    if not certified or not others:
        return ""
    return (
        f"{NOT_CERTIFIED}: {trainer.name} was certified with {certified}, but its runs have {' or '.join(others)}; "
        "delete the certificate, or those records, and run snakemake again"
    )
