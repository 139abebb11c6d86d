"""The tables of runs and curves: one row per run, and one per evaluation of a run."""

import math

import pandas as pd
import pytest
from records_for_tests import (
    ON_ONE_CPU,
    changed,
    diverged,
    evaluated,
    out_of_memory,
    record,
    streamed,
    with_peak,
    written_tables,
)

from trainmark.records.record import PHASES
from trainmark.tables.curves import curves_table
from trainmark.tables.frames import rows_of
from trainmark.tables.metrics import METRICS, PHASE_METRICS
from trainmark.tables.runs import PEAKS, runs_table

# --- one row per run ----------------------------------------------------------------------------------------------


def test_runs_keep_their_order_and_are_numbered_by_the_order_of_training(tmp_path):
    by_path, _ = written_tables(tmp_path, record("b"), record("a"), record("c"))
    ids = [one["run"]["id"] for one in by_path.values()]
    runs = runs_table(by_path, [ids[2], ids[0], ids[1]])
    assert list(runs["framework"]) == ["b", "a", "c"]
    assert list(runs["number"]) == [2, 3, 1]
    assert [str(tmp_path / record) for record in runs["record"]] == list(by_path)
    assert runs["record_sha256"].str.fullmatch("[0-9a-f]{64}").all()


def test_a_run_has_every_metric_and_phase(runs_of):
    runs = runs_of(record(device="gpu", epochs=3, seconds=0.5))
    (run,) = rows_of(runs)
    assert {*METRICS, *PHASE_METRICS} <= run.keys()
    assert run["train_loss"] is run["diverged_step"] is run["scheduler"] is None
    assert run["training_seconds"] == 0.5 + 3 * 0.5
    assert run["samples_per_second"] == 1438 / 0.5
    assert run["peak_device_mib"] == 64.25
    assert sum(run[f"phases.{phase}"] for phase in PHASES) == run["wall_seconds"]
    assert run["working_seconds"] == run["wall_seconds"] - run["phases.device_wait"] - run["phases.peak"]


def test_a_censored_run_says_how_it_ended(runs_of):
    first, second = rows_of(runs_of(diverged("a", kind="inf"), out_of_memory("b")))
    assert (first["status"], first["diverged_kind"], first["diverged_step"]) == ("diverged", "inf", 1)
    assert first["out_of_memory_phase"] is None and first["test_loss"] == math.inf
    ended = [second[key] for key in ("status", "out_of_memory_phase", "out_of_memory_epoch", "training_seconds")]
    assert ended == ["out_of_memory", "warm_up", 1, None] and "601 MiB" in second["out_of_memory_message"]


def test_a_run_says_where_and_with_what_it_was_trained(runs_of):
    job = {"provenance.scheduler": {"name": "slurm", "job_id": "7"}}
    job |= {"sessions.0.cpus": [0, 1, 2, 5], "provenance.threads": 4}
    gpu = {"provenance.gpu": {"uuid": "GPU-1", "reason": "NVML is not there"}}
    no_name = {"provenance.environment.name": None}
    (run,) = runs_of(record("a", device="gpu", changes=job | gpu | no_name)).to_dict("records")
    assert (run["scheduler"], run["job_id"], run["cpus"]) == ("slurm", "7", "0-2, 5")
    assert (run["gpu"], run["environment"], run["versions"]) == ("NVML is not there", "venv", "a 1.0")
    (run,) = runs_of(record("a", device="gpu")).to_dict("records")
    assert run["gpu"] == "G, driver 1, 1024 MiB"


def test_tables_survive_their_file(tmp_path):
    """Also if no run has a number, and if no row of a text column has a text."""
    by_path, runs = written_tables(tmp_path, out_of_memory("a"), out_of_memory("b"))
    runs.to_parquet(tmp_path / "runs.parquet")
    curves_table(by_path).to_parquet(tmp_path / "curves.parquet")
    again = pd.read_parquet(tmp_path / "runs.parquet")
    assert rows_of(again) == rows_of(runs)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "curves.parquet"), curves_table(by_path))
    assert curves_table(by_path).dtypes[["test_loss", "epoch"]].tolist() == ["float64", "int64"]


# --- one row per run and epoch ------------------------------------------------------------------------------------


def test_curves_have_a_row_per_epoch_and_none_for_a_run_without_epochs(tmp_path):
    train = evaluated(0.25, 1.0)
    results = {"result.train_loss": 0.25, "result.train_accuracy": 1.0}
    trained = changed(record("a", epochs=3), {"curves.2.evaluations.train": train, **results})
    by_path, _ = written_tables(tmp_path, trained, out_of_memory("b"), diverged("c"))
    curves = curves_table(by_path)
    of_a, of_c = (curves[curves["id"].str.contains(f"/{name}-cpu/")] for name in "ac")
    assert len(curves) == 3 + 1
    assert list(of_a["epoch"]) == [1, 2, 3]
    assert list(of_a["part"]) == ["warm_up", "steady", "steady"]
    assert list(of_a["train_loss"].dropna()) == [0.25]
    assert of_c["test_loss"].isna().all()


def test_evaluations_within_epochs_stand_between_the_epochs(tmp_path):
    """1438 samples are 12 steps of 128. Times hold the first step, 0.5 s, as in the table of runs."""
    by_path, runs = written_tables(tmp_path, streamed(record("a"), waiting=0.5, evaluation_steps=9), record("b"))
    curves = curves_table(by_path)
    of_a = curves[curves["id"].str.contains("/a-cpu/")]
    assert list(of_a["part"]) == ["within", "warm_up", "within", "steady"]
    assert list(of_a["epoch"]) == [1, 1, 2, 2]
    assert list(of_a["epochs_trained"]) == [0.75, 1, 1.75, 2]
    assert list(of_a["training_seconds"]) == [0.6875, 0.75, 0.9375, 1.0]
    assert list(of_a["test_accuracy"]) == [0.5, 0.75, 0.5, 0.75]
    assert list(of_a["test_top5_accuracy"]) == [0.9] * 4
    assert list(of_a["waiting_seconds"].dropna()) == [0.125] * 2
    of_b = curves[curves["id"].str.contains("/b-cpu/")]
    assert list(of_b["training_seconds"]) == [0.75, 1.0]
    assert of_b[["waiting_seconds", "test_top5_accuracy"]].isna().all(axis=None)
    assert list(runs["training_seconds"]) == [1.0, 1.0]


# --- peaks --------------------------------------------------------------------------------------------------------


def test_the_share_of_the_machine_is_that_of_its_largest_peak(runs_of):
    """Per machine, device and number of threads; a run without a peak has no share."""
    on_gpu = with_peak(record("slow", device="gpu"), 1e13)
    one_cpu = changed(with_peak(record("alone"), 4e11), ON_ONE_CPU | {"peak.threads": 1})
    runs = runs_of(with_peak(record("fast"), 2e11), with_peak(record("slow"), 1e11), on_gpu, one_cpu, record("none"))
    training = 1438 * 10**6 / 0.25
    assert list(runs["training_gflop_per_second"][:4]) == [training / 1e9] * 4
    assert list(runs["peak_share"][:4]) == [training / peak for peak in (2e11, 1e11, 1e13, 4e11)]
    assert list(runs["machine_peak_share"][:4]) == pytest.approx([training / p for p in (2e11, 2e11, 1e13, 4e11)])
    assert runs.iloc[4][[*PEAKS, "peak_share", "machine_peak_share"]].isna().all()
