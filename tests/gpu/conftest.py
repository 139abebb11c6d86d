"""Tests that need a GPU: make test-gpu. They run what can be imported, and need no network.

What they measure is written to gpu-results.json and, as a table, gpu-results.md in the working directory.
"""

import json
import platform
import re
from collections import Counter
from pathlib import Path

import pytest
from gpu_bundle import installed
from gpu_runs import missing_packages

from trainmark.frameworks.registry import known_frameworks
from trainmark.machine import nvml
from trainmark.machine.gpus import visible_gpus, where_looked

PACKAGES = ("chainer", "keras", "tensorflow", "jax", "torch", "cupy-cuda12x", "cupy-cuda13x", "numpy", "snakemake")

JSON, MARKDOWN = Path("gpu-results.json"), Path("gpu-results.md")


@pytest.fixture(autouse=True, scope="session")
def gpu(request):
    """The UUID of the first GPU. Without one every test is skipped."""
    if request.config.getoption("--device") != "gpu":
        pytest.skip("these tests run on a GPU if --device gpu is given, as by make test-gpu")
    if not (gpus := visible_gpus()):
        pytest.skip(f"there is no GPU to test ({where_looked()})")
    return gpus[0]


@pytest.fixture(params=known_frameworks())
def framework(request):
    """Each framework that is installed."""
    if missing := missing_packages(request.param):
        pytest.skip(f"{request.param}: {', '.join(missing)} is not installed")
    return request.param


class Results:
    """Collects the outcome of each test and what it recorded by `record_property`, and writes both at the end."""

    def __init__(self):
        self.tests = []

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
        """Write the files, unless every test was skipped. Those of an earlier session go."""
        for file in (JSON, MARKDOWN):
            file.unlink(missing_ok=True)
        if all(test["outcome"] == "skipped" for test in self.tests):
            return
        self.tests.sort(key=lambda test: test["test"])
        results = {"machine": machine(), "tests": self.tests}
        JSON.write_text(json.dumps(results, indent=1) + "\n")
        MARKDOWN.write_text(as_markdown(results))

    def pytest_terminal_summary(self, terminalreporter):
        """Print each reason for skipped tests once."""
        reasons = Counter(test["reason"] for test in self.tests if test["outcome"] == "skipped")
        for reason, count in reasons.items():
            terminalreporter.write_line(f"{count} skipped: {reason}")


def machine():
    """The hardware and the versions."""
    return {
        "gpus": [nvml.describe(uuid) for uuid in visible_gpus()],
        "state": nvml.state(visible_gpus()[0]),
        "python": platform.python_version(),
        "system": platform.platform(),
        "versions": {package: version for package in PACKAGES if (version := installed(package))},
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


def pytest_configure(config):
    """Collect results in the process that gathers the reports of all workers."""
    if not hasattr(config, "workerinput") and config.getoption("--device") == "gpu":
        config.pluginmanager.register(Results())
