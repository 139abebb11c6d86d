"""What the rules look up, as functions of their wildcards; what happens before the first job and after the last."""

import io
import json
import os
from copy import deepcopy
from types import SimpleNamespace

import harness
import pytest
from harness import Wildcards

from trainmark.config.load import load_config
from trainmark.errors import WORKFLOW_VARIABLE, BusyError, DeviceError
from trainmark.plan import hooks
from trainmark.plan.campaign import Campaign, option
from trainmark.plan.figures import known_figures
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import read_plan
from trainmark.plan.run import trainer_in, trainer_name

ASKED = {
    "experiments": {
        "small": {
            "recipes": ["mnist-mlp-flux"],
            "frameworks": ["keras-jax", "chainer"],
            "devices": "auto",
            "epochs": [2, 4],
            "repeats": 2,
        }
    },
    "prepare": ["mnist"],
}


def campaign_of(gpu_found: bool = False, **changes) -> Campaign:
    """The campaign of ASKED, with other settings of its experiment."""
    asked = deepcopy(ASKED)
    asked["experiments"]["small"] |= changes
    config, catalogue = load_config([], asked)
    return Campaign(with_devices(config, gpu_found), catalogue)


@pytest.mark.parametrize("gpu_found", [False, True])
def test_each_trainer_of_an_experiment_may_be_its_baseline(gpu_found):
    parts = {"loops": ["stock", "tuned"], "devices": ["cpu", "gpu"] if gpu_found else ["cpu"]}
    trainers = {trainer_in(vars(run)) for run in campaign_of(gpu_found, **parts).runs}
    assert len(trainers) == (8 if gpu_found else 4)
    for trainer in trainers:
        assert campaign_of(gpu_found, **parts, baseline=trainer_name(*trainer)).runs


def wildcards(**others) -> SimpleNamespace:
    group = {"experiment": "small", "recipe": "mnist-mlp-flux", "dataset": "digits"}
    run = {"framework": "chainer", "device": "cpu", "loop": "stock", "epochs": "2", "repeat": "1"}
    return SimpleNamespace(**group | run | others)


def test_files():
    campaign = campaign_of()
    assert len(campaign.records) == len(set(campaign.records)) == 8
    assert campaign.certificates == ["results/certificates/small/mnist-mlp-flux/digits.json"]
    assert len(campaign.figures) == 3 * len(known_figures())
    assert "results/figures/small/mnist-mlp-flux/digits/loss.svg" in campaign.figures
    assert {"results/datasets/digits/prepared", "results/datasets/mnist/mean.npy"} <= set(campaign.products)


def test_packed_images_are_an_input_and_an_option_where_the_loader_asks_for_them():
    photographs = {"recipes": ["imagenet-nin"], "datasets": ["imagenette-160"]}
    group = wildcards(recipe="imagenet-nin", dataset="imagenette-160")
    files = campaign_of(**photographs)
    assert files.packed_images(group) == [] and files.packed_option(group) == ""
    mapped = campaign_of(**photographs, loader={"store": "mapped"})
    folder = "results/datasets/imagenette-160/packed"
    assert mapped.packed_images(group) == [f"{folder}/train.npy", f"{folder}/test.npy"]
    assert mapped.packed_option(group) == f"--packed {folder}"


def test_the_keys_that_only_the_report_reads_are_those_of_the_schema():
    reported = json.loads(campaign_of(description="Small nets.", baseline="keras-jax on cpu").reported)
    assert reported == [{}, {"small": {"description": "Small nets.", "baseline": "keras-jax on cpu"}}]


def test_one_trainer_has_nobody_to_be_compared_with():
    assert campaign_of(frameworks=["chainer"]).certificates == []


def test_a_settings_place_in_the_schema_says_what_it_makes_stale():
    """Of every key: `training` trains and certifies again, `record` trains again, others do neither."""
    before = campaign_of()
    changes = {
        "seed": (7, True, True), "batch_size": (64, True, True), "input": ({"scale": 1}, True, True),
        "memory_limit_mib": (900, True, False),
        "keep_weights": (True, False, False), "description": ("Other.", False, False), "repeats": (5, False, False),
    }  # fmt: skip
    for key, (value, trains, certifies) in changes.items():
        after = campaign_of(**{key: value})
        assert (before.settings(wildcards()) != after.settings(wildcards())) == trains, key
        assert (before.certified_settings(wildcards()) != after.certified_settings(wildcards())) == certifies, key


def test_whether_the_tuning_is_timed_makes_no_run_of_the_stock_loop_stale():
    timed, not_timed = campaign_of(), campaign_of(time_tuning=False)
    assert timed.settings(wildcards()) == not_timed.settings(wildcards())
    assert timed.settings(wildcards(loop="tuned")) != not_timed.settings(wildcards(loop="tuned"))


def test_the_settings_of_a_run_are_one_document():
    settings = json.loads(campaign_of(memory_limit_mib=900).settings(wildcards()))
    assert settings == harness.settings(memory_limit_mib=900)


def test_a_recipes_values_are_a_runs_and_its_certified_side_a_certificates():
    campaign = campaign_of()
    assert json.loads(campaign.recipe(wildcards()))["optimizer"]["rule"] == "adam_algorithm_1"
    assert json.loads(campaign.certified_recipe(wildcards()))["certified_side"] is None
    assert json.loads(campaign.described_recipes())["mnist-mlp-flux"][1] == 25_450


