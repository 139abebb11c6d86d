"""history.py: one line per setting, kept apart by machine; changes where they are, with what else changed; gaps."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from campaigns_for_tests import write_other
from harness import REPOSITORY

from trainmark.campaigns.folders import read_campaigns
from trainmark.campaigns.history import SHOWN, history, places, with_unit
from trainmark.campaigns.pages import render
from trainmark.tables.metrics import METRICS

CHANGED = 7
"""The index of the first campaign after the update."""

OTHER_MACHINE, WITHOUT_JAX = 3, 5
"""The indices of a campaign on another processor, and of one of a single trainer."""

ON_OTHER = {"provenance.cpu_model": "Other <b>", "sessions.0.cpu_model": "Other <b>"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Thirteen campaigns, a week apart: from one on they have another numpy and take 6 % longer."""
    folder, written = tmp_path_factory.mktemp("weekly"), []
    for week in range(13):
        started = f"2026-0{1 + week // 4}-{5 + 7 * (week % 4):02}T00:00:00+00:00"
        is_after = week >= CHANGED
        written.append(
            write_other(
                folder / f"w{week:02}", began=started, seed=week, repeats=3, factor=1.06 if is_after else 1.0,
                versions={"chainer": "7", "numpy": "2.1" if is_after else "2.0"},
                changes=ON_OTHER if week == OTHER_MACHINE else None,
                experiment={"frameworks": ["chainer"]} if week == WITHOUT_JAX else None,
            )
        )  # fmt: skip
    return written


@pytest.fixture(scope="module")
def found(folders):
    """The history of the folders, given in another order."""
    return history(read_campaigns(folders[::-1]))


def series(found, trainer, metric, machine="2 CPUs of Processor"):
    """The one series of these."""
    wanted = (trainer, metric, machine)
    (own,) = [one for one in found["series"] if (one["trainer"], one["metric"], one["machine"]) == wanted]
    return own


def test_a_series_has_the_medians_of_its_campaigns_in_the_order_of_time(found, folders):
    assert [one["name"] for one in found["campaigns"]] == [str(folder) for folder in folders]
    own = series(found, "keras-jax on cpu", "training_seconds")
    assert own["missing"] == [str(folders[place]) for place in (OTHER_MACHINE, WITHOUT_JAX)]
    assert [point["campaign"] for point in own["points"]] == sorted({*range(13)} - {OTHER_MACHINE, WITHOUT_JAX})
    runs = read_campaigns(folders[:1])[0].runs
    times = sorted(runs["training_seconds"][runs["framework"] == "keras-jax"])
    expected = {"campaign": 0, "low": times[0], "value": times[1], "high": times[2], "runs": 3}
    assert own["points"][0] == expected


def test_a_change_says_when_how_much_and_what_else_changed(found, folders):
    before, after = str(folders[CHANGED - 1]), str(folders[CHANGED])
    for metric in ("training_seconds", "steady_epoch_seconds"):
        (one,) = series(found, "chainer on cpu", metric)["changes"]
        assert (one["before"], one["after"]) == (before, after)
        assert one["ratio"] == pytest.approx(1.06, abs=0.02) and one["p_value"] <= 0.05
        assert one["changed"] == ["numpy from 2.0 to 2.1"]
        assert f"between {before} (2026-02-19) and {after} (2026-02-26); changed: numpy" in one["sentence"]
    for metric in ("test_accuracy", "test_loss"):
        assert series(found, "chainer on cpu", metric)["changes"] == []


def test_another_machine_is_a_series_of_its_own(found):
    machines = {one["machine"] for one in found["series"]}
    assert machines == {"2 CPUs of Processor", "2 CPUs of Other <b>"}
    own = series(found, "chainer on cpu", "test_loss", "2 CPUs of Other <b>")
    assert len(own["points"]) == 1 and own["note"] == "too few campaigns (1, needs 12)" and not own["changes"]


def test_disturbed_runs_enter_no_medians_of_times_and_failed_ones_none(folders):
    campaigns = read_campaigns(folders[:2])
    runs = campaigns[0].runs
    slowest = runs["training_seconds"][runs["framework"] == "chainer"].idxmax()
    fastest = runs["training_seconds"][runs["framework"] == "chainer"].idxmin()
    runs.loc[slowest, "disturbed"] = "foreign load"
    points = {metric: series(history(campaigns), "chainer on cpu", metric)["points"][0] for metric in SHOWN}
    assert points["training_seconds"]["runs"] == 2 and points["test_loss"]["runs"] == 3
    assert points["training_seconds"]["high"] < runs["training_seconds"][slowest]
    runs.loc[fastest, "status"] = "diverged"
    points = {metric: series(history(campaigns), "chainer on cpu", metric)["points"][0] for metric in SHOWN}
    assert points["training_seconds"]["runs"] == 1 and points["test_loss"]["runs"] == 2


