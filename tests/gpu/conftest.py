"""Tests that need a GPU: make test-gpu. They run what can be imported, and need no network.

What the tests of a part measure is written to gpu-results-<part>.json and, as a table, gpu-results-<part>.md in the
working directory.
"""

import json
import os
import platform
import re
from collections import Counter
from pathlib import Path

import pytest
from gpu_bundle import installed as version_of
from gpu_parts import PARTS, STAND_IN
from gpu_runs import Runs, cpus_of_worker, installed, missing_packages

from trainmark.frameworks.registry import known_frameworks
from trainmark.machine import nvml
from trainmark.machine.gpus import visible_gpus, where_looked

PACKAGES = (
    "chainer", "keras", "tensorflow", "jax", "flax", "optax", "torch", "cupy-cuda12x", "cupy-cuda13x", "numpy",
    "snakemake",
)  # fmt: skip


def pytest_addoption(parser):
    """The option by which gpu_parts.py says which part it runs."""
    parser.addoption("--part", choices=PARTS, help="write the results of a part of the GPU tests")


@pytest.fixture(autouse=True, scope="session")
def gpu(request):
    """The UUID of the first GPU. Without one every test is skipped."""
    if request.config.getoption("--device") != "gpu":
        pytest.skip("these tests run on a GPU if --device gpu is given, as by make test-gpu")
    if not (gpus := visible_gpus()):
        pytest.skip(f"there is no GPU to test ({where_looked()})")
    return gpus[0]


@pytest.fixture(params=installed())
def framework(request):
    """Each framework that is installed."""
    return request.param


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Runs in a folder of their own."""
    return Runs(tmp_path_factory.mktemp("runs"))


class Results:
    """Collects the outcome of each test and what it recorded by `record_property`, and writes both at the end."""

    def __init__(self, part):
        self.tests = []
        self.json, self.markdown = (Path(f"gpu-results-{part}.{kind}") for kind in ("json", "md"))

    def pytest_runtest_logreport(self, report):
        """Called for each phase of a test, also for tests of other workers."""
        if "tests/gpu/" in report.nodeid and (report.when == "call" or report.outcome != "passed"):
            reason = report.longrepr[2].removeprefix("Skipped: ") if report.skipped else str(report.longrepr or "")
            self.tests.append(
                {
                    "test": report.nodeid.partition("::")[2],
                    "outcome": report.outcome,
                    "seconds": round(report.duration, 1),
                    "reason": reason[-4000:],
                    "figures": dict(report.user_properties),
                }
            )

    def pytest_sessionfinish(self):
        """Add them to those of the part's earlier calls of pytest; write nothing if every test was skipped."""
        if all(test["outcome"] == "skipped" for test in self.tests):
            return
        earlier = json.loads(self.json.read_text())["tests"] if self.json.exists() else []
        results = {"machine": machine(), "tests": earlier + sorted(self.tests, key=lambda test: test["test"])}
        self.json.write_text(json.dumps(results, indent=1) + "\n")
        self.markdown.write_text(as_markdown(results))

    def pytest_terminal_summary(self, terminalreporter):
        """Print each reason for skipped tests once."""
        reasons = Counter(test["reason"] for test in self.tests if test["outcome"] == "skipped")
        for reason, count in reasons.items():
            terminalreporter.write_line(f"{count} skipped: {reason}")
        for name in known_frameworks():
            if missing := missing_packages(name):
                terminalreporter.write_line(f"{name} is not tested: {', '.join(missing)} is not installed")


def machine():
    """The hardware and the versions."""
    return {
        "gpus": [nvml.describe(uuid) for uuid in visible_gpus()],
        "state": nvml.state(visible_gpus()[0]),
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": {package: version for package in PACKAGES if (version := version_of(package))},
    }


def as_markdown(results):
    """The results as a table, for docs/measurements.md."""
    host = results["machine"]
    gpus = ", ".join(
        gpu.get("reason") or f"{gpu['name']} (driver {gpu['driver_version']}, {gpu['memory_mib']} MiB)"
        for gpu in host["gpus"]
    )
    versions = ", ".join(f"{package} {number}" for package, number in host["versions"].items())
    lines = [f"{gpus}; Python {host['python']}, {versions}.", "", "| test | outcome | figures |", "|---|---|---|"]
    for test in results["tests"]:
        figures = "; ".join(f"{name} {value}" for name, value in test["figures"].items())
        reason = re.findall(r".*Error: .*", test["reason"])[-1:] or test["reason"].splitlines()[-1:]
        cell = "; ".join(filter(None, [figures, *(line.removeprefix("E").strip() for line in reason)]))
        title = re.sub(r"\[(.*)\]", r" (\1)", test["test"].removeprefix("test_").replace("_", " "))
        lines.append(f"| {title} | {test['outcome']} in {test['seconds']} s | {cell} |")
    return "\n".join(lines) + "\n"


def pytest_collection_modifyitems(config, items):
    """Let tests take ten times as long on stand-ins for a GPU. The list of gpu_parts.py has the limits on a GPU."""
    if STAND_IN in os.environ and not config.option.collectonly:
        for item in items:
            if limit := item.get_closest_marker("gpu") and item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(10 * limit.args[0]), append=False)


def pytest_configure(config):
    """Give a worker its CPUs; collect results in the process that gathers the reports of all workers."""
    if config.getoption("--device") == "cpu":
        return
    if worker := getattr(config, "workerinput", None):
        os.sched_setaffinity(0, cpus_of_worker(int(worker["workerid"].removeprefix("gw")), worker["workercount"]))
    elif part := config.getoption("--part", None):
        config.pluginmanager.register(Results(part))