def test_runs_are_trained_in_their_order_and_after_everything_else():
    campaign = campaign_of()
    turns = []
    for run_id in campaign.order:
        _, _, _, framework, device, loop, epochs, repeat = run_id.split("/")
        parts = {"epochs": epochs.removeprefix("epochs-"), "repeat": repeat.removeprefix("repeat-")}
        turns.append(campaign.turn(vars(wildcards(framework=framework, device=device, loop=loop, **parts))))
    assert turns == sorted(turns, reverse=True) == list(range(8, 0, -1))
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
    assert all({run.device for run in runs} == {name.split("-")[1]} for name, runs in groups.items())


def test_traces_are_of_all_trainers_of_a_group():
    traces = campaign_of(gpu_found=True).traces(wildcards())
    folder = "results/traces/small/mnist-mlp-flux/digits"
    assert traces == [
        f"{folder}/{framework}/{device}/stock.npz"
        for device in ("cpu", "gpu")
        for framework in ("keras-jax", "chainer")
    ]


def test_code_is_that_of_the_framework():
    campaign = campaign_of()
    other = wildcards(framework="keras-jax")
    assert campaign.training_code(wildcards()) != campaign.training_code(other)
    assert campaign.tracing_code(wildcards()) in campaign.certificate_code(wildcards())
    assert campaign.tracing_code(other) in campaign.certificate_code(wildcards())
    assert campaign.preparing_code(wildcards()) != campaign.preparing_code(wildcards(dataset="mnist"))
    assert campaign.report_code() == campaign_of(repeats=5).report_code()


def test_a_look_up_of_a_dataset_gets_its_name_and_the_catalogue():
    found = campaign_of().of_dataset(lambda name, catalogue: (name, catalogue[name]["format"]))
    assert found(wildcards()) == ("digits", "digits")


@pytest.mark.parametrize(
    ("files", "text"),
    [("", ""), (None, ""), ([], ""), ("a b.npy", "--mean 'a b.npy'"), ("mean.npy", "--mean mean.npy")],
)
def test_an_option_is_quoted_or_left_out(files, text):
    assert option("--mean", files) == text


# --- hooks --------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory to work in, and an environment that is put back."""
    monkeypatch.chdir(tmp_path)
    for name in (WORKFLOW_VARIABLE, "TRAINMARK_MIRROR", "TRAINMARK_OFFLINE"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    return tmp_path


def start(gpu_found=False, local=True, jobs=(), deployed=False, **changes):
    asked = deepcopy(ASKED)
    asked["experiments"]["small"] |= changes
    config, catalogue = load_config([], asked | {"mirror": "/", "offline": True})
    campaign = Campaign(with_devices(config, gpu_found), catalogue)
    return hooks.start_workflow(campaign, config, jobs, gpu_found=gpu_found, local=local, deployed=deployed)


def test_a_start_writes_the_plan_and_tells_the_jobs_what_no_result_depends_on(here):
    with start(gpu_found=True):
        plan = read_plan(here / "results" / "plan.json")
        assert plan["config"]["experiments"]["small"]["devices"] == ["cpu", "gpu"], "auto is resolved once"
        assert len(plan["runs"]) == len(plan["order"]) == 16
        assert "mirror" not in plan["config"]
        assert os.environ[WORKFLOW_VARIABLE] == str(os.getpid())
        assert (os.environ["TRAINMARK_MIRROR"], os.environ["TRAINMARK_OFFLINE"]) == ("/", "1")


def test_a_second_workflow_in_the_directory_is_refused(here):
    with start(), pytest.raises(BusyError):
        start()


def test_a_gpu_by_name_must_be_there_where_the_jobs_run(here):
    with pytest.raises(DeviceError, match="the experiment small asks for the device gpu"):
        start(devices=["gpu"])
    assert not (here / "results").exists()
    start(devices=["gpu"], local=False).close()


def test_auto_on_a_host_without_gpu_is_said_where_jobs_run_elsewhere(here, capsys):
    start(local=False).close()
    assert "devices: auto means the CPU alone here" in capsys.readouterr().err
    start(local=False, devices=["cpu", "gpu"]).close()
    start(local=True).close()
    assert capsys.readouterr().err == ""


def test_the_end_shows_what_is_prepared_and_the_table(here):
    manifest = {"dataset": "mnist", "samples": {"train": 5, "test": 2}, "classes": 10}
    for name, text in {
        "datasets/mnist/prepared/manifest.json": json.dumps(manifest),
        "tables/summary.txt": "the table\n",
        "report/index.html": "",
    }.items():
        (here / "results" / name).parent.mkdir(parents=True)
        (here / "results" / name).write_text(text)
    shown = io.StringIO()
    hooks.print_results(campaign_of(), shown)
    first, second, *_, last = shown.getvalue().splitlines()
    assert first == "mnist: 5 training and 2 test samples in 10 classes: results/datasets/mnist/prepared"
    assert (second, last) == ("", f"Report: {here / 'results' / 'report' / 'index.html'}")


def test_the_end_of_what_left_nothing_says_nothing(here):
    shown = io.StringIO()
    hooks.print_results(campaign_of(), shown)
    assert shown.getvalue() == ""


def test_what_is_made_anew_is_counted_by_why():
    stale = {"a": ["settings"], "b": ["settings", "code"], "c": ["settings"]}
    stream = io.StringIO()
    hooks.print_stale(stale, stream)
    assert stream.getvalue() == (
        "2 results are not what the config asks for, and made anew: settings\n"
        "1 result is not what the config asks for, and made anew: settings, code\n"
    )
    hooks.print_stale({}, stream)
    assert stream.getvalue().count("\n") == 2
