"""Runs that are killed end as if nobody had killed them: 20 kills in known phases, in three frameworks."""

import csv
import itertools
import os
import sys
from pathlib import Path

import pytest
from harness import FRAMEWORKS, environment, snakemake, write_config
from killing_python import plan_of

from trainmark.records.record import read_record

EPOCHS = 60
CONFIG = {
    "experiments": {
        "killed": {
            "recipes": ["mnist-mlp-keras"],  # with dropout: its random state has to come back too
            "frameworks": FRAMEWORKS,
            "devices": ["cpu"],
            "epochs": [EPOCHS],
            "repeats": 1,
        }
    }
}
RECORDS = {
    framework: f"results/runs/killed/mnist-mlp-keras/digits/{framework}/cpu/epochs-{EPOCHS}/repeat-1/record.json"
    for framework in FRAMEWORKS
}
SIGNALS = ("SIGKILL", "SIGTERM")
PHASES = ("training", "evaluation", "checkpoint")
KILLS = 20

pytestmark = pytest.mark.timeout(1800)  # the first test waits for both workflows: minutes, and more on a busy machine


def kills_of(framework):
    """The kills of a run in their order: every signal in every phase, and for two frameworks one while they start."""
    kills = [f"{signal} {phase}" for phase, signal in itertools.product(PHASES, SIGNALS)]
    return kills + ["SIGTERM start"] * (framework != FRAMEWORKS[2])


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    """The workflow that nobody stopped."""
    folder = tmp_path_factory.mktemp("twin")
    process = snakemake(folder, "--cores", "2", "--configfile", write_config(folder, CONFIG))
    assert process.returncode == 0, process.printed[-5000:]
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """(folder of the workflow whose runs were killed, what each call of snakemake printed)."""
    folder = tmp_path_factory.mktemp("killed")
    kills = folder / "kills"
    stand_in = folder / "bin"
    for made in (kills, stand_in):
        made.mkdir()
    python = stand_in / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("killing_python.py")}" "$@"\n')
    python.chmod(0o755)
    os.environ["KILLS"] = str(kills)
    for framework, record in RECORDS.items():
        plan_of(record).write_text("\n".join(kills_of(framework)))
    name = write_config(folder, CONFIG)
    path = f"{stand_in}{os.pathsep}{environment()['PATH']}"
    calls = []
    for _ in range(KILLS):
        process = snakemake(folder, "--cores", "2", "--configfile", name, PATH=path, TRAINMARK_CHECKPOINT_SECONDS="0")
        calls.append(process.printed)
        if process.returncode == 0:
            break
    return folder, calls


def curves(folder, framework):
    """What a run computed, to the last bit, without its times."""
    record = read_record(folder / RECORDS[framework])
    times = ("seconds", "part")
    entries = [{key: value for key, value in entry.items() if key not in times} for entry in record["curves"]]
    return entries, record["step_losses"], record["status"]


def test_every_kill_happened_where_it_was_meant_to(killed):
    folder, calls = killed
    done = (folder / "kills" / "done").read_text().splitlines()
    planned = [f"{kill} {RECORDS[framework]}" for framework in FRAMEWORKS for kill in kills_of(framework)]
    assert len(done) == KILLS
    assert sorted(done) == sorted(planned)
    assert len(calls) == max(len(kills_of(framework)) for framework in FRAMEWORKS) + 1


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_killed_run_ends_as_its_twin_bit_for_bit(killed, twin, framework):
    assert curves(killed[0], framework) == curves(twin, framework)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_record_tells_of_the_resumes_and_counts_productive_time_alone(killed, framework):
    record = read_record(killed[0] / RECORDS[framework])
    assert 1 <= record["resumes"] <= len(kills_of(framework))
    assert len(record["sessions"]) == record["resumes"] + 1
    assert all(session["restart_seconds"] > 0 for session in record["sessions"][1:])
    assert sum(record["phases_seconds"].values()) == pytest.approx(record["wall_seconds"], rel=1e-9)
    assert [entry["epoch"] for entry in record["curves"]] == list(range(1, EPOCHS + 1))
    trained_seconds = sum(record["phases_seconds"][phase] for phase in ("compilation", "warm_up", "steady"))
    assert trained_seconds == pytest.approx(record["result"]["training_seconds"])


def test_no_run_is_lost_and_no_table_wrong(killed, twin):
    tables = []
    for folder in (killed[0], twin):
        with open(folder / "results" / "tables" / "summary.csv") as stream:
            rows = list(csv.DictReader(stream))
        shown = ("framework", "runs", "diverged", "out_of_memory", "run_numbers")
        tables.append([[row[key] for key in row if key in shown or "loss" in key or "accuracy" in key] for row in rows])
    assert tables[0] == tables[1]
    assert len(tables[0]) == len(FRAMEWORKS)


def test_nothing_is_left_behind(killed):
    folder = killed[0]
    assert not list(folder.rglob("*.checkpoint"))
    assert not list(folder.rglob("*.part"))


def test_a_person_reads_what_happened(killed):
    _, calls = killed
    assert "stopped by SIGTERM; the next snakemake goes on after the last checkpoint" in calls[1]
    assert f"of {EPOCHS}" in "".join(calls[1:])
    assert "Traceback" not in "".join(calls)
