"""What the rules look up, as functions of their wildcards."""

import json
import re

import pytest
from harness import Wildcards
from planned_campaigns import GROUP, campaign_of, config_of, wildcards

from trainmark.config.load import load_config
from trainmark.plan.campaign import Campaign, option
from trainmark.plan.figures import FIGURE_FORMATS, known_figures
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import with_devices
from trainmark.plan.products import KEY, last_of

LOOPS = {"loops": ["stock", "tuned"]}


def without_keys(files):
    """Paths whose keys are written as KEY."""
    return [re.sub(KEY, "KEY", file) for file in files]


def test_files():
    campaign = campaign_of(**LOOPS)
    assert len(campaign.records) == len(set(campaign.records)) == 16
    group = "small/mnist-mlp-flux/digits"
    assert without_keys(campaign.records)[0] == f"results/runs/{group}/keras-jax-cpu/epochs-2/repeat-1/KEY/record.json"
    assert without_keys(campaign.certificates) == [f"results/certificates/{group}/KEY.json"]
    trainers = [f"{name}-cpu{loop}" for loop in ("", "-tuned") for name in ("keras-jax", "chainer")]
    assert without_keys(campaign.evaluations) == [f"results/evaluations/{group}/{name}/KEY.json" for name in trainers]
    assert without_keys(campaign.tunings) == [f"results/tuning/{group}/{name}/KEY.json" for name in trainers[2:]]
    assert len(campaign.figures) == len(FIGURE_FORMATS) * len(known_figures())
    assert f"results/figures/{group}/loss.svg" in campaign.figures
    alone = campaign_of(frameworks=["chainer"])
    assert alone.certificates == alone.evaluations == [], "one trainer has nobody to be compared with"


@pytest.mark.parametrize(
    ("only", "count"),
    [
        ((), 8),
        ("small", 8),
        ("small/*/chainer-*", 4),
        ("*/epochs-2", 4),
        (["*chainer-cpu/epochs-2/repeat-1", "*keras*"], 5),
        ("x", 0),
    ],
)
def test_a_call_for_some_runs_makes_no_tables(only, count):
    campaign = Campaign(campaign_of().plan, only)
    assert len(campaign.chosen) == count and {*campaign.chosen} <= {*campaign.records}
    assert campaign.reports == (not only)


def test_tables_are_of_these_records_and_settings():
    made = campaign_of().tables_made
    assert campaign_of().tables_made == campaign_of(keep_weights=True).tables_made == made
    first = campaign_of().order[0]
    others = [
        campaign_of(seed=7), campaign_of(repeats=3), campaign_of(description="Other."), campaign_of(keep_weights=False),
        campaign_of(planned={"missing": {first: "bad"}}),
    ]  # fmt: skip
    assert len({made, *(other.tables_made for other in others)}) == 6
    reported = json.loads(campaign_of(description="Small nets.", baseline="keras-jax on cpu").reported)
    assert reported == [{}, [], {"small": {"description": "Small nets.", "baseline": "keras-jax on cpu"}}]


def test_options_of_figures_are_those_of_the_config_quoted_for_the_shell():
    campaign = campaign_of()
    group = wildcards(recipe="mnist-mlp-flux", dataset="digits")
    assert campaign.figure_options(group) == ""
    campaign.config["figures"] = {"font": "Liberation Sans", "dpi": 600, "trainers": ["chainer-cpu", "other-cpu"]}
    assert campaign.figure_options(group) == "'--font=Liberation Sans' --dpi=600 --trainers chainer-cpu"


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
        groups.setdefault(campaign.group(Wildcards(vars(run)), 3), []).append(run)
    assert {name: len(runs) for name, runs in groups.items()} == {
        "runs-cpu-0": 3, "runs-cpu-1": 3, "runs-cpu-2": 2, "runs-gpu-0": 3, "runs-gpu-1": 3, "runs-gpu-2": 2,
    }  # fmt: skip
    assert all({run.trainer.device for run in runs} == {name.split("-")[1]} for name, runs in groups.items())


def test_traces_are_of_all_trainers_of_a_certificate():
    traces = campaign_of(gpu_found=True).traces(Wildcards(GROUP | {"key": "k"}))
    folder = "results/traces/small/mnist-mlp-flux/digits/k"
    assert traces == [
        f"{folder}/{framework}-{device}.npz" for device in ("cpu", "gpu") for framework in ("keras-jax", "chainer")
    ]


