"""Wrong trainings that a certificate of a few small steps would not reveal: none of them is ranked.

Each fault is injected into an adapter, and the commands of the workflow certify it: trace_training.py, then certify.py
with the trace of another framework without a fault.
"""

import json
import re
import subprocess
import sys

import faulty_trainings
import pytest
from harness import FRAMEWORKS, REPOSITORY, environment, experiment_of, finish, write_config

from trainmark.config.load import load_config
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import write_plan

pytestmark = [pytest.mark.adversary, pytest.mark.timeout(1200)]

SCRIPTS = REPOSITORY / "workflow" / "scripts"
EPOCHS = "different: trained in float32 and full batches, as runs are, the "
IMPRECISE = "different: {} on cpu is less precise than float32, or computes something else, in the "
UPDATE = "different: {} on cpu makes update {} by adam in float32 otherwise than numpy: it differs by "

TORCH = FRAMEWORKS[-1]
"""torch, or the last framework where it is not installed."""

ADAPTERS = [*dict.fromkeys(["chainer", "flax", "keras-jax", TORCH])]
"""A framework of each adapter."""

FOUND = {
    ("flax", "first 1,024 samples"): EPOCHS + "loss of step 1 of whole epochs",
    ("chainer", "microbatches"): IMPRECISE.format("chainer") + "loss (or the batch that it belongs to)",
    (TORCH, "every 20th update skipped"): EPOCHS + "loss of step 21 of whole epochs",
    ("flax", "half of each epoch"): EPOCHS + "loss of step 16 of whole epochs",
    (TORCH, "reshuffled from epoch 2"): EPOCHS + "loss of step 16 of whole epochs",
    ("flax", "last batch padded"): EPOCHS + "loss of step 15 of whole epochs",
    (TORCH, "last batch not trained"): EPOCHS + "loss of step 16 of whole epochs",
    ("flax", "trained twice"): EPOCHS + "loss of step 16 of whole epochs",
    (TORCH, "optimizer reset each epoch"): EPOCHS + "loss of step 30 of whole epochs",
    ("flax", "learning rate 1 % off"): IMPRECISE.format("flax") + "backward pass of dense3 (Dense)",
    ("chainer", "gradients clipped"): IMPRECISE.format("chainer") + "backward pass of dense3 (Dense)",
    ("chainer", "weight decay"): IMPRECISE.format("chainer") + "backward pass of dense3 (Dense)",
    (TORCH, "evaluation on 100 samples"): EPOCHS + "evaluation before training",
    ("flax", "float16 inputs"): IMPRECISE.format("flax") + "input (other samples or another order)",
    ("chainer", "float16 gradients"): IMPRECISE.format("chainer") + "backward pass of dense3 (Dense)",
    ("chainer", "first moment in float16"): UPDATE.format("chainer", 2),
    (TORCH, "second moment in bfloat16"): UPDATE.format(TORCH, 2),
    ("flax", "TF32 backwards in the last layer"): IMPRECISE.format("flax") + "backward pass of dense3 (Dense)",
    ("keras-jax", "bfloat16 products"): IMPRECISE.format("keras-jax") + "forward pass of dense1 (Dense)",
    ("keras-jax", "bfloat16 in full batches"): IMPRECISE.format("keras-jax") + "forward pass of dense1 (Dense)",
    (TORCH, "two-byte predictions"): f"different: {TORCH} returns the prediction of dense3 in float16",
    ("flax", "counts one update too few"): "different: flax on cpu counted 14 updates instead of 15 in epoch 1 of the",
}
"""The beginning of the certificate's sentence for each fault, by framework and name, on a recipe without dropout."""

SCALES = "scales the values that dropout keeps by "
DEPENDENT = "does not draw dropout masks independently for "
NONE = "applies no dropout in training: to {} in epoch 1, step 1, after 1 predictions"