def test_a_gap_interrupts_the_line(found):
    """Of 13 campaigns the fourth is missing, and the change is before the eighth."""
    own = series(found, "chainer on cpu", "training_seconds")
    page = render("history.html.j2", **found | {"series": [own]}, places=places, with_unit=with_unit, metrics=METRICS)
    ranges, medians, changes = re.findall(r'<path .*?d="(.*?)"', page)
    assert re.sub(r"[\d. -]+", "", medians) == "MLLM" + 8 * "L" and ranges.count("M") == 12
    assert changes == f"M{300 / 13 * CHANGED:.1f} -3V37"
    assert [float(y) for x, y in re.findall(r"([\d.]+) ([\d.]+)", medians)][7:] < [17.0], "higher values are above"


def call(*arguments):
    """What history.py did."""
    command = [sys.executable, str(REPOSITORY / "workflow" / "scripts" / "history.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_and_writes_all(folders, found, tmp_path):
    done = call(*folders, "--html", tmp_path / "page.html", "--json", tmp_path / "history.json")
    assert done.returncode == 0 and done.stderr == ""
    assert len(re.findall(r"^(chainer|keras-jax) on cpu +3 ", done.stdout, re.MULTILINE)) == len(found["series"])
    assert done.stdout.count("changed: numpy from 2.0 to 2.1") == 4
    assert json.loads((tmp_path / "history.json").read_text()) == found
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == len(found["series"]) and page.count("<circle") == sum(
        len(one["points"]) for one in found["series"]
    )
    assert "Other &lt;b&gt;" in page and "<b>" not in page
    assert not re.search(r"(src|href)=|https?:", page), "it works offline"
    assert "nan" not in page


def test_errors_are_one_sentence(folders, tmp_path):
    for arguments, message in (
        (folders[:1], "found 1 campaign; a history needs at least 2"),
        ([folders[0], tmp_path], "is no results folder"),
        ([folders[0], folders[0]], "hold the same 6 runs"),
    ):
        done = call(*arguments)
        assert done.returncode == 1 and message in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_weekly_workflow_of_the_page_compares_and_keeps_the_history(folders, tmp_path):
    """Its script runs beside stand-ins that make the campaign of a week: one as fast as the last one, then a slower."""
    (text,) = re.findall(r"```yaml\n(.*?)```", (REPOSITORY / "docs" / "ci.md").read_text(), re.DOTALL)
    (job,) = yaml.safe_load(text)["jobs"].values()
    checkout, script = job["steps"]
    assert re.fullmatch(r"actions/checkout@[0-9a-f]{40}", checkout["uses"]), "it is pinned"
    kept, stand_ins = tmp_path / "kept", tmp_path / "clone" / ".venv" / "bin"
    shutil.copytree(folders[0], kept / "2026-01-05" / "results")
    stand_ins.mkdir(parents=True)
    (tmp_path / "clone" / "workflow").symlink_to(REPOSITORY / "workflow")
    for name, lines in {
        "make": "exit 0",
        "python": f'exec {sys.executable} "$@"',
        "snakemake": 'test "$1" = --directory && mkdir -p "$2" && cp -r "$CAMPAIGN" "$2/results"',
        "date": "echo $DAY",
    }.items():
        (stand_ins / name).write_text(f"#!/bin/sh\n{lines}\n")
        (stand_ins / name).chmod(0o755)
    slower = write_other(tmp_path / "slower", began="2026-01-19T00:00:00+00:00", factor=1.3, seed=50, repeats=8)
    fast = write_other(tmp_path / "fast", began="2026-01-12T00:00:00+00:00", seed=51, repeats=8)
    for day, campaign, status in (("2026-01-12", fast, 0), ("2026-01-19", slower, 1)):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script["run"]], cwd=tmp_path / "clone",
            env={"KEPT": str(kept), "DAY": day, "CAMPAIGN": str(campaign), "PATH": f"{stand_ins}:/usr/bin:/bin"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        assert (kept / "compare.html").is_file() and day in (kept / "history.html").read_text()
    assert len(json.loads((kept / "history.json").read_text())["campaigns"]) == 3
