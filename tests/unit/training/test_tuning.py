"""Each step is timed beside those before it; the number of threads is the one that is faster in every round."""

import math

import numpy as np
import pytest
from harness import settings

from trainmark.frameworks.registry import known_frameworks
from trainmark.plan.audits import PlannedRuns
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.trainer import TUNED, Trainer
from trainmark.training.tuning import (
    LONGEST_EPOCH_SECONDS,
    ROUNDS,
    Cost,
    Timed,
    time_tuning,
    train_function,
)

MANIFEST = {"kind": "images", "sample_shape": [1, 8, 8], "classes": 10, "samples": {"train": 250, "test": 8}}


@pytest.fixture
def timed(tmp_path):
    """A function that returns what is trained. The manifest is made up."""

    def make(kind="images", framework="chainer", device="cpu"):
        training = ResolvedTraining(RECIPES["mnist-mlp-keras"], settings(), MANIFEST | {"kind": kind})
        return Timed(Trainer(framework, device, TUNED), training, tmp_path, None, None)

    return make


class Pretended:
    """A trainee whose epochs take the seconds that a function (steps of the tuning, threads, turn's number) returns."""

    def __init__(self, seconds_of, steps, threads):
        self.seconds_of, self.steps, self.threads, self.turns, self.closed = seconds_of, steps, threads, [], 0

    def take_turn(self, epochs, steps):
        self.turns.append((epochs, steps))
        share = 1 if steps is None else steps / 3
        return epochs * share * self.seconds_of(self.steps, self.threads, len(self.turns))

    def close(self):
        self.closed += 1


def measured(timed, seconds_of, threads=4, **limits):
    """(What is measured, the trainees that were started)."""
    trainees = []

    def start(steps, count):
        assert sum(not one.closed for one in trainees) <= 1, "more than two at a time"
        trainees.append(Pretended(seconds_of, tuple(steps), count))
        return trainees[-1]

    return time_tuning(timed, start, threads, **limits), trainees


def by_steps(steps, threads, turn):
    """Each step takes a tenth off; the number of threads changes nothing, but in the last round."""
    return 3.0 * 0.9 ** len(steps) * (1 if threads == 4 or turn < ROUNDS else 2)


def test_each_step_is_timed_beside_those_before_it(timed):
    tuning, trainees = measured(timed(), by_steps)
    names = [step.name for step in known_frameworks()["chainer"].tuning]
    taken = [step for step in tuning["steps"] if step["step"] != "threads"]
    assert [step["step"] for step in taken] == [name for name in names if name in {step["step"] for step in taken}]
    assert {"slices", "fused", "masks"} <= {step["step"] for step in taken}
    for place, step in enumerate(taken):
        assert step["before_seconds"] == pytest.approx([3.0 * 0.9**place] * ROUNDS)
        assert step["seconds"] == pytest.approx([3.0 * 0.9 ** (place + 1)] * ROUNDS)
        assert step["taken"] and step["threads"] == 4
    assert tuning["turn"] == {"epochs": 1, "samples": 250} and tuning["epoch_samples"] == 250
    assert all(one.closed for one in trainees)
    assert trainees[0].steps == () and trainees[-1].steps == tuple(step["step"] for step in taken)


def test_fewer_threads_must_be_faster_in_every_round(timed):
    """Slower in one round: not chosen, and a quarter is not tried."""
    tuning, _ = measured(timed(), lambda *turn: 0.9 * by_steps(*turn) if turn[1] < 4 else by_steps(*turn))
    tried = [step for step in tuning["steps"] if step["step"] == "threads"]
    assert [(step["threads"], step["taken"], step["text"]) for step in tried] == [(2, False, "2 of 4 threads")]
    assert tuning["threads"] == 4


@pytest.mark.parametrize(("best", "tried"), [(2, [(2, True), (1, False)]), (1, [(2, True), (1, True)])])
def test_fewer_threads_are_chosen_as_long_as_they_are_faster(timed, best, tried):
    tuning, _ = measured(timed(), lambda steps, threads, turn: 3.0 + abs(threads - best))
    assert [(step["threads"], step["taken"]) for step in tuning["steps"] if step["step"] == "threads"] == tried
    assert tuning["threads"] == best


def test_steps_without_an_effect_are_left_out(timed):
    resident = [step.name for step in timed(framework="keras-jax").steps()]
    assert resident == ["steps", "epoch"]
    assert [step.name for step in timed("image_lists", framework="keras-jax").steps()] == ["steps"]
    assert [step.name for step in timed(framework="keras-jax", device="gpu").steps()] == ["steps", "epoch"]
    assert [step.name for step in timed(framework="torch", device="gpu").steps()] == ["resident", "fused", "graph"]
    streamed = timed("image_lists", framework="torch", device="gpu")
    assert [step.name for step in streamed.steps()] == ["ahead", "fused", "graph"]


@pytest.mark.parametrize(
    ("epoch_seconds", "runs_seconds", "turn"),
    [
        (0.3, math.inf, (4, None)),  # several short epochs
        (LONGEST_EPOCH_SECONDS, math.inf, (1, None)),
        (80.0, math.inf, (1, 6)),  # as many steps of 500 as take a second
        (0.3, 4 * (2 + 13 * 0.7), (2, None)),
        (4.0, 4 * (2 + 13 * 0.5), (1, 62)),
        (0.2, 1.0, (1, None)),  # too short runs: the shortest turn
        (80.0, 1.0, (1, 1)),
    ],
)
def test_a_turn_is_some_epochs_or_a_part_of_one(epoch_seconds, runs_seconds, turn):
    runs = None if runs_seconds == math.inf else PlannedRuns(0, runs_seconds / epoch_seconds)
    cost = Cost(comparisons=4, start_seconds=2.0, epoch_seconds=epoch_seconds, epoch_steps=500, runs=runs)
    assert cost.turn == turn
    if runs_seconds > 1:
        assert cost.seconds <= runs_seconds


@pytest.mark.parametrize(
    ("epochs", "text"), [(30, "left out: it would take"), (60, "takes about"), (1000, "takes about")]
)
def test_a_timing_takes_no_longer_than_its_runs(timed, epochs, text):
    said = []
    limits = {"runs": PlannedRuns(4, epochs), "announce": said.append}
    tuning, trainees = measured(timed(), lambda steps, threads, turn: 1.0, **limits)
    seconds = sum(count * (1 if part is None else part / 3) for one in trainees for count, part in one.turns[-13:])
    assert said[0].startswith(text) and "4 runs" in said[0]
    assert (tuning["steps"] == []) == bool(tuning["left_out"]) == text.startswith("left out")
    assert seconds < epochs


def test_a_trainer_trains_the_parts_of_a_turn(timed, monkeypatch):
    """The real adapter on made-up images: parts are compiled once, and epochs follow each other."""
    images = np.random.default_rng(0).random((250, 1, 8, 8)).astype(np.float32)
    monkeypatch.setattr("trainmark.training.tuning.open_splits", lambda *_: {"train": (images, np.arange(250) % 10)})
    one = timed()
    assert one.training.batch_size == RECIPES["mnist-mlp-keras"].batch_size == 128
    assert one.training.feed(1, 1).steps == 2
    for steps in ([], ["slices", "checks"]):
        train = train_function(one, steps, 1)
        assert train(1, 1) > 0 and train(2, None) > 0
