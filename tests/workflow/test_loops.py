"""A framework in its stock and in its tuned loop: two trainers, from the config to the report."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from harness import copy_of_repository, experiment_of, finish, keyed, planned, record_file, snakemake, write_config
from report_figures import check_figures

from trainmark.parity.certificate import read_certificate
from trainmark.records.evaluation import read_evaluation
from trainmark.records.record import read_record
from trainmark.records.tuning import read_tuning, write_tuning
from trainmark.tables.numbers import read_numbers
from trainmark.trainer import Trainer

pytestmark = pytest.mark.faults  # whole workflows: a minute that make test has not

CONFIG = {
    "experiments": {
        "loops": experiment_of(
            frameworks=["twin"], loops=["stock", "tuned"], epochs=[1, 2], baseline="twin tuned on cpu", time_tuning=True
        )
    }
}
GROUP = "loops/mnist-mlp-flux/digits"
TUNING = f"tuning/{GROUP}/twin-cpu-tuned/*.json"
LOOPS = ("stock", "tuned")
ADAPTERS = "workflow/scripts/trainmark/frameworks"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(A copy of the repository with a finished experiment in it, what snakemake printed)."""
    folder = copy_of_repository(tmp_path_factory.mktemp("loops"))
    for name in ("twin_adapter.py", "twin_tuned.py"):
        shutil.copy(Path(__file__).parent / "example" / name, folder / ADAPTERS)
    (folder / "envs" / "twin.yaml").write_text("dependencies: [numpy]\n")
    process = snakemake(folder, "--cores", "2", "--configfile", write_config(folder, CONFIG))
    assert process.returncode == 0, process.printed[-5000:]
    return folder, process.printed


def test_each_loop_trains_its_own_runs(finished):
    folder, printed = finished
    for loop in LOOPS:
        for epochs in (1, 2):
            run = f"{GROUP}/{Trainer('twin', 'cpu', loop)}/epochs-{epochs}/repeat-1"
            assert read_record(record_file(folder, run))["run"]["loop"] == loop
            log = keyed(folder, f"logs/train/{run}/*.log").read_text()
            assert ("the tuned loop trains" in log) == (loop == "tuned")
    assert re.search(r"^run \d of 4: twin on cpu, 2 epochs, repeat 1 \(", printed, re.MULTILINE)
    assert re.search(r"^run \d of 4: twin tuned on cpu, 1 epoch, repeat 1 \(", printed, re.MULTILINE)


def test_the_loops_are_certified_and_evaluated_against_each_other(finished):
    folder, _ = finished
    certificate = read_certificate(keyed(folder, f"certificates/{GROUP}/*.json"))
    assert [one["trainer"] for one in certificate["trainers"]] == ["twin-cpu", "twin-cpu-tuned"]
    (pair,) = certificate["pairs"]
    assert (pair["first"], pair["second"], pair["parity"]) == ("twin on cpu", "twin tuned on cpu", "bitwise")
    for evaluator, evaluated in (("twin-cpu", "twin-cpu-tuned"), ("twin-cpu-tuned", "twin-cpu")):
        evaluation = read_evaluation(keyed(folder, f"evaluations/{GROUP}/{evaluator}/*.json"))
        assert {run_id.split("/")[3] for run_id in evaluation["runs"]} == {evaluated}


def test_tables_and_report_name_both(finished):
    folder, printed = finished
    tables = folder / "results" / "tables"
    numbers = read_numbers(tables / "numbers.csv")
    between = numbers[numbers["statistic"].isin(["ratio", "speed_up"])]
    assert set(between["statistic"]) == {"ratio", "speed_up"}
    assert set(between["compared_with"]) == {"twin tuned on cpu"} and set(between["loop"]) == {"stock"}
    assert re.search(r"^framework +device +loop +epochs", printed, re.MULTILINE)
    page = (folder / "results/report/index.html").read_text()
    found = sorted((folder / "results/runs").rglob("record.json"))
    numbers = pd.read_parquet(tables / "runs.parquet").set_index("id")["number"]
    records = {str(numbers[record["run"]["id"]]): record for record in map(read_record, found)}
    check_figures(page, records, {GROUP: read_certificate(keyed(folder, f"certificates/{GROUP}/*.json"))})
    figure = (folder / f"results/figures/{GROUP}/training_time.svg").read_text()
    assert ">twin on cpu</text>" in figure and ">twin tuned on cpu</text>" in figure


def test_the_steps_of_the_tuning_are_timed_and_drawn(finished):
    folder, _ = finished
    results, tuning = folder / "results", read_tuning(keyed(folder, TUNING))
    assert [step["step"] for step in tuning["steps"]][:1] == ["print"]
    assert {step["step"] for step in tuning["steps"][1:]} <= {"threads"}
    numbers = read_numbers(results / "tables" / "numbers.csv")
    ratios = numbers[numbers["statistic"] == "step_ratio"]
    assert ratios["metric"].tolist() == [f"tuning.{step['step']}" for step in tuning["steps"]]
    assert (ratios["runs"] == 6).all()
    assert "a line is printed" in (results / f"figures/{GROUP}/tuning.svg").read_text()
    assert "the tuned loop trains" in keyed(folder, f"logs/time_tuning/{GROUP}/twin-cpu-tuned/*.log").read_text()


def test_a_run_takes_the_chosen_number_of_threads(finished):
    folder, _ = finished
    file = keyed(folder, TUNING)
    measured = {key: value for key, value in read_tuning(file).items() if key != "sha256"}
    threads = 3 - measured["threads"]  # of two CPUs, the number that was not chosen
    write_tuning(measured | {"threads": threads}, file)
    run = f"{GROUP}/twin-cpu-tuned/epochs-1/repeat-1"
    record_file(folder, run).unlink()
    printed = finish(folder, "--cores", "2", "--configfile", "experiment.yaml")
    assert "1 of 4 runs to train" in printed
    trained = read_record(record_file(folder, run))
    assert trained["provenance"]["threads"] == len(trained["provenance"]["cpus"]) == threads
    assert len(trained["sessions"][0]["cpus"]) == 2
    file.unlink()
    assert planned(folder) == {"time_tuning": 1, "collect_records": 1, "plot_figures": 1, "report": 1}
