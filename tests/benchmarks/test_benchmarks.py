"""The benchmarks run and print each of their figures; how large they are is not tested."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from harness import AS_ROOT, snakemake, write_config

from trainmark.records.record import read_record

pytestmark = pytest.mark.benchmarks

HERE = Path(__file__).parent
SEARCH_PATH = os.pathsep.join(str(HERE.parents[1] / folder) for folder in ("workflow/scripts", "tests"))


def printed(script, *arguments, warning=""):
    """What a benchmark prints; it may end with status 1, where a busy machine's figures are not good enough."""
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": SEARCH_PATH}, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    assert warning in done.stderr if warning else done.stderr == ""
    return done.stdout


def test_the_verdicts_benchmark_prints_the_reports_verdicts():
    shown = printed("verdicts.py", "--repeats", "1", "--epochs", "2")
    assert re.findall(r"\| 0 % \|  \| (\d+) % \| [01] \|", shown) == ["0", "10"]
    disturbed = "withheld: 1 of 1 pairs disturbed"  # so short a run may be, by snakemake itself
    assert shown.count("too few pairs (1, needs 6)") + shown.count(disturbed) == 2
    assert shown.endswith("false verdicts: 0\n")


def test_the_benchmark_of_bounds_prints_misses_for_each_load():
    shown = printed("load.py", "--rounds", "1", "--programs", "1")
    for kind in ("computes", "copies memory", "in bursts", "wakes often"):
        assert len(re.findall(rf"^\| {kind} \| (?:2|5|10|20|40|60)% \| 1 \|", shown, re.MULTILINE)) == 12
    assert re.search(r"^of \d+ bounded runs, \d+ missed", shown, re.MULTILINE)


@pytest.mark.skipif(not find_spec("mpi4py"), reason="mpi4py is not installed (make workers)")
def test_the_benchmark_of_workers_prints_both_efficiencies(monkeypatch):
    for name, value in AS_ROOT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    shown = printed("workers.py", "--frameworks", "chainer", "--recipes", "mnist-mlp-chainer", "--rounds", "1")
    assert re.fullmatch(
        r"chainer, mnist-mlp-chainer: efficiency of 2 workers [\d.]+ \([\d.]+ and [\d.]+ s an epoch\), of the engine's "
        r"example [\d.]+ \([\d.]+ and [\d.]+ s\): ratio [\d.]+; time with 2 workers / the example's [\d.]+\n",
        shown,
    )


def test_the_benchmark_of_the_clipped_loss_prints_both_losses(tmp_path):
    experiment = {"recipes": ["mnist-mlp-keras"], "frameworks": ["keras-jax"], "devices": ["cpu"], "epochs": [1]}
    name = write_config(tmp_path, {"experiments": {"e": {**experiment, "repeats": 2, "keep_weights": True}}})
    assert snakemake(tmp_path, "--cores", "2", "--configfile", name).returncode == 0
    results = tmp_path / "results"
    shown = printed("clipped_loss.py", "--results", str(results), "--experiment", "e", "--dataset", "digits")
    of_runs = r"test loss (\S+) to (\S+); clipped (\S+) to (\S+)"
    losses = re.fullmatch(rf"keras-jax on cpu, 2 runs: {of_runs}; 0 to 0 images are clipped\n", shown)
    assert losses and losses.groups()[:2] == losses.groups()[2:], "after one epoch, no network is so sure"
    records = [read_record(file)["result"]["test_loss"] for file in results.rglob("record.json")]
    assert sorted(f"{loss:.4f}" for loss in records) == sorted(losses.groups()[:2])


def test_the_benchmark_of_many_records_prints_its_figures_and_the_page_is_small():
    """Of 10,000 records."""
    shown = printed("many_records.py")
    figures = dict(re.findall(r"^(.+): ([\d.]+) (?:s|MB)\b", shown, re.MULTILINE))
    assert {"planning", "collecting", "drawing", "the report", "the page"} <= figures.keys()
    assert float(figures["the page"]) < 10


def test_the_benchmark_of_large_matrices_prints_a_line_for_each():
    shown = printed("large_matrices.py", "--runs", "40", "--rounds", "1")
    figure = r"[\d.]+ (?:s|MiB) \([\d.]+ x\)"
    jobs = r"(no run is|all are) there: dry run of \d+ jobs"
    line = rf"{jobs}, (trainmark|bare Snakefile): {figure}, CPU {figure}, peak {figure}\n"
    assert re.fullmatch(f"({line}){{4}}", shown)


def test_the_benchmark_of_a_workflows_cost_prints_both_ratios(tmp_path):
    experiment = {"recipes": ["mnist-mlp-flux"], "frameworks": ["chainer"], "devices": ["cpu"], "epochs": [1, 2]}
    config = tmp_path / "small.yaml"
    config.write_text(json.dumps({"experiments": {"small": experiment | {"repeats": 1}}}))
    shown = printed("workflow_cost.py", "--configfile", str(config))
    assert re.search(
        r"^train.py chainer: 2 processes, [\d.]+ s, waited [\d.]+ s, [\d.]+ x .* 2 epochs; in no phase", shown, re.M
    )
    assert re.search(r"^the whole call: [\d.]+ s, [\d.]+ x the [\d.]+ s of its processes$", shown, re.MULTILINE)


def test_the_benchmark_of_streams_prints_its_figures_without_photographs():
    sizes = ("--rounds", "1", "--files", "8", "--samples", "40", "--batch-size", "8")
    shown = printed("loading.py", *sizes, warning="2 of 2 test images are also training images")
    assert shown.startswith("8 files of 500x375 (medians), 40 images an epoch")
    for way in ("files, serial", "files, thread", "files, process", "mapped, thread", "mapped, process"):
        (line,) = [line for line in shown.splitlines() if line.startswith(f"  {way}: ")]
        assert "times the bare decode" in line
        assert f"resident memory, {way}: " in shown
