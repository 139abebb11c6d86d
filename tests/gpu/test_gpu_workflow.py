"""The default experiment on CPU and GPU through Snakemake, from its config to `verify.py`."""

import importlib.util
import json
import os
from collections import Counter

import pytest
import yaml
from gpu_runs import installed
from harness import REPOSITORY, finish, run_script, write_config

from trainmark.parity.compare import REFUSED
from trainmark.records.record import read_record

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(450)]

NEEDED = ("snakemake", "sklearn", "pandas", "pyarrow", "matplotlib", "jinja2")


def test_the_default_experiment_on_both_devices(tmp_path, record_property):
    if missing := [package for package in NEEDED if importlib.util.find_spec(package) is None]:
        pytest.skip(f"the whole workflow needs {', '.join(missing)}")
    # Two frameworks, those of the libraries themselves before those of Keras: more would take too long.
    frameworks = sorted(installed(), key=lambda name: (name.startswith("keras-"), name == "chainer"))[:2]
    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    config["experiments"]["digits"] |= {
        "devices": ["cpu", "gpu"],
        "frameworks": frameworks,
        "epochs": [5],
        "repeats": 2,
    }
    name = write_config(tmp_path, config)
    cores = 6 if len(os.sched_getaffinity(0)) >= 6 else 4  # with 6, a run on the GPU has four CPUs
    finish(tmp_path, "--cores", f"{cores}", "--resources", "gpu=1", "--configfile", name)
    record_property("frameworks", ", ".join(frameworks))
    assert (tmp_path / "results/report/index.html").stat().st_size > 100_000
    records = [read_record(path) for path in (tmp_path / "results" / "runs").rglob("record.json")]
    runs = dict.fromkeys(("cpu", "gpu"), 2 * len(frameworks))
    assert Counter(record["provenance"]["device"]["kind"] for record in records) == runs
    assert {record["status"] for record in records} == {"ok"}
    for file in (tmp_path / "results" / "certificates").rglob("*.json"):
        for pair in json.loads(file.read_text())["pairs"]:
            record_property(f"{file.parts[-4]}: {pair['first']} and {pair['second']}", pair["sentence"])
            assert pair["parity"] not in REFUSED, pair["sentence"]
    verified = run_script("verify", tmp_path / "results")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    print((tmp_path / "results/tables/summary.txt").read_text())
