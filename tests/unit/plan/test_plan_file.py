"""The plan: what a workflow writes, and what its jobs read of it."""

import json

import pytest

from trainmark.errors import DataError
from trainmark.plan.plan_file import (
    experiment_of,
    plan_if_there,
    position_in_order,
    read_plan,
    removes_weights,
    write_plan,
    writes_weights,
)
from trainmark.plan.run import Run

RUN = Run("e", "mnist-mlp-keras", "digits", "chainer", "cpu", "stock", 2, 3)


@pytest.mark.parametrize(
    ("ids", "position"),
    [
        ([RUN.id], {"position": 1, "of": 1}),
        (["x", "y", RUN.id, "z"], {"position": 3, "of": 4}),
        (["x", "y"], None),
        ([], None),
    ],
)
def test_position_in_order(tmp_path, ids, position):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"config": {}, "runs": sorted(ids), "order": ids}))
    assert position_in_order(RUN, plan_if_there(plan)) == position


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "not json", "[]", "null", "3", '"order"', "{}",
        '{"order": null}', '{"order": 3}', '{"order": {"a": 1}}', json.dumps({"order": RUN.id}),
    ],
)  # fmt: skip
def test_a_plan_that_can_not_be_read_is_no_reason_to_fail(tmp_path, content):
    plan = tmp_path / "plan.json"
    plan.write_text(content)
    assert position_in_order(RUN, plan_if_there(plan)) is None
    assert experiment_of("e", plan_if_there(plan)) == {}


def test_no_plan(tmp_path):
    assert position_in_order(RUN, plan_if_there(None)) is None
    assert position_in_order(RUN, plan_if_there(tmp_path / "plan.json")) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"config": {}}', "3"])
def test_a_plan_that_a_job_needs_and_that_is_none_is_one_sentence(tmp_path, content):
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(DataError, match=r"plan\.json is not a plan of this version of trainmark: run snakemake"):
        read_plan(tmp_path / "plan.json")


def test_a_plan_that_a_job_needs_and_that_is_missing_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"there is no plan .*plan\.json on .*need the same directory"):
        read_plan(tmp_path / "plan.json")


def test_what_is_written_is_read(tmp_path):
    config = {
        "experiments": {"e": {"keep_weights": False}},
        "prepare": [],
        "datasets": {},
        "prices": {},
        "mirror": "https://user:key@x",
    }
    write_plan(tmp_path / "plan.json", config, [RUN.id], [RUN.id])
    assert "key" not in (tmp_path / "plan.json").read_text().replace("keep", ""), "a mirror's address may hold one"
    assert read_plan(tmp_path / "plan.json")["config"]["experiments"] == config["experiments"]
    assert experiment_of("e", plan_if_there(tmp_path / "plan.json")) == {"keep_weights": False}


@pytest.mark.parametrize(
    ("keep", "frameworks", "on_texts", "written", "removed"),
    [
        ("needed", ["a", "b"], False, True, True),
        ("needed", ["a", "b"], True, True, False),
        ("needed", ["a"], False, False, True),
        ("needed", ["a"], True, True, False),
        (True, ["a"], False, True, False),
        (True, ["a", "b"], False, True, False),
        (False, ["a", "b"], True, False, False),
    ],
)
def test_weights_are_written_where_somebody_reads_them_and_removed_after_the_last_reader(
    keep, frameworks, on_texts, written, removed
):
    experiment = {"keep_weights": keep, "frameworks": frameworks, "devices": ["cpu"], "loops": ["stock"]}
    assert writes_weights(experiment, on_texts) == written
    assert removes_weights(experiment, on_texts) == removed


@pytest.mark.parametrize("axis", [{"devices": ["cpu", "gpu"]}, {"loops": ["stock", "tuned"]}])
def test_one_framework_on_two_devices_or_in_two_loops_is_two_trainers(axis):
    experiment = {"keep_weights": "needed", "frameworks": ["a"], "devices": ["cpu"], "loops": ["stock"]} | axis
    assert writes_weights(experiment, on_texts=False)


def test_without_a_plan_weights_are_written_and_stay():
    assert writes_weights({}, on_texts=False)
    assert not removes_weights({}, on_texts=False)
