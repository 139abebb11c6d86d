"""Which runs are trained again because they were disturbed."""

import io
import json
from pathlib import Path

import pytest

from trainmark.plan.plan_file import PLANNED_KEYS, write_plan
from trainmark.plan.products import RECORD_FILE
from trainmark.plan.reruns import count_attempts
from trainmark.plan.run import Run
from trainmark.trainer import Trainer

RUNS = [Run("e", "r", "d", Trainer("chainer", "cpu"), 1, repeat) for repeat in range(1, 6)]
RECORDS = ['{"disturbed": null}', json.dumps({"disturbed": {"causes": [1]}}), "{", "{}"]
"""Of the first runs; the last has none."""

PLAN = Path("results/plan.json")


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run, text in zip(RUNS, RECORDS, strict=False):
        path = Path(RECORD_FILE.format_map(vars(run)))
        path.parent.mkdir(parents=True)
        path.write_text(text)


def planned(attempts):
    write_plan(PLAN, dict.fromkeys(PLANNED_KEYS), [], [], attempts)


def test_a_disturbed_run_is_at_its_next_attempt_and_a_line_counts_it(results):
    stream = io.StringIO()
    assert count_attempts(PLAN, RUNS, True, stream) == ({RUNS[1].id: 2}, [RUNS[1].id])
    assert stream.getvalue() == (
        "rerun_disturbed: 1 run disturbed by something else on the machine, to be trained again\n"
    )
    planned({RUNS[1].id: 2, RUNS[0].id: 4})
    assert count_attempts(PLAN, RUNS, True, stream) == ({RUNS[1].id: 3, RUNS[0].id: 4}, [RUNS[1].id])


def test_where_nothing_is_to_be_trained_again_attempts_stay(results):
    planned({RUNS[1].id: 2})
    stream = io.StringIO()
    assert count_attempts(PLAN, RUNS, False, stream) == ({RUNS[1].id: 2}, [])
    assert count_attempts(PLAN, RUNS[:1], True, stream) == ({RUNS[1].id: 2}, [])
    assert stream.getvalue() == ""
