"""A framework that fails after the start costs the others neither tables nor report, and both say what is missing."""

import json

import pytest
from harness import experiment_of, finish, run_script, snakemake, write_config

pytestmark = pytest.mark.faults

EXPERIMENT = experiment_of(frameworks=["keras-jax", "chainer"])
REASON = "it ended with no exception (exit status 1); its log ends with: "


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """A folder in which JAX could not start, for a flag that it does not know; and what was printed."""
    folder = tmp_path_factory.mktemp("failed")
    name = write_config(folder, {"experiments": {"one": EXPERIMENT}})
    return folder, snakemake(folder, "--cores", "2", "--configfile", name, XLA_FLAGS="--no-such-flag")


def test_tables_and_report_hold_the_runs_that_are_done(failed):
    folder, process = failed
    assert process.returncode == 1
    assert process.printed.count("failed: training keras-jax on cpu") == 1
    assert REASON in process.printed
    assert "--threads" not in process.printed, "no command"
    assert "1 of 2 runs are done; making the tables and the report of these" in process.printed
    summary = (folder / "results" / "tables" / "summary.txt").read_text()
    assert summary.startswith("Missing: 1 of 2 runs.")
    assert "\nchainer" in summary
    page = (folder / "results" / "report" / "index.html").read_text()
    assert "Missing: 1 of 2 runs." in page
    assert "one/mnist-mlp-flux/digits/keras-jax-cpu/epochs-1/repeat-1: checking keras-jax on cpu" in page
    (missing,) = json.loads((folder / "results" / "plan.json").read_text())["missing"]
    assert missing == "one/mnist-mlp-flux/digits/keras-jax-cpu/epochs-1/repeat-1"


def test_verify_names_the_run_and_finds_nothing_else(failed):
    folder, _ = failed
    process = run_script("verify", folder / "results")
    assert process.returncode == 1
    problems = [line for line in process.stdout.splitlines() if "Missing" in line or "keras-jax" in line]
    assert len(problems) == 2, process.stdout


def test_the_next_call_trains_what_is_missing(failed):
    folder, _ = failed
    printed = finish(folder, "--cores", "2", "--configfile", "experiment.yaml")
    assert "1 of 2 runs to train" in printed
    assert "Missing" not in (folder / "results" / "report" / "index.html").read_text()
    again = snakemake(folder, "--cores", "2", "--configfile", "experiment.yaml")
    assert "Nothing to be done" in again.printed
