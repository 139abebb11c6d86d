"""The plan of a campaign: what of its config, its data and its code decides the keys of results, and what does not."""

import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from planned_campaigns import config_of
from records_for_tests import key_of_record, record

from trainmark.config.load import load_config
from trainmark.errors import DataError
from trainmark.plan import code_digests, jobs
from trainmark.plan.code_digests import run_code
from trainmark.plan.jobs import Folder, make_plan
from trainmark.plan.matrix import with_devices
from trainmark.plan.own_data import check_dataset, check_own_data, own_data
from trainmark.plan.products import MANIFEST
from trainmark.plan.run import Run
from trainmark.recipes.catalogue import RECIPES
from trainmark.trainer import Trainer

GROUP = "small/mnist-mlp-flux/digits"
OF = f"{GROUP}/chainer-cpu"
RUN = f"{OF}/epochs-2/repeat-1"
BASE = {"loops": ["stock", "tuned"], "input": {"random_flip": True}}
"""Settings of the experiment before it is changed: a loader has an effect on images that are changed."""


def plan_of(config=None, **options):
    """A plan on a machine without a GPU. config: (config, catalogue). options: of `make_plan`."""
    config, catalogue = config or config_of(**BASE)
    return make_plan(with_devices(config, gpu_found=False), catalogue, **options)


def files_of(plan):
    """The paths of all results of a plan: by kind, and by name."""
    files = {kind: {name: one["file"] for name, one in plan[kind].items()} for kind in ("certificates", "evaluations")}
    files |= {kind: {name: one["folder"] for name, one in plan[kind].items()} for kind in ("datasets", "commands")}
    tunings = {of: tuple(job["files"].get("tuning", ())) for of, job in plan["jobs"].items()}
    return files | {"runs": plan["records"], "tunings": tunings}


def changed(before, after):
    """Names of the results that both plans have, under other keys; by kind."""
    before, after = files_of(before), files_of(after)
    common = {kind: sorted(before[kind].keys() & after[kind].keys()) for kind in before}
    other = {kind: [name for name in common[kind] if before[kind][name] != after[kind][name]] for kind in before}
    return {kind: names for kind, names in other.items() if names}


# --- the config ---------------------------------------------------------------------------------------------------

RUNS = {"runs", "tunings", "evaluations"}


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, set()),
        ({"optimizer": {"learning_rate": 0.5}}, RUNS | {"certificates"}),
        ({"seed": 7}, RUNS | {"certificates"}),
        ({"input": {"random_flip": True, "scale": 1}}, RUNS | {"certificates"}),
        ({"loader": {"jobs": 2}}, RUNS | {"certificates"}),
        ({"memory_limit_mib": 900}, RUNS),
        ({"target_accuracy": 0.9}, RUNS),
        ({"epochs": [2, 4, 8]}, {"evaluations"}),
        ({"repeats": 3}, {"evaluations"}),
        ({"frameworks": ["keras-jax", "chainer", "flax"]}, {"certificates", "evaluations"}),
        ({"loops": ["stock"]}, {"certificates", "evaluations"}),
        ({"keep_weights": True}, set()),
        ({"keep_weights": False}, set()),
        ({"description": "Other."}, set()),
        ({"baseline": "chainer on cpu"}, set()),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_setting_changes_the_keys_of_what_it_decides(changes, kinds):
    assert changed(plan_of(), plan_of(config_of(**BASE | changes))).keys() == kinds


def test_a_number_may_be_written_with_or_without_a_point():
    plans = [plan_of(config_of(**BASE, optimizer={"learning_rate": rate})) for rate in (1, 1.0, 1.01)]
    assert changed(plans[0], plans[1]) == {} != changed(plans[0], plans[2])


def test_further_trainers_change_no_run_and_each_evaluates_the_one_before():
    alone = {"frameworks": ["torch", "chainer"], "devices": ["cpu"]}
    one, several = (plan_of(config_of(**alone, workers=workers)) for workers in ([1], [1, 2]))
    assert changed(one, several).keys() == {"certificates", "evaluations"}
    assert several["certificates"][GROUP]["most_workers"] == 2
    assert one["evaluations"][OF]["records"] == [
        path for run_id, path in one["records"].items() if "/torch-cpu/" in run_id
    ]


