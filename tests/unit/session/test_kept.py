"""What is there: runs to train again, what differs from runs of other keys, and what no plan names."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from planned_campaigns import campaign_of
from records_for_tests import place_of, record

from trainmark.errors import ConfigError
from trainmark.session.kept import runs_to_repeat, unnamed, why_trained

DISTURBED = ['{"disturbed": null}', json.dumps({"disturbed": {"causes": [1]}}), "{", "{}"]
"""Records of the first runs; the others have none."""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(file, text=""):
    path = Path("results", file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("rerun", "rerun_disturbed", "repeated"),
    [([], False, []), ([], True, [2]), (3, False, [3]), ([1, 5], False, [1, 5]), ([2, 4], True, [2, 4])],
)
def test_runs_are_named_by_number_or_because_they_were_disturbed(rerun, rerun_disturbed, repeated):
    plan, stream = campaign_of(repeats=5).plan, io.StringIO()
    for run_id, text in zip(plan["order"], DISTURBED, strict=False):
        write(plan["records"][run_id], text)
    found = runs_to_repeat(plan, {"rerun": rerun, "rerun_disturbed": rerun_disturbed}, stream)
    assert found == {plan["order"][number - 1] for number in repeated}
    assert stream.getvalue().count("rerun_disturbed: 1 run disturbed") == rerun_disturbed


def test_a_number_that_no_run_has_is_refused():
    plan = campaign_of().plan
    with pytest.raises(ConfigError, match="rerun: there is no run 99; the runs of this config are 1 to 8"):
        runs_to_repeat(plan, {"rerun": [1, 99], "rerun_disturbed": False}, io.StringIO())


def job_of(run, campaign, rule="train"):
    """The job that trains a run."""
    key = Path(campaign.plan["records"][run.id]).parent.name
    values = {name: str(value) for name, value in vars(run).items()} | {"key": key}
    return SimpleNamespace(rule=SimpleNamespace(name=rule), wildcards_dict=values)


def kept_of(campaign, run, **changes):
    """Write a record of a run as the campaign plans it, with changes."""
    job = campaign.plan["jobs"][run.id.rsplit("/", 2)[0]]
    planned = {"run": run.values, "settings": job["settings"], "inputs": job["inputs"], "provenance.code": job["code"]}
    made = record(changes=planned | changes)
    write(place_of(made), json.dumps(made))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (None, []),
        ({"settings.seed": 7}, ["seed"]),
        ({"settings.seed": 7, "inputs.dataset": "e" * 8}, ["seed, dataset"]),
        ({"inputs.initial_weights_sha256": "e" * 64}, ["initial weights"]),
        ({"provenance.code.sha256": "e" * 16}, ["code"]),
    ],
)
def test_a_call_says_what_it_trains_and_what_differs_from_kept_runs(changes, said):
    campaign = campaign_of()
    for run in campaign.runs if changes else ():
        kept_of(campaign, run, **changes)
    jobs = [job_of(run, campaign) for run in campaign.runs[1:]]
    first, *lines = why_trained(campaign, [*jobs, job_of(campaign.runs[0], campaign, rule="report")])
    assert first == "7 of 8 runs to train"
    assert lines == [f"  small on digits: differs from 7 kept runs in: {names}" for names in said]
    assert list(why_trained(campaign, [])) == []


def test_a_run_that_is_repeated_differs_in_nothing():
    campaign = campaign_of()
    run = campaign.runs[0]
    kept_of(campaign, run)
    job = job_of(run, again := campaign_of(planned={"again": {run.id}}))
    assert again.plan["repeated"] == [run.id]
    assert list(why_trained(again, [job])) == ["1 of 8 runs to train"]


def test_what_no_plan_names():
    plan, other = campaign_of().plan, campaign_of(seed=7).plan
    kept = [plan["records"][run] for run in plan["order"]]
    outdated = Path(other["records"][plan["order"][0]]).parent
    for file in (*kept, f"{outdated}/record.json", f"{outdated}.2/record.json", "tables/runs.parquet"):
        write(file)
    write(kept[0].replace("/record", ".2/record"))
    for one in (plan, other):
        write(one["certificates"]["small/mnist-mlp-flux/digits"]["file"])
    write(f"{plan['datasets']['digits']['folder']}/sources.json")
    write("datasets/digits/raw/a.gz")
    certificate = Path("results", other["certificates"]["small/mnist-mlp-flux/digits"]["file"])
    found = unnamed(Path("results"), [plan])
    assert found == sorted([certificate, Path("results", outdated), Path("results", f"{outdated}.2")])
    assert unnamed(Path("results"), [plan, other]) == []
