"""The plan: what a workflow writes, and what its jobs read of it."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from planned_campaigns import campaign_of

from trainmark.errors import DataError
from trainmark.plan.audits import removes_weights, writes_weights
from trainmark.plan.plan_file import (
    job_of,
    plan_if_there,
    position_in_order,
    read_plan,
    refuse_other_folders,
    run_of,
    write_plan,
)
from trainmark.plan.run import Run
from trainmark.trainer import Trainer

RUN = Run("small", "mnist-mlp-flux", "digits", Trainer("chainer", "cpu"), 2, 1)
OF = "small/mnist-mlp-flux/digits/chainer-cpu"


@pytest.mark.parametrize("content", ["{", "[]", "3", "{}", '{"config": {}}', '{"order": null}', '{"records": []}'])
def test_a_plan_that_can_not_be_read_is_a_reason_to_fail_for_who_needs_it(tmp_path, content):
    plan = tmp_path / "plan.json"
    plan.write_text(content)
    assert plan_if_there(plan).get("datasets", {}) == {}
    with pytest.raises(DataError, match=r"plan\.json is not a plan of this version of trainmark: run snakemake"):
        read_plan(plan)


def test_a_plan_that_a_job_needs_and_that_is_missing_is_one_sentence(tmp_path):
    assert plan_if_there(tmp_path / "plan.json") == {}
    with pytest.raises(DataError, match=r"there is no plan .*plan\.json on .*need the same directory"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("plan", "is_refused"),
    [
        ({"runs": [RUN.id], "order": [RUN.id]}, True),
        ({"records": {}, "order": [RUN.id]}, False),
        ({"order": []}, False),
    ],
)
def test_results_in_folders_of_another_version_are_refused(tmp_path, plan, is_refused):
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(DataError, match="go on with that version") if is_refused else nullcontext():
        refuse_other_folders(tmp_path / "plan.json")
    refuse_other_folders(tmp_path / "none.json")


def test_a_job_reads_what_was_planned_and_the_secret_stays(tmp_path):
    path, planned = tmp_path / "results" / "plan.json", campaign_of().plan
    path.parent.mkdir()
    write_plan(path, planned)
    plan = read_plan(path)
    write_plan(path, planned)
    assert plan.items() >= planned.items() and read_plan(path)["secret"] == plan["secret"] != ""
    run, job = run_of(plan, path, RUN.id)
    assert (run, job) == (RUN, job_of(plan, path, OF))
    assert {"settings": job.settings, "inputs": job.inputs, "code": job.code}.items() <= planned["jobs"][OF].items()
    assert job.dataset_folder == path.parent / planned["datasets"]["digits"]["folder"] / "prepared"
    assert (job.mean, job.packed, job.tuning) == (job.dataset_folder.with_name("mean.npy"), None, None)
    assert position_in_order(RUN, plan) == {"position": planned["order"].index(RUN.id) + 1, "of": 8}
    assert position_in_order(RUN, {"order": ["x"]}) is None
    with pytest.raises(DataError, match=f"has no job e/r/d/t; it has small/.*{OF}"):
        job_of(plan, path, "e/r/d/t")
    with pytest.raises(DataError, match=f"found {OF}/epochs-x/repeat-1; allowed: the id of a run"):
        run_of(plan, path, f"{OF}/epochs-x/repeat-1")


def test_a_job_whose_code_was_edited_since_is_refused():
    plan = campaign_of().plan
    job_of(plan, Path("plan.json"), OF).check_code()
    plan["jobs"][OF]["code"]["sha256"] = "e" * 16
    with pytest.raises(DataError, match="the code of trainmark has changed since"):
        job_of(plan, Path("plan.json"), OF).check_code()


@pytest.mark.parametrize(
    ("changes", "on_texts", "written", "removed"),
    [
        ({"frameworks": ["a", "b"]}, False, True, True),
        ({"devices": ["cpu", "gpu"]}, False, True, True),
        ({"loops": ["stock", "tuned"]}, False, True, True),
        ({"frameworks": ["a", "b"]}, True, True, False),
        ({}, False, False, True),
        ({}, True, True, False),
        ({"keep_weights": True}, False, True, False),
        ({"keep_weights": False, "frameworks": ["a", "b"]}, True, False, False),
    ],
)
def test_weights_are_written_where_somebody_reads_them_and_removed_after_the_last_reader(
    changes, on_texts, written, removed
):
    trainers = {"frameworks": ["a"], "devices": ["cpu"], "loops": ["stock"], "workers": [1]}
    experiment = {"keep_weights": "needed"} | trainers | changes
    assert writes_weights(experiment, on_texts) == written
    assert removes_weights(experiment, on_texts) == removed