def test_a_timing_belongs_to_tuned_loops():
    other = changed(plan_of(), not_timed := plan_of(config_of(**BASE, time_tuning=False)))
    assert {Trainer.parse(name.split("/")[3]).loop for name in other["runs"]} == {"tuned"}
    assert set(files_of(not_timed)["tunings"].values()) == {()}


def test_another_name_of_an_experiment_is_another_experiment():
    config, catalogue = config_of(**BASE)
    renamed = {**config, "experiments": {"other": config["experiments"]["small"]}}
    plan = plan_of((renamed, catalogue))
    assert not plan["records"].keys() & plan_of()["records"].keys()


def test_initial_weights_count_by_their_content(tmp_path):
    weights, architecture = tmp_path / "weights.npz", RECIPES["mnist-mlp-flux"].architecture((1, 28, 28), 10)

    def planned(value):
        np.savez(weights, **{one.name: np.full(one.shape, value) for one in architecture.arrays()})
        return plan_of(config_of(**BASE, initial_weights=str(weights)))

    assert changed(planned(1.0), planned(1.0)) == {}
    assert changed(planned(1.0), planned(2.0)).keys() == RUNS | {"certificates"}


@pytest.mark.parametrize(
    ("change", "is_other"),
    [
        ({"command": "python a.py --more"}, {"runs"}),
        ({"files": [{"path": "a.py", "urls": ["https://other.org/a.py"], "sha256": "a" * 64}]}, {"runs"}),
        ({"files": [{"path": "a.py", "urls": ["https://x.org/a.py"], "sha256": "b" * 64}]}, {"runs", "commands"}),
    ],
    ids=["command", "address", "content"],
)
def test_commands_and_what_they_fetch(change, is_other):
    def planned(**changes):
        file = {"path": "a.py", "urls": ["https://x.org/a.py"], "sha256": "a" * 64}
        metrics = {"format": "json-lines", "columns": {"loss": "loss"}}
        command = {"command": "python a.py", "files": [file], "metrics": metrics} | changes
        experiment = {"commands": {"c": command}, "devices": ["cpu"], "epochs": [1], "repeats": 1}
        return plan_of(load_config([], {"experiments": {"e": experiment}}))

    assert changed(planned(), planned(**change)).keys() == is_other


# --- data ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path):
    """A folder of images, and one of arrays."""
    for name in ("a", "b"):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "1.png").write_bytes(b"image")
    (tmp_path / "linked").mkdir()
    (tmp_path / "images" / "b" / "link").symlink_to(tmp_path / "linked")
    (tmp_path / "linked" / "again").symlink_to(tmp_path / "linked")
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / "x.npz").write_bytes(b"array")
    return tmp_path


def entries_of(folder):
    file = {"name": "a.npz", "urls": ["https://x.org/a.npz"], "sha256": "a" * 64}
    images = {"classes": 3, "image_shape": [1, 28, 28]}
    return {
        "images": {"title": "T", "format": "image_folder", "classes": 2, "folder": str(folder / "images")},
        "few": {"title": "F", "format": "class_subset", "of": "images", "classes": 2, "seed": 1},
        "arrays": {"title": "A", "format": "npz", "folder": str(folder / "arrays"), **images},
        "fetched": {"title": "A", "format": "npz", "files": [file], **images},
    }


def on_own_data(entries, earlier=None):
    """The plan of runs on images, on a choice of their classes, on arrays and on files that are fetched."""
    common = {"frameworks": ["chainer"], "devices": ["cpu"], "epochs": [1], "repeats": 1}
    experiments = {
        "photos": common | {"recipes": ["imagenet-nin"], "datasets": ["images", "few"]},
        "grey": common | {"recipes": ["mnist-mlp-flux"], "datasets": ["arrays", "fetched"]},
    }
    config, catalogue = load_config([], {"experiments": experiments, "datasets": entries})
    return plan_of((config, catalogue), own=own_data(entries, catalogue, earlier or {}))


def at(name, **changes):
    """A change of the entry of a dataset."""
    return lambda folder, entries: entries[name].update(changes)


def moved(folder, entries):
    (folder / "images").rename(folder / "moved")
    entries["images"]["folder"] = str(folder / "moved")


def fetched(**changes):
    return lambda folder, entries: entries["fetched"]["files"][0].update(changes)