FOUND_WITH_DROPOUT = {
    ("chainer", "dropout scaled 1 % wrong"): SCALES + "1.2625 instead of 1.2500 in dropout1",
    ("chainer", "dropout rate .205"): SCALES + "1.2579 instead of 1.2500 in dropout1",
    ("chainer", "one mask for a batch"): DEPENDENT + "the samples of a batch: 100.0 %",
    ("chainer", "dropout in evaluation"): "applies dropout in evaluation too, before epoch 2",
    ("chainer", "same masks each epoch"): DEPENDENT + "the epochs of a run, with the seeds ",
    ("chainer", "other masks for the same seed"): "draws different dropout masks for the same seed, in dropout1",
    ("chainer", "no dropout"): NONE.format("dropout1"),
    ("chainer", "dropout in the first layer alone"): NONE.format("dropout2"),
    (TORCH, "train() missing"): NONE.format("dropout1"),
    ("flax", "train() missing"): NONE.format("dropout1"),
    (TORCH, "equal masks in two layers"): DEPENDENT + "the layers dropout1 and dropout2: 100.0 %",
    (TORCH, "half a mask, repeated"): DEPENDENT + "the units of a layer: 100.0 %",
    (TORCH, "five masks in turns"): DEPENDENT + "the steps of an epoch: 100.0 %",
    ("flax", "masks of the seed's last byte"): DEPENDENT + "the epochs of a run, with the seeds ",
}
"""The same on a recipe with dropout, after the name of the trainer."""


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A function that certifies a recipe with a fault in one framework and returns the certificate's pair."""
    folder = tmp_path_factory.mktemp("certified")
    finish(folder, "--cores", "2", "--configfile", write_config(folder, {"prepare": ["digits"]}))
    plan, traces = folder / "results" / "plan.json", {}

    def traced(recipe, framework, name):
        out = folder / f"{len(traces)}.npz"
        arguments = ["--plan", plan, "--job", f"e/{recipe}/digits/{framework}-cpu", "--threads", "2"]
        arguments += ["--log", folder / "log", "--out", out]
        command([faulty_trainings.__file__, name, SCRIPTS / "trace_training.py", *arguments])
        return out

    def command(arguments):
        done = subprocess.run(
            [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, env=environment()
        )
        assert done.returncode == 0, done.stderr[-3000:]

    def pair(recipe, framework, name, other=None, **settings):
        """other: (framework, fault) of the other trainer."""
        other = other or ("keras-jax" if framework == "chainer" else "chainer", "nothing")
        keys = {"recipes": [recipe], "frameworks": [framework, other[0]], "input": {"subtract_mean": True}}
        config, catalogue = load_config([], {"experiments": {"e": experiment_of(**keys, **settings)}})
        write_plan(plan, make_plan(with_devices(config, gpu_found=False), catalogue))
        right = recipe, other, json.dumps(settings)
        if right not in traces:
            traces[right] = traced(recipe, *other)
        traces["faulty"] = traced(recipe, framework, name)
        group = ["--experiment", "e", "--recipe", recipe, "--dataset", "digits"]
        files = ["--traces", traces[right], traces["faulty"], "--out", folder / "certificate.json"]
        command([SCRIPTS / "certify.py", "--plan", plan, *group, *files])
        traces["faulty"].unlink()
        (found,) = json.loads((folder / "certificate.json").read_text())["pairs"]
        return found

    return pair


@pytest.mark.parametrize("framework", ADAPTERS)
@pytest.mark.parametrize("recipe", ["mnist-mlp-chainer", "mnist-mlp-keras"])
def test_without_an_error_the_pair_is_certified(certified, recipe, framework):
    pair = certified(recipe, framework, "nothing")
    assert pair["parity"] == "rounding", pair["sentence"]
    for one in pair["epochs"]:
        assert one["difference"] < one["allowed"] / 20, one
    print(recipe, {one["what"]: f"{one['difference']:.1e} of {one['allowed']:.1e}" for one in pair["epochs"]})


SCHEDULED = {
    "warm-up": {"optimizer": {"rule": "rmsprop_warmup", "learning_rate": 0.3}},
    "milestones": {"optimizer": {"rule": "momentum_sgd"}, "learning_rate_schedule": {"milestones": 1}},
}


@pytest.mark.parametrize("framework", ADAPTERS[1:])
@pytest.mark.parametrize("name", SCHEDULED)
def test_a_training_whose_rates_change_is_certified(certified, name, framework):
    pair = certified("mnist-mlp-chainer", framework, "nothing", **SCHEDULED[name])
    assert pair["parity"] == "rounding", pair["sentence"]
    print(
        name,
        {one["what"]: f"{one['difference']:.1e} of {one['allowed']:.1e}" for one in pair["epochs"]},
    )


@pytest.mark.parametrize("framework", ADAPTERS)
def test_an_adapter_that_ignores_rates_is_refused(certified, framework):
    """Also in a training whose rates are constant: a milestone may lie behind the certified epochs."""
    pair = certified("mnist-mlp-chainer", framework, "rates ignored")
    assert pair["parity"] == "different"
    assert re.search("has the loss .* in epoch 2, step .*; numpy has .* learning rate", pair["sentence"])


@pytest.mark.parametrize(("framework", "name"), FOUND)
def test_a_wrong_training_is_refused_and_named(certified, framework, name):
    pair = certified("mnist-mlp-chainer", framework, name)
    assert pair["parity"] == "different"
    assert pair["sentence"].startswith(FOUND[framework, name])
    print(f"{framework}, {name}: {pair['sentence']}")


@pytest.mark.parametrize(("framework", "name"), FOUND_WITH_DROPOUT)
def test_wrong_dropout_is_refused_and_named(certified, framework, name):
    pair = certified("mnist-mlp-keras", framework, name)
    assert pair["parity"] == "different"
    assert pair["sentence"].startswith(f"different: {framework} on cpu {FOUND_WITH_DROPOUT[framework, name]}")
    print(f"{framework}, {name}: {pair['sentence']}")


@pytest.mark.skipif(TORCH != "torch", reason="torch is not installed")
def test_no_imprecise_trainer_excuses_another(certified):
    pair = certified("mnist-mlp-chainer", TORCH, "bfloat16 backwards", other=("flax", "TF32 backwards"))
    assert pair["parity"] == "different"
    for framework in ("flax", TORCH):
        named = IMPRECISE.format(framework).removeprefix("different: ") + "backward pass of dense3 (Dense)"
        assert any(reason.startswith(named) for reason in pair["reasons"])
