"""Forged records whose digests are renewed, and variants whose setting was not applied: what says so, where.

The records are fabricated; `make test-adversary` forges those of a whole workflow, too (test_records.py).
"""

from itertools import count

import pytest
from records_for_tests import changed, held_from, record, with_other_ranks
from records_for_tests import stretch as watched

from trainmark.checks.campaign import check_records
from trainmark.errors import RecordError
from trainmark.records.consistency import contradictions
from trainmark.records.step_losses import encode_step_losses

pytestmark = pytest.mark.adversary

EPOCHS = 3


def run(repeat=1, framework="chainer", number=0, experiment="e", settings=(), changes=None):
    """A record of 3 epochs, as if one was trained after the other; losses and times are its own."""
    epochs = range(EPOCHS)
    losses = [[1 / (1 + 12 * epoch + step) + repeat / 64 for step in range(12)] for epoch in epochs]
    sizes = [128] * 11 + [30]
    of_epochs = {}
    for epoch, of_epoch in enumerate(losses):
        mean = sum(size * loss for size, loss in zip(sizes, of_epoch, strict=True)) / sum(sizes)
        of_epochs |= {
            f"curves.{epoch}.step_losses": encode_step_losses(of_epoch),
            f"curves.{epoch}.batch_loss": mean,
            f"curves.{epoch}.evaluations.test.loss": mean - 0.01,
            f"curves.{epoch}.batches_sha256": f"{epoch:08x}{repeat:08x}",
        }
    of_epochs |= {"result.test_loss": mean - 0.01, "network.initial_weights_sha256": f"{repeat:064x}"}
    made = record(
        framework, repeat, epochs=EPOCHS, seconds=0.25 + number / 64, experiment=experiment,
        settings=settings, changes=of_epochs | (changes or {}),
    )  # fmt: skip
    return held_from(made, 10.0 + 10 * number)


def campaign(experiments=("e",), settings=((),)):
    numbers = count()
    runs = [
        run(repeat, framework, next(numbers), experiment, own)
        for experiment, own in zip(experiments, settings, strict=True)
        for framework in ("chainer", "keras-jax")
        for repeat in (1, 2)
    ]
    return {one["run"]["id"]: one for one in runs}


def found(records):
    """What a call of snakemake and verify.py say of these records: the first sentence, "" if there is none."""
    for path, one in records.items():
        if contradiction := next(contradictions(one), None):
            return f"{path} contradicts itself: {contradiction}"
    try:
        check_records(records)
    except RecordError as error:
        return str(error)
    return ""


# --- the clock ----------------------------------------------------------------------------------------------------


def longer(factor, *also):
    """Epochs that took so many times as long, with all sums. also: whether what was watched, and held, did."""

    def forge(one):
        seconds = [factor * entry["seconds"] for entry in one["curves"]]
        more = sum(seconds) * (1 - 1 / factor)
        changes = {f"curves.{epoch}.seconds": value for epoch, value in enumerate(seconds)}
        changes |= {
            "phases_seconds.warm_up": seconds[0], "phases_seconds.steady": sum(seconds[1:]),
            "wall_seconds": one["wall_seconds"] + more, "result.steady_epoch_seconds": seconds[1],
            "result.samples_per_second": 1438 / seconds[1], "result.training_seconds": 0.5 + sum(seconds),
        }  # fmt: skip
        begin, end = one["sessions"][0]["held_seconds"]
        if "watched" in also:
            changes["machine.0.seconds"] = one["machine"][0]["seconds"] + more
        if "held" in also:
            changes["sessions.0.held_seconds"] = [begin, end + more]
        return changed(one, changes)

    return forge


def changing(**changes):
    return lambda one: changed(one, {path.replace("__", "."): value for path, value in changes.items()})


CLOCK = {
    "epochs 1.5 times as long": (longer(1.5), "but the machine was watched for"),
    "what was watched, too": (
        longer(1.5, "watched"),
        "the machine was watched for 1.875 s, but it held its CPUs for 1.500 s",
    ),
    "what was held, too, for as long as the next run": (longer(14, "watched", "held"), "say that both held CPU 0 of h"),
    "nothing was watched": (changing(machine=[]), "but the machine was watched for 0.0"),
    "more CPU time than there was": (
        changing(machine=[watched(EPOCHS, 0.25) | {"cpu_seconds": 3.4, "foreign_seconds": 0.0}]),
        "its 2 CPUs were used for 3.400 s, but held for 3.000 s",
    ),
    "held for longer than it ran": (changing(sessions__0__held_seconds=[10.0, 19.0]), "but it ran for"),
}


@pytest.mark.parametrize("forgery", CLOCK)
def test_times_that_do_not_lie_within_each_other_are_named(forgery):
    forge, says = CLOCK[forgery]
    records = campaign()
    assert found(records) == ""
    path = next(iter(records))
    records[path] = forge(records[path])
    sentence = found(records)
    assert says in sentence and path in sentence


