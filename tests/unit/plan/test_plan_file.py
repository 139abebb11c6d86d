"""The plan: what a workflow writes, and what its jobs read of it."""

import json
from contextlib import nullcontext

import pytest

from trainmark.errors import DataError
from trainmark.plan.plan_file import (
    PLANNED_KEYS,
    experiment_of,
    plan_if_there,
    position_in_order,
    read_plan,
    refuse_other_folders,
    removes_weights,
    write_plan,
    writes_weights,
)
from trainmark.plan.run import Run
from trainmark.trainer import Trainer

RUN = Run("e", "mnist-mlp-keras", "digits", Trainer("chainer", "cpu"), 2, 3)


def test_position_in_order(tmp_path):
    plan = tmp_path / "plan.json"
    assert position_in_order(RUN, plan_if_there(None)) is None
    assert position_in_order(RUN, plan_if_there(plan)) is None
    for ids, position in [
        (["x", "y", RUN.id, "z"], {"position": 3, "of": 4}),
        ([RUN.id], {"position": 1, "of": 1}),
        (["x", "y"], None),
    ]:
        plan.write_text(json.dumps({"config": {}, "runs": sorted(ids), "order": ids}))
        assert position_in_order(RUN, plan_if_there(plan)) == position


@pytest.mark.parametrize(
    "content", ["{", "[]", "3", "{}", '{"config": {}}', '{"order": null}', f'{{"order": "{RUN.id}"}}']
)
def test_a_plan_that_can_not_be_read_is_a_reason_to_fail_for_who_needs_it(tmp_path, content):
    plan = tmp_path / "plan.json"
    plan.write_text(content)
    assert position_in_order(RUN, plan_if_there(plan)) is None
    assert experiment_of("e", plan_if_there(plan)) == {}
    with pytest.raises(DataError, match=r"plan\.json is not a plan of this version of trainmark: run snakemake"):
        read_plan(plan)


def test_a_plan_that_a_job_needs_and_that_is_missing_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"there is no plan .*plan\.json on .*need the same directory"):
        read_plan(tmp_path / "plan.json")


def test_results_in_folders_of_another_version_are_refused(tmp_path):
    for run_id, is_refused in [(RUN.id, False), ("e/r/digits/chainer/cpu/stock/epochs-2/repeat-3", True)]:
        write_plan(tmp_path / "plan.json", dict.fromkeys(PLANNED_KEYS), [run_id], [run_id])
        with pytest.raises(DataError, match="go on with that version") if is_refused else nullcontext():
            refuse_other_folders(tmp_path / "plan.json")
    refuse_other_folders(tmp_path / "none.json")


def test_what_is_written_is_read(tmp_path):
    experiments = {"e": {"keep_weights": False}}
    config = {
        "experiments": experiments,
        "prepare": [],
        "datasets": {},
        "prices": {},
        "figures": {},
        "claims": [],
        "mirror": "https://me:key@x",
    }
    write_plan(tmp_path / "plan.json", config, [RUN.id], [RUN.id])
    assert "key" not in (tmp_path / "plan.json").read_text().replace("keep", ""), "a mirror's address may hold one"
    assert read_plan(tmp_path / "plan.json")["config"]["experiments"] == experiments
    assert experiment_of("e", plan_if_there(tmp_path / "plan.json")) == {"keep_weights": False}


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


def test_without_a_plan_weights_are_written_and_stay():
    assert writes_weights({}, on_texts=False)
    assert not removes_weights({}, on_texts=False)
