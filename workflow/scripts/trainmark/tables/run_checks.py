"""Do the runs themselves say that two trainers train the same? By what each should share with the other."""

from collections.abc import Iterable, Mapping
from itertools import combinations

import pandas as pd

from trainmark.parity.certificate import pair_of
from trainmark.parity.sketches import scalar_difference
from trainmark.plan.run import trainer_name
from trainmark.records.evaluation import agrees
from trainmark.records.record import decode_loss
from trainmark.tables.formatting import named_runs
from trainmark.tables.tables import GROUP

FIRST_LOSS_ALLOWED = 5e-7
"""How far the losses of two runs may be apart before they are trained, relative. Same training: some 1e-7."""

OF_CERTIFIED = 3.0
"""Or this many times as far as the certificate found the losses of single batches apart in float32."""

Pairs = dict[tuple[str, ...], str]
"""Sentences by (experiment, recipe, dataset, first trainer, second trainer), in both orders."""


def wrong_pairs(records: Mapping[str, Mapping], certificates: Mapping, evaluations: Iterable[Mapping]) -> Pairs:
    """Why two trainers are not to be ranked by their runs, whatever their certificate says.

    Before they are trained, two runs of a repeat have the same loss, of the first batch, or with dropout of the test
    split. And the weights that a run kept give the loss and the accuracy of its record in the other framework too.
    """
    trainers: dict[tuple, dict[str, list[Mapping]]] = {}
    for record in records.values():
        run = record["run"]
        group = trainers.setdefault(tuple(run[key] for key in GROUP), {})
        group.setdefault(trainer_name(run["framework"], run["device"]), []).append(record)
    wrong_runs = _wrong_evaluations({record["run"]["id"]: record for record in records.values()}, evaluations)
    found: Pairs = {}
    for values, group in trainers.items():
        for first, second in combinations(group, 2):
            pair = pair_of(certificates.get(values), first, second)
            wrong = wrong_runs.get((values, first)) or wrong_runs.get((values, second))
            sentence = _other_start(group[first], group[second], pair) or wrong
            if sentence:
                found[*values, first, second] = found[*values, second, first] = f"different: {sentence}"
    return found


def evaluation_gaps(runs: pd.DataFrame) -> list[str]:
    """Which runs of a group of several trainers no other one evaluated, or only by code that has changed since."""
    if len(runs[["framework", "device"]].drop_duplicates()) == 1:
        return []
    finished = runs[runs["status"] == "ok"]
    gaps = [
        (
            finished["evaluated_by"] == "",
            "No other trainer evaluated the trained weights of {}. To have them evaluated, set keep_weights to needed "
            "or true, delete these records and call snakemake again.",
        ),
        (
            finished["evaluated_by_other_code"],
            "The trained weights of {} were evaluated by code that has changed since. They were not evaluated again, "
            "since they were removed; keep_weights: true keeps weights. To have them evaluated again, delete these "
            "records and call snakemake again.",
        ),
    ]
    return [sentence.format(named_runs(finished["number"][which])) for which, sentence in gaps if which.any()]


def _other_start(first: list[Mapping], second: list[Mapping], pair: Mapping | None) -> str | None:
    """Of two trainers' runs of the same repeats, which two do not begin alike; None: all do."""
    certified = decode_loss(pair["float32"]["loss"]) if pair and pair["float32"] else None
    allowed = max(FIRST_LOSS_ALLOWED, OF_CERTIFIED * (certified or 0.0))
    others = {(record["run"]["epochs"], record["run"]["repeat"]): record for record in second}
    for record in first:
        other = others.get((record["run"]["epochs"], record["run"]["repeat"]))
        losses = _starts(record, other) if other else None
        if other and losses and (apart := scalar_difference(*losses)) > allowed:
            what = "test losses before training" if record["settings"]["dropout"] else "first losses"
            return (
                f"the {what} of the runs {record['run']['id']} and {other['run']['id']} differ by {apart:.1e}, and of "
                f"the same training by {allowed:.0e} at most"
            )
    return None


def _starts(*records: Mapping) -> tuple[float, float] | None:
    """The losses of two finished runs before any update; None where one has none."""
    found = []
    for record in records:
        dropout = record["settings"]["dropout"]
        losses = [record["initial_evaluation"]["loss"]] if dropout else record["step_losses"]
        found += [float(loss) for loss in losses[:1] if record["status"] == "ok"]
    return (found[0], found[1]) if len(found) == 2 else None


def _wrong_evaluations(records: Mapping[str, Mapping], evaluations: Iterable[Mapping]) -> dict[tuple, str]:
    """By (group, trainer), which of its runs is evaluated otherwise by another framework."""
    wrong: dict[tuple, str] = {}
    for evaluation in evaluations:
        for run_id, found in evaluation["runs"].items():
            record = records.get(run_id)
            if record is None or record["weights"] is None or agrees(record, found):
                continue
            run, result = record["run"], record["result"]
            wrong.setdefault(
                (tuple(run[key] for key in GROUP), trainer_name(run["framework"], run["device"])),
                f"{found['framework']} evaluates the weights of the run {run_id} to a test loss of "
                f"{float(found['loss']):.6g} and an accuracy of {found['accuracy']:.2%}, and the run's record says "
                f"{result['test_loss']:.6g} and {result['test_accuracy']:.2%}",
            )
    return wrong
