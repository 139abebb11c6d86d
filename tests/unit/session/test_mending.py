"""Disturbed runs that are trained again at the end of a call: which, for how long, and when it ends."""

import io
import json
from pathlib import Path

import pytest
from planned_campaigns import campaign_of
from records_for_tests import disturbed, record

from trainmark.plan.plan_file import write_plan
from trainmark.session import mending

LOAD = disturbed(foreign_seconds=0.2)


def records_of(repeats, disturbed_runs, frameworks=("chainer", "flax")):
    """Records by run id. disturbed_runs: (framework, repeat) of each."""
    found = {}
    for framework in frameworks:
        for repeat in range(1, repeats + 1):
            one = record(framework, repeat, changes=LOAD if (framework, repeat) in disturbed_runs else {})
            found[one["run"]["id"]] = one
    return found


def names(runs):
    return [(run.split("/")[3].removesuffix("-cpu"), int(run.rpartition("-")[2])) for run in runs]


@pytest.mark.parametrize(
    ("repeats", "disturbed_runs", "chosen"),
    [
        (8, [("flax", 1), ("flax", 2)], []),
        (
            8,
            [("flax", 8), ("chainer", 3), ("flax", 3), ("flax", 1)],
            [("flax", 1), ("chainer", 3), ("flax", 3), ("flax", 8)],
        ),
        (6, [("flax", 2)], [("flax", 2)]),
        (5, [("flax", 2)], []),
    ],
)
def test_runs_are_trained_again_if_undisturbed_pairs_are_too_few_and_may_become_enough(repeats, disturbed_runs, chosen):
    records = records_of(repeats, disturbed_runs)
    assert names(mending.to_mend(records, set(records))) == chosen
    assert mending.to_mend(records, set()) == [], "of another call"


def test_a_trainer_alone_is_not_trained_again():
    records = records_of(6, [("flax", 1)], frameworks=("flax",))
    assert mending.to_mend(records, set(records)) == []


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A function that mends a campaign of 6 repeats whose runs are all disturbed; mended: which of them further calls
    mend. It returns the runs of each further call, and what was printed.
    """
    monkeypatch.chdir(tmp_path)
    campaign = campaign_of(repeats=6)
    write_plan(Path("results/plan.json"), campaign.plan)

    def write(run_id, changes):
        file = Path("results", campaign.plan["records"][run_id])
        file.parent.mkdir(parents=True, exist_ok=True)
        values = next(run.values for run in campaign.runs if run.id == run_id)
        file.write_text(json.dumps(record(changes={"run": values} | changes)))

    def mend(share, mended):
        asked, stream = [], io.StringIO()

        def call(options, variables):
            asked.append(variables[mending.AGAIN_VARIABLE].split())
            for run_id in asked[-1]:
                write(run_id, {} if mended(run_id) else LOAD)

        monkeypatch.setattr(mending, "call_again", call)
        for run_id in campaign.order:
            write(run_id, LOAD)
        mending.mend(campaign.order, share, ["--cores", "2"], stream)
        return asked, stream.getvalue()

    return mend, len(campaign.order)


def test_all_are_trained_again_in_two_attempts_and_then_the_tables_are_made(calls):
    mend, runs = calls
    asked, printed = mend(1.0, mended=lambda run: True)
    assert [len(one) for one in asked] == [runs // 4, runs - runs // 4, 0]
    assert sorted(asked[0] + asked[1]) == sorted({*asked[0], *asked[1]})
    assert printed.startswith(f"training {runs // 4} of {runs} disturbed runs again, which takes about ")


def test_it_ends_with_the_time_or_if_the_other_work_goes_on(calls):
    mend, runs = calls
    asked, printed = mend(0.5, mended=lambda run: True)
    assert sum(map(len, asked)) == runs // 2 and asked[-1] == []
    asked, printed = mend(1.0, mended=lambda run: False)
    assert [len(one) for one in asked] == [runs // 4, 0]
    assert "disturbed again: the other work goes on" in printed
    assert mend(0.0, mended=lambda run: True) == ([], "")
