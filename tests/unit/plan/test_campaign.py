"""What the rules look up, as functions of their wildcards."""

import json

import pytest
from campaigns import campaign_of, wildcards
from harness import Wildcards

from trainmark.plan.campaign import option
from trainmark.plan.figures import FIGURE_FORMATS, known_figures


def test_files():
    campaign = campaign_of()
    assert len(campaign.records) == len(set(campaign.records)) == 8
    assert campaign.certificates == ["results/certificates/small/mnist-mlp-flux/digits.json"]
    assert len(campaign.figures) == len(FIGURE_FORMATS) * len(known_figures())
    assert "results/figures/small/mnist-mlp-flux/digits/loss.svg" in campaign.figures
    assert {"results/datasets/digits/prepared", "results/datasets/mnist/mean.npy"} <= set(campaign.products)
    assert campaign_of(frameworks=["chainer"]).certificates == [], "one trainer has nobody to be compared with"


def test_options_of_figures_are_those_of_the_config_quoted_for_the_shell():
    campaign = campaign_of()
    group = wildcards(recipe="mnist-mlp-flux", dataset="digits")
    assert campaign.figure_options(group) == ""
    campaign.config["figures"] = {"font": "Liberation Sans", "dpi": 600, "trainers": ["chainer-cpu", "other-cpu"]}
    assert campaign.figure_options(group) == "'--font=Liberation Sans' --dpi=600 --trainers chainer-cpu"


def test_a_settings_place_in_the_schema_says_what_it_makes_stale():
    """Of every key: `training` trains and certifies again, `record` trains again, `report` and others do neither."""
    before = campaign_of()
    changes = {
        "seed": (7, True, True), "input": ({"scale": 1}, True, True), "memory_limit_mib": (900, True, False),
        "keep_weights": (True, False, False), "description": ("Other.", False, False), "repeats": (5, False, False),
    }  # fmt: skip
    for key, (value, trains, certifies) in changes.items():
        after = campaign_of(**{key: value})
        assert (before.settings(wildcards()) != after.settings(wildcards())) == trains, key
        assert (before.certified_settings(wildcards()) != after.certified_settings(wildcards())) == certifies, key
    reported = json.loads(campaign_of(description="Small nets.", baseline="keras-jax on cpu").reported)
    assert reported == [{}, [], {"small": {"description": "Small nets.", "baseline": "keras-jax on cpu"}}]


def test_whether_the_tuning_is_timed_makes_no_run_of_the_stock_loop_stale():
    loops = {"loops": ["stock", "tuned"]}
    timed, not_timed = campaign_of(**loops), campaign_of(**loops, time_tuning=False)
    tuned = wildcards(trainer="chainer-cpu-tuned")
    assert timed.settings(wildcards()) == not_timed.settings(wildcards())
    assert timed.settings(tuned) != not_timed.settings(tuned)
    assert "--tuning results/tuning/small/mnist-mlp-flux/digits/chainer-cpu-tuned.json" in timed.training_options(tuned)
    assert not_timed.tunings == [] and "--tuning" not in not_timed.training_options(tuned)


def test_runs_are_trained_in_their_order_and_after_everything_else():
    campaign = campaign_of()
    by_id = {run.id: run for run in campaign.runs}
    turns = [campaign.turn(vars(by_id[run_id])) for run_id in campaign.order]
    assert turns == list(range(8, 0, -1))
    assert campaign.before_runs == 9


def test_groups_of_runs_follow_each_other_in_the_order_and_are_on_one_device():
    campaign = campaign_of(gpu_found=True)
    groups = {}
    for run in sorted(campaign.runs, key=lambda run: campaign.order.index(run.id)):
        assert campaign.group(Wildcards(vars(run)), 1) is None
        groups.setdefault(campaign.group(Wildcards(vars(run)), 3), []).append(run)
    assert {name: len(runs) for name, runs in groups.items()} == {
        "runs-cpu-0": 3, "runs-cpu-1": 3, "runs-cpu-2": 2, "runs-gpu-0": 3, "runs-gpu-1": 3, "runs-gpu-2": 2,
    }  # fmt: skip
    assert all({run.trainer.device for run in runs} == {name.split("-")[1]} for name, runs in groups.items())


def test_traces_are_of_all_trainers_of_a_group():
    traces = campaign_of(gpu_found=True).traces(wildcards())
    folder = "results/traces/small/mnist-mlp-flux/digits"
    assert traces == [
        f"{folder}/{framework}-{device}.npz" for device in ("cpu", "gpu") for framework in ("keras-jax", "chainer")
    ]


def test_code_is_that_of_the_framework():
    campaign = campaign_of()
    other = wildcards(trainer="keras-jax-cpu")
    assert campaign.training_code(wildcards()) != campaign.training_code(other)
    assert campaign.training_code(wildcards()) in campaign.certificate_code(wildcards())
    assert campaign.training_code(other) in campaign.certificate_code(wildcards())
    assert campaign.preparing_code(wildcards()) != campaign.preparing_code(wildcards(dataset="mnist"))


@pytest.mark.parametrize(("files", "text"), [("", ""), (None, ""), ([], ""), ("a b.npy", "--mean 'a b.npy'")])
def test_an_option_is_quoted_or_left_out(files, text):
    assert option("--mean", files) == text
