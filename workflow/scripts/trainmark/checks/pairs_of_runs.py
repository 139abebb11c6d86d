"""Checks on the runs themselves that two trainers train the same network, by values that their runs must share."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from trainmark.checks.epochs import first_difference
from trainmark.checks.paired_runs import by_trainer, paired_runs
from trainmark.checks.records import group_of
from trainmark.parity.certificate import pair_of
from trainmark.parity.sketches import scalar_difference
from trainmark.records.evaluation import agrees
from trainmark.records.record import decode_loss
from trainmark.records.step_losses import step_losses
from trainmark.trainer import Trainer

FIRST_LOSS_ALLOWED = 5e-7
"""Largest relative difference allowed between the losses of two untrained runs. Equal trainings show about 1e-7."""

OF_CERTIFIED = 3.0
"""Or this many times the difference that the certificate measured between float32 losses of single batches."""

SHOWN = {
    "dropout": "its first loss is that of the batch without dropout",
    "losses": "its loss of step {step} differs by {found:.2g}, where {allowed:.2g} is allowed",
    "mean loss": "its mean loss differs by {found:.2g}, where {allowed:.2g} is allowed",
    "size": "the size of its weight change differs by {found:.2g} in {layer}, where {allowed:.2g} is allowed",
    "weights": "its change of the weights differs by {found:.2g}, most in {layer}, where {allowed:.2g} is allowed",
    "optimizer": "its optimizer's arrays differ in size by a factor of {found:.2g}, where {allowed:.2g} is allowed",
    "test loss before": "its test loss before the epoch differs by {found:.2g}, where {allowed:.2g} is allowed",
    "test loss after": "its test loss after the epoch differs by {found:.2g}, where {allowed:.2g} is allowed",
}
"""What an audit found, in words, by quantity (audit.Difference)."""

Pairs = dict[tuple[str, ...], str]
"""Sentences by (experiment, recipe, dataset, first trainer, second trainer), in both orders of the trainers."""


def wrong_pairs(records: Mapping[str, Mapping], certificates: Mapping, evaluations: Iterable[Mapping]) -> Pairs:
    """For each pair of trainers whose runs show different trainings, a sentence that says why.

    These pairs are not ranked although their certificate does not refuse them. Four checks are made. Before training,
    two runs of the same repeat must have the same loss: that of the first batch or, with dropout, that of the test
    split. Another trainer must compute from the kept weights of a run the loss and accuracy of its record, and what
    its audited epoch did. And the losses of the steps of each epoch must show the same training (epoch_checks).
    """
    wrong_runs = _wrong_evaluations({record["run"]["id"]: record for record in records.values()}, evaluations)
    sentences: Pairs = {}
    for values, group in by_trainer(records.values()).items():
        for first, second in combinations(group, 2):
            pair = pair_of(certificates.get(values), first, second)
            if pair and pair["parity"] == "different":
                continue  # its certificate says where
            sentence = (
                _different_start(group[first], group[second], pair)
                or wrong_runs.get((values, first))
                or wrong_runs.get((values, second))
                or next(_different_epochs(group[first], group[second]), None)
            )
            if sentence:
                sentences[*values, first, second] = sentences[*values, second, first] = f"different: {sentence}"
    return sentences


def wrong_epoch(audit: Mapping | None, run_id: str) -> str | None:
    """Name what differs most in the audited epoch of a run; None if nothing differs too much."""
    differences = audit["differences"] if audit else []
    wrong = [one for one in differences if not float(one["difference"]) <= one["allowed"]]
    if not audit or not wrong:
        return None
    one, replayed_by = wrong[0], audit["by"] if audit["by"] == "numpy" else Trainer.parse(audit["by"]).name
    found = SHOWN[one["what"]].format(**one, found=float(one["difference"]))
    return f"{replayed_by} replayed epoch {audit['epoch']} of the run {run_id} from the state before it: {found}"


def _different_start(first: list[Mapping], second: list[Mapping], pair: Mapping | None) -> str | None:
    """Name the first two runs of one repeat whose losses differ before training; None if there are none."""
    certified = decode_loss(pair["float32"]["loss"]) if pair and pair["float32"] else None
    allowed = max(FIRST_LOSS_ALLOWED, OF_CERTIFIED * (certified or 0.0))
    others = {(record["run"]["epochs"], record["run"]["repeat"]): record for record in second}
    for record in first:
        other = others.get((record["run"]["epochs"], record["run"]["repeat"]))
        losses = _initial_losses(record, other) if other else None
        if other and losses and (difference := scalar_difference(*losses)) > allowed:
            what = "test losses before training" if record["network"]["dropout"] else "first losses"
            return (
                f"the {what} of the runs {record['run']['id']} and {other['run']['id']} differ by "
                f"{difference:.1e}; equal trainings differ by {allowed:.0e} at most"
            )
    return None


def _different_epochs(first: list[Mapping], second: list[Mapping]) -> Iterator[str]:
    """For each number of epochs, name the first epoch in which the runs show different trainings, if there is one."""
    for paired in paired_runs(first, second):
        if found := first_difference(paired.losses, paired.evaluations):
            epochs = len(paired.losses)
            yield f"in epoch {found.epoch} of {epochs} their runs show different trainings: {found.words}"


def _initial_losses(*records: Mapping) -> tuple[float, float] | None:
    """The losses of two runs before any update; None unless both runs are ok and have one."""
    initial = []
    for record in records:
        if record["status"] == "ok":
            untrained = record["initial_evaluation"]  # of networks with dropout
            initial.append(float(untrained["loss"] if untrained else step_losses(record["curves"][0])[0]))
    return (initial[0], initial[1]) if len(initial) == 2 else None


def _wrong_evaluations(records: Mapping[str, Mapping], evaluations: Iterable[Mapping]) -> dict[tuple, str]:
    """By (group, trainer), a sentence on the first of its runs that another trainer evaluates differently."""
    wrong: dict[tuple, str] = {}
    for evaluation in evaluations:
        for run_id, evaluated in evaluation["runs"].items():
            record = records.get(run_id)
            if record is None or record["weights"] is None:
                continue
            if sentence := wrong_epoch(evaluated["audit"], run_id):
                wrong.setdefault((group_of(record), Trainer.of(record["run"]).name), sentence)
            if agrees(record, evaluated):
                continue
            result, evaluator = record["result"], Trainer.parse(evaluated["trainer"])
            wrong.setdefault(
                (group_of(record), Trainer.of(record["run"]).name),
                f"{evaluator.name} evaluates the weights of the run {run_id} to a test loss of "
                f"{float(evaluated['loss']):.6g} and an accuracy of {evaluated['accuracy']:.2%}, but its record says "
                f"{result['test_loss']:.6g} and {result['test_accuracy']:.2%}",
            )
    return wrong
