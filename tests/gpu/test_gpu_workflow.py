"""The default experiment and the MLP of the Julia benchmark on CPU and GPU, through Snakemake to the report."""

import importlib.util
import json
import subprocess
import sys
from collections import Counter

import pytest
import yaml
from gpu_runs import installed
from harness import REPOSITORY, environment, snakemake, write_config

from trainmark.frameworks.registry import known_frameworks
from trainmark.parity.compare import REFUSED
from trainmark.records.record import read_record
from trainmark.records.tuning import read_tuning

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

NEEDED = ("snakemake", "sklearn", "pandas", "pyarrow", "matplotlib", "jinja2")


def test_both_experiments_on_both_devices(tmp_path, record_property):
    if missing := [package for package in NEEDED if importlib.util.find_spec(package) is None]:
        pytest.skip(f"the whole workflow needs {', '.join(missing)}")
    default = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())["experiments"]["digits"]
    both = {"frameworks": installed(), "devices": ["cpu", "gpu"]}
    flux = {"recipes": ["mnist-mlp-flux"], "epochs": [10], "repeats": 1, "input": {"subtract_mean": True}}
    having = [name for name in installed() if "tuned" in known_frameworks()[name].loops]
    tuned = {"recipes": ["mnist-mlp-keras"], "frameworks": having, "devices": ["gpu"], "loops": ["tuned"]}
    config = {"experiments": {"digits": default | both, "flux": flux | both}}
    config["experiments"]["tuned"] = tuned | {"epochs": [3], "repeats": 1}
    name = write_config(tmp_path, config)
    process = snakemake(tmp_path, "--cores", "all", "--resources", "gpu=1", "--configfile", name)
    assert process.returncode == 0, process.printed[-6000:]
    assert (tmp_path / "results/report/index.html").stat().st_size > 100_000
    records = [read_record(path) for path in (tmp_path / "results" / "runs").rglob("record.json")]
    of_device = len(installed()) * (len(default["epochs"]) * default["repeats"] + 1)
    kinds = {"cpu": of_device, "gpu": of_device + len(having)}
    assert Counter(record["provenance"]["device"]["kind"] for record in records) == kinds
    timed = [read_tuning(path) for path in (tmp_path / "results" / "tuning").rglob("*.json")]
    assert sorted(tuning["framework"] for tuning in timed if tuning["steps"]) == sorted(having)
    assert {record["status"] for record in records} == {"ok"}
    for file in (tmp_path / "results" / "certificates").rglob("*.json"):
        for pair in json.loads(file.read_text())["pairs"]:
            record_property(f"{file.parts[-3]}: {pair['first']} and {pair['second']}", pair["sentence"])
            assert pair["parity"] not in REFUSED, pair["sentence"]
    verify = [sys.executable, str(REPOSITORY / "workflow/scripts/verify.py"), str(tmp_path / "results")]
    verified = subprocess.run(verify, capture_output=True, text=True, env=environment(), check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    print((tmp_path / "results/tables/summary.txt").read_text())