# --- what a job reads ---------------------------------------------------------------------------------------------

OWN = {
    "own": {"title": "T", "format": "image_folder", "folder": "f", "classes": 4, "packed": True},
    "few": {"title": "F", "format": "class_subset", "of": "own", "classes": 2, "seed": 1},
}


def test_a_tuned_training_reads_its_timing_and_each_trainer_the_records_of_the_one_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    campaign, tuned = campaign_of(gpu_found=True, **LOOPS), wildcards(trainer="chainer-gpu-tuned")
    for name in ("tuning", "gpu_check"):
        assert campaign.reads(name, wildcards()) == [] != campaign.reads(name, tuned)
    assert {*campaign.reads("tuning", tuned)} <= {*campaign.tunings}
    assert {record.split("/")[5] for record in campaign.evaluated(wildcards())} == {"keras-jax-cpu"}
    assert campaign.reads("weights", wildcards()) == []


@pytest.mark.parametrize(
    ("dataset", "recipe", "loader", "read"),
    [
        ("digits", "mnist-mlp-flux", {}, ["prepared", "mean.npy"]),
        ("imdb", "imdb-cnn", {}, ["prepared"]),
        ("own", "imagenet-nin", {}, ["prepared", "mean.npy"]),
        ("few", "imagenet-nin", {"store": "mapped"}, ["prepared", "mean.npy", "packed/train.npy", "packed/test.npy"]),
    ],
)
def test_a_training_reads_its_dataset_and_packed_images_where_its_loader_asks_for_them(dataset, recipe, loader, read):
    experiment = {"recipes": [recipe], "datasets": [dataset], "frameworks": ["chainer"], "devices": ["cpu"]}
    experiment |= {"epochs": [1], "repeats": 1} | ({"loader": loader} if loader else {})
    config, catalogue = load_config([], {"experiments": {"e": experiment}, "datasets": OWN})
    campaign = Campaign(make_plan(config, catalogue))
    job = Wildcards(experiment="e", recipe=recipe, dataset=dataset, trainer="chainer-cpu")
    of_dataset = campaign.reads("prepared", job) + campaign.reads("mean", job)
    files = [*of_dataset, *campaign.reads("packed", job)]
    assert without_keys(files) == [f"results/datasets/{dataset}/KEY/{file}" for file in read]
    assert {*of_dataset} <= {*campaign.shown_of_datasets}
    base = campaign.base(Wildcards(dataset=dataset))
    assert without_keys(base) == (["results/datasets/own/KEY/prepared"] if dataset == "few" else [])
    pictures = [file for file in campaign.shown_of_datasets if file.endswith(".png")]
    assert without_keys(pictures) == ([] if dataset == "imdb" else [f"results/datasets/{dataset}/KEY/mean.png"])
    packed = campaign.packed_for_mean(Wildcards(dataset=dataset))
    assert without_keys(packed) == (["results/datasets/own/KEY/packed/train.npy"] if dataset == "own" else [])


def test_what_is_prepared_for_no_run():
    (prepared, *means) = campaign_of().prepared
    assert without_keys([prepared, *means]) == [
        f"results/datasets/mnist/KEY/{file}" for file in ("prepared", "mean.npy", "mean.png")
    ]


def test_several_files_are_there_with_the_last_of_them():
    assert last_of("results/datasets/d/k/prepared") == "results/datasets/d/k/prepared/manifest.json"
    assert last_of("results/runs/r/k/record.json") == "results/runs/r/k/record.json"


@pytest.mark.parametrize(("files", "text"), [("", ""), (None, ""), ([], ""), ("a b.npy", "--mean 'a b.npy'")])
def test_an_option_is_quoted_or_left_out(files, text):
    assert option("--mean", files) == text


def test_a_plan_that_was_written_gives_the_same_campaign():
    config, catalogue = config_of(**LOOPS)
    plan = make_plan(with_devices(config, gpu_found=True), catalogue)
    read = Campaign(json.loads(json.dumps(plan)))
    assert read.plan == plan and read.runs == Campaign(plan).runs
