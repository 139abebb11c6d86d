"""The plan: what a job reads of it."""

import json

import pytest

from trainmark.plan.plan_file import place_in_order
from trainmark.plan.run import Run

RUN = Run("e", "mnist-mlp-keras", "digits", "chainer", "cpu", 2, 3)


@pytest.mark.parametrize(
    ("ids", "place"),
    [
        ([RUN.id], {"place": 1, "of": 1}),
        (["x", "y", RUN.id, "z"], {"place": 3, "of": 4}),
        (["x", "y"], None),
        ([], None),
    ],
)
def test_place_in_order(tmp_path, ids, place):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"config": {}, "runs": sorted(ids), "order": ids}))
    assert place_in_order(RUN, plan) == place


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
    assert place_in_order(RUN, plan) is None


def test_no_plan(tmp_path):
    assert place_in_order(RUN, None) is None
    assert place_in_order(RUN, tmp_path / "plan.json") is None
