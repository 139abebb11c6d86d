"""The arguments that scripts of jobs share: the plan, and the run or the trainer in it."""

import json
import sys
from pathlib import Path

import evaluate
import pytest
import run_command
import time_tuning
import trace_training
import train
from harness import write_job

from trainmark.errors import DataError
from trainmark.plan.own_data import own_data
from trainmark.plan.run import Run
from trainmark.trainer import Trainer
from trainmark.training.arguments import planned_job, planned_run

OF = "e/mnist-mlp-flux/digits/chainer-cpu"
RUN = f"{OF}/epochs-2/repeat-1"
OF_RUNS = (train, run_command)


@pytest.fixture
def parsed(monkeypatch, tmp_path):
    """A function that parses a script's required arguments and additional ones."""
    write_job(tmp_path, OF, {}, {"seed": 1}, {"batch_size": 9})

    def parse(script, *more):
        named = ["--run", RUN] if script in OF_RUNS else ["--job", OF]
        own = ["--plan", str(tmp_path / "plan.json"), *named, "--out", "out"]
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *own, *more])
        return script.parse_arguments()

    return parse


@pytest.mark.parametrize(
    "script", [*OF_RUNS, trace_training, time_tuning, evaluate], ids=lambda script: script.__name__
)
def test_defaults_and_values_from_the_command_line(parsed, script):
    found = parsed(script)
    assert (found.threads, found.log, found.out) == (1, None, Path("out"))
    given = parsed(script, "--threads", "4", "--log", "log")
    assert (given.threads, given.log) == (4, Path("log"))


def test_a_run_is_what_the_plan_says(parsed):
    run, job, plan = planned_run(parsed(train))
    assert run == Run("e", "mnist-mlp-flux", "digits", Trainer("chainer", "cpu"), 2, 1)
    assert (job.settings, job.inputs["recipe"]) == ({"seed": 1}, {"batch_size": 9}) and plan["secret"]


@pytest.mark.parametrize(
    ("read", "script", "given"),
    [
        (planned_run, train, ["--run", RUN.replace("chainer", "flax")]),
        (planned_job, evaluate, ["--job", OF.replace("chainer", "flax")]),
    ],
)
def test_what_is_not_planned_is_refused(parsed, read, script, given):
    with pytest.raises(DataError, match=f"has no job .*flax-cpu; it has {OF}$"):
        read(parsed(script, *given))


def test_a_job_of_a_plan_that_another_call_has_replaced_is_refused(parsed, tmp_path):
    tuning = "tuning/e/mnist-mlp-flux/digits/chainer-cpu/{}.json"
    planned, earlier = tuning.format("0" * 8 + "-" + "0" * 8), tuning.format("1" * 8 + "-" + "0" * 8)
    write_job(tmp_path, OF, {"tuning": [planned]}, {"seed": 1}, {})
    planned_job(parsed(time_tuning, "--out", planned))
    with pytest.raises(DataError, match="was planned by an earlier call of snakemake"):
        planned_job(parsed(time_tuning, "--out", earlier))


@pytest.mark.parametrize(("read", "script"), [(planned_run, train), (planned_job, evaluate)])
def test_images_that_changed_since_the_plan_was_made_are_refused(parsed, tmp_path, read, script):
    images, plan = tmp_path / "images", tmp_path / "plan.json"
    images.mkdir()
    entry = {"format": "image_folder", "folder": str(images)}
    own = own_data(["digits"], {"digits": entry}, {})["digits"]
    dataset = {"kind": "image_lists", "entry": entry, "own": own}
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"datasets": {"digits": dataset}}))
    read(parsed(script))
    (images / "1.png").touch()
    with pytest.raises(DataError, match="have changed since this call"):
        read(parsed(script))
