"""Which runs are trained again although their records are up to date."""

import io
import json
from pathlib import Path

import pytest
from campaigns import campaign_of

from trainmark.errors import ConfigError
from trainmark.plan.reruns import runs_to_repeat

RECORDS = ['{"disturbed": null}', json.dumps({"disturbed": {"causes": [1]}}), "{", "{}"]
"""Of the first runs; the others have none."""


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = campaign_of(repeats=5)
    for run_id, text in zip(made.order, RECORDS, strict=False):
        path = Path("results/runs", run_id, "record.json")
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return made


@pytest.mark.parametrize(
    ("rerun", "rerun_disturbed", "repeated"),
    [([], False, []), ([], True, [2]), (3, False, [3]), ([1, 5], False, [1, 5]), ([2, 4], True, [2, 4])],
)
def test_runs_are_named_by_number_or_because_they_were_disturbed(campaign, rerun, rerun_disturbed, repeated):
    stream = io.StringIO()
    found = runs_to_repeat(campaign, {"rerun": rerun, "rerun_disturbed": rerun_disturbed}, stream)
    assert found == {campaign.order[number - 1] for number in repeated}
    assert stream.getvalue().count("rerun_disturbed: 1 run disturbed") == rerun_disturbed


def test_a_number_that_no_run_has_is_refused(campaign):
    count = len(campaign.order)
    with pytest.raises(ConfigError, match=f"rerun: there is no run 99; the runs of this config are 1 to {count}"):
        runs_to_repeat(campaign, {"rerun": [1, 99], "rerun_disturbed": False}, io.StringIO())