def write(file, content=b"another"):
    """Put a file in place of one that is there, if any, as programs do that save images."""

    def put(folder, entries):
        (folder / "new").write_bytes(content)
        (folder / "new").rename(folder / file)

    return put


def touched(folder, entries):
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))


DATA = {
    "nothing": (lambda folder, entries: None, "", ""),
    "a title": (at("images", title="U"), "", "few images"),
    "a folder with another path": (moved, "", "few images"),
    "an image more": (write("images/a/2.png"), "few images", "few images"),
    "an image of another size": (write("images/a/1.png"), "few images", "few images"),
    "an image behind a link": (write("linked/3.png"), "few images", "few images"),
    "an image of the same size": (write("images/a/1.png", b"IMAGE"), "", ""),
    "an image less": (lambda folder, entries: (folder / "images/a/1.png").unlink(), "few images", "few images"),
    "files that systems add": (write("images/a/.DS_Store"), "", ""),
    "times": (touched, "", ""),
    "an array of the same size": (write("arrays/x.npz", b"ARRAY"), "arrays", "arrays"),
    "an array more": (write("arrays/y.npz"), "arrays", "arrays"),
    "how images are divided": (at("images", test_share=0.5), "few images", "few images"),
    "the choice of classes": (at("few", seed=2), "few", "few"),
    "whether images are packed": (at("images", packed=True), "", ""),
    "an address": (fetched(urls=["https://other.org/a.npz"]), "", ""),
    "a checksum": (fetched(sha256="b" * 64), "fetched", "fetched"),
}
"""A change, the datasets whose runs have other keys after it, and those that are prepared in another folder."""


@pytest.mark.parametrize("what", DATA)
@pytest.mark.parametrize("is_known", [True, False], ids=["with an earlier plan", "without"])
def test_data_count_by_their_content(own, what, is_known):
    change, trained, prepared = DATA[what]
    entries = entries_of(own)
    for path in own.rglob("*"):
        os.utime(path, (1000, 1000))
    before = on_own_data(entries)
    change(own, entries)
    other = changed(before, on_own_data(entries, earlier=json.loads(json.dumps(before)) if is_known else None))
    assert {name.split("/")[2] for name in other.get("runs", ())} == {*trained.split()}
    assert {*other.get("datasets", ())} == {*prepared.split()}


@pytest.mark.parametrize("what", ["nothing", "times", "an image more", "an array of the same size"])
def test_a_job_refuses_data_that_changed_since_it_was_planned(own, what):
    change, trained, _ = DATA[what]
    entries = entries_of(own)
    plan = json.loads(json.dumps(on_own_data(entries)))
    change(own, entries)
    for name in entries:
        with pytest.raises(DataError, match="have changed since") if name in trained.split() else nullcontext():
            check_own_data(plan, name)


@pytest.mark.parametrize("kind", ["prepare", "mean_image", "pack"])
def test_a_job_of_a_dataset_refuses_code_that_changed_since_it_was_planned(monkeypatch, kind):
    plan = plan_of()
    check_dataset(plan, "digits")
    edited_kind(monkeypatch, kind)
    with pytest.raises(DataError, match="the code of trainmark has changed since"):
        check_dataset(plan, "digits")


def test_data_that_are_gone_are_those_that_an_earlier_plan_knew(own):
    before = on_own_data(entries_of(own))
    shutil.rmtree(own / "images")
    shutil.rmtree(own / "arrays")
    assert changed(before, on_own_data(entries_of(own), earlier=before)) == {}


# --- code ---------------------------------------------------------------------------------------------------------


def edited(monkeypatch, framework="chainer"):
    """Edit the adapter of a framework."""

    def code(recipe, trainer):
        found = run_code(recipe, trainer)
        return found | {"sha256": "e" * 16} if trainer.framework == framework else found

    monkeypatch.setattr(jobs, "run_code", code)


def edited_kind(monkeypatch, kind):
    """Edit the code of a kind of job."""
    real = code_digests.digest
    for module in (jobs, code_digests):
        monkeypatch.setattr(
            module, "digest", lambda name, *more, **key: "e" * 16 if name == kind else real(name, *more, **key)
        )