def test_a_rank_that_trained_for_another_time_is_named():
    one = record(workers=2, seconds=1.0)
    assert found({"one": with_other_ranks(one, 1.0, 0.9)}) == ""
    rank = with_other_ranks(one, 1.0, 0.9)["other_ranks"][0]
    shorter = changed({**rank}, {"phases_seconds.steady": 0.5}) | {"wall_seconds": rank["wall_seconds"] - 0.5}
    forged = changed(with_other_ranks(one, 1.0, 0.9), {"other_ranks": [{key: shorter[key] for key in rank}]})
    assert "a rank trained for 1.500 s, but the first one for 2.000 s" in found({"one": forged})


# --- copies -------------------------------------------------------------------------------------------------------


def copied(*keys):
    """Parts of the curves of another run, with all that follows from them."""

    def forge(one, other):
        changes = {f"curves.{epoch}.{key}": other["curves"][epoch][key] for epoch in range(EPOCHS) for key in keys}
        if "seconds" in keys:
            times = ("steady_epoch_seconds", "samples_per_second", "training_seconds")
            changes |= {f"result.{key}": other["result"][key] for key in times}
            changes |= {key: other[key] for key in ("phases_seconds", "wall_seconds", "machine")}
        if "evaluations" in keys:
            changes["result.test_loss"] = other["result"]["test_loss"]
        return held_from(changed(one, changes), one["sessions"][0]["held_seconds"][0])

    return forge


COPIES = {
    "seconds of another trainer": (copied("seconds"), "keras-jax", 1, "the same times of epochs"),
    "seconds of another repeat": (copied("seconds"), "chainer", 2, "the same times of epochs"),
    "step losses of another repeat": (copied("step_losses", "batch_loss"), "chainer", 2, "the same step losses"),
    "step losses of another repeat of another trainer": (
        copied("step_losses", "batch_loss"), "keras-jax", 2, "the same step losses",
    ),
    "test losses of another repeat": (copied("evaluations"), "chainer", 2, "the same test losses"),
    "batches of another repeat": (copied("batches_sha256"), "chainer", 2, "trained on other batches in epoch 1"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", COPIES)
def test_what_is_copied_between_runs_is_named(forgery):
    forge, framework, repeat, says = COPIES[forgery]
    records = campaign()
    one, other = (
        f"e/mnist-mlp-flux/digits/{name}-cpu/epochs-3/repeat-{at}" for name, at in (("chainer", 1), (framework, repeat))
    )
    records[one] = forge(records[one], records[other])
    sentence = found(records)
    assert says in sentence and one in sentence and "snakemake trains" in sentence


# --- variants -----------------------------------------------------------------------------------------------------


def adam(**constants):
    return {"optimizer": {"rule": "adam", **constants}}


def sgd(**schedule):
    return {"optimizer": {"rule": "sgd"}, "learning_rate_schedule": schedule}


NOT_APPLIED = {
    "rate": (adam(), adam(learning_rate=0.01), "optimizer.learning_rate"),
    "rule": (adam(), {"optimizer": {"rule": "sgd"}}, "optimizer.rule"),
    "schedule": (sgd(), sgd(milestones=[1]), "optimizer.learning_rate"),
    "restarts": ({}, {"optimizer_restarts": 2}, "optimizer_restarts"),
    "input": ({}, {"input": {"scale": 1.0}}, "input.scale"),
}
APPLIED = {
    "a schedule that has not begun": (sgd(), sgd(milestones=[9])),
    "the recipe's own rate": ({}, adam(learning_rate=0.001)),
    "another loader": ({}, {"loader": {"iterator": "serial", "jobs": None, "store": "files"}}),
    "a smaller limit": ({}, {"memory_limit_mib": 900}),
    "the batch size of the recipe": ({}, {"batch_size": 128}),
    "a window of the whole image": ({}, {"input": {"crop": [28, 28], "random_crop": True}}),
    "a setting that is no other": ({}, {}),
    "a rate that is the same in float32": (adam(learning_rate=0.1), adam(learning_rate=0.1 + 1e-10)),
    "dropout of a recipe without any": ({}, {"dropout": 0.5}),
    "restarts of an optimizer without a state": (sgd(), sgd() | {"optimizer_restarts": 2}),
}
VARIANTS = ("e.one", "e.two")


@pytest.mark.parametrize("setting", NOT_APPLIED)
def test_a_setting_that_was_not_applied_is_named(setting):
    *settings, says = NOT_APPLIED[setting]
    sentence = found(campaign(VARIANTS, settings))
    assert f"the variants one and two differ in {says}" in sentence
    assert "the same losses to the last bit" in sentence


@pytest.mark.parametrize("setting", APPLIED)
def test_variants_that_are_rightly_equal_are_not_refused(setting):
    assert found(campaign(VARIANTS, APPLIED[setting])) == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"network.initial_weights_sha256": "f" * 64}, "began with other weights"),
        ({"curves.1.batches_sha256": "f" * 16}, "trained on other batches in epoch 2"),
    ],
)
@pytest.mark.parametrize("place", [1, 5])
def test_another_seed_is_named(changes, says, place):
    """Of a trainer, and of a variant."""
    records = campaign(VARIANTS, ({}, {"memory_limit_mib": 900}))
    path = list(records)[place]
    records[path] = changed(records[path], changes)
    assert says in found(records)