def test_an_edited_adapter_changes_the_keys_of_its_own_results(monkeypatch):
    before = plan_of()
    edited(monkeypatch)
    other = changed(before, plan_of())
    assert other.keys() == RUNS | {"certificates"}
    assert {name.split("/")[3].split("-")[0] for kind in ("runs", "tunings") for name in other[kind]} == {"chainer"}


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        ("prepare", RUNS | {"certificates", "datasets"}),
        ("mean_image", RUNS | {"certificates", "datasets"}),
        ("certify", {"certificates"}),
        ("collect", set()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_edited_code_changes_the_keys_of_what_it_makes(monkeypatch, kind, kinds):
    before = plan_of()
    edited_kind(monkeypatch, kind)
    assert changed(before, plan_of()).keys() == kinds


# --- what is there ------------------------------------------------------------------------------------------------


def touch(folder, *files):
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()


def test_a_record_has_the_key_of_its_plan():
    plan = json.loads(json.dumps(plan_of()))
    for run_id in (RUN, RUN.replace("chainer-cpu", "keras-jax-cpu-tuned")):
        trained = Run("small", "mnist-mlp-flux", "digits", Trainer.parse(run_id.split("/")[3]), 2, 1)
        job = plan["jobs"][run_id.rsplit("/", 2)[0]]
        changes = {"run": trained.values, "settings": job["settings"], "inputs": job["inputs"]}
        changes |= {"provenance.code": job["code"]}
        assert plan["records"][run_id] == f"runs/{run_id}/{key_of_record(record(changes=changes))}/record.json"


@pytest.mark.parametrize(
    ("there", "newest", "again"),
    [([], "", ""), ([""], "", ".2"), (["", ".2"], ".2", ".3"), ([".2"], ".2", ".3"), (["", ".3"], "", ".2")],
)
def test_attempts(tmp_path, there, newest, again):
    first = Path(plan_of()["records"][RUN])
    attempt = lambda end: f"{first.parent}{end}/record.json"  # noqa: E731
    touch(tmp_path, *map(attempt, there))
    plan = plan_of(folder=Folder(tmp_path))
    assert (plan["records"][RUN], plan["repeated"]) == (attempt(newest), [])
    plan = plan_of(folder=Folder(tmp_path), again={RUN})
    assert plan["records"][RUN] == attempt(again)
    assert plan["repeated"] == [RUN], "also where nothing is there: it is trained"
    assert len(set(plan["records"].values())) == len(plan["records"])


def test_results_of_other_code_count_on_request(tmp_path, monkeypatch):
    before = plan_of()
    record_file, prepared = before["records"][RUN], before["datasets"]["digits"]["folder"]
    touch(tmp_path, record_file, record_file.replace("/record", ".2/record"), f"{prepared}/prepared/{MANIFEST}")
    edited(monkeypatch)
    edited_kind(monkeypatch, "prepare")
    own = plan_of(folder=Folder(tmp_path))
    assert "datasets" in changed(before, own) and own["records"][RUN] != record_file
    kept = plan_of(folder=Folder(tmp_path, any_code=True))
    assert kept["records"][RUN] == record_file.replace("/record", ".2/record")
    assert kept["datasets"]["digits"]["folder"] == prepared
    assert kept["records"].keys() - {RUN} == {
        name for name in kept["records"] if kept["records"][name] == own["records"][name]
    }, "of others there is none"
    touch(tmp_path, own["records"][RUN])
    assert plan_of(folder=Folder(tmp_path, any_code=True))["records"][RUN] == own["records"][RUN]
    other = plan_of(config_of(**BASE, seed=7), folder=Folder(tmp_path, any_code=True))
    assert other["records"][RUN] not in (record_file, own["records"][RUN])


def test_a_certificate_is_kept_if_trainers_fail_after_it_was_made(tmp_path):
    """Without one, the trainers that are left are certified: traces of the others may fail."""
    config = config_of(frameworks=["chainer", "keras-jax", "flax"])
    planned = plan_of(config)
    failed = {run: "no luck" for run in planned["order"] if "/flax-cpu/" in run}
    without = plan_of(config, missing=failed, folder=Folder(tmp_path))
    assert without["certificates"][GROUP]["trainers"] == ["chainer-cpu", "keras-jax-cpu"]
    assert without["records"].keys() == planned["records"].keys() - failed.keys()
    assert without["order"] == planned["order"] and without["missing"] == failed
    touch(tmp_path, planned["certificates"][GROUP]["file"])
    kept = plan_of(config, missing=failed, folder=Folder(tmp_path))
    assert kept["certificates"] == planned["certificates"]
