"""Results of the GPU tests, which are in their folder as soon as they are there: an interrupted call loses none.

The folder is named by the environment variable RESULTS and gets three files: gpu.jsonl, to which each result is
appended; gpu.md, a table of them for docs/measurements.md; and results.tgz with records, reports and logs.

As a plug-in of pytest (-p gpu_results) it adds the outcome of each test and what it recorded by `record_property`.
"""

import fcntl
import json
import os
import re
import tarfile
import time
from collections import Counter
from pathlib import Path

RESULTS = "TRAINMARK_GPU_RESULTS"
"""Environment variable that names the folder. Without it nothing is written."""

STAGE = "TRAINMARK_GPU_STAGE"
"""Environment variable that names the stage to which results belong."""

LINES, TABLE, ARCHIVE = "gpu.jsonl", "gpu.md", "results.tgz"

LARGEST_FILE, LARGEST_ARCHIVE = 2_000_000, 15_000_000
"""Most bytes of a file in the archive, and of all of them before they are compressed: 16 MiB are brought back."""

PACKED = re.compile(
    r"/results/(runs|tables|figures|report|certificates|tuning|logs|benchmarks)/|/runs/.*(\.json|/log)$"
)
"""The files of results and of single runs that go into the archive."""

ARRAYS = (".npy", ".npz")
"""Endings of the names of files that stay where they are: weights, checkpoints, traces and datasets."""


def add(entry):
    """Append a result, and write the table anew. Does nothing without RESULTS."""
    if not (name := os.environ.get(RESULTS)):
        return
    folder = Path(name)
    with (folder / LINES).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests run side by side
        file.write(json.dumps({"stage": os.environ.get(STAGE, ""), **entry}) + "\n")
        file.flush()
        table = folder / f".{TABLE}"
        table.write_text(as_markdown(read(folder)))
        table.replace(folder / TABLE)


def read(folder):
    """The results in a folder, in their order."""
    file = Path(folder, LINES)
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def pack(work, folder):
    """Write what tests have left below a folder as the archive of the results, the smallest files first."""
    files = [file for file in Path(work).rglob("*") if PACKED.search(file.as_posix()) and file.suffix not in ARRAYS]
    sizes = sorted((file.stat().st_size, file) for file in files if file.is_file() and not file.is_symlink())
    left, archive = LARGEST_ARCHIVE, Path(folder, f".{ARCHIVE}")
    with tarfile.open(archive, "w:gz", compresslevel=3) as tar:
        for size, file in sizes:
            if size <= min(left, LARGEST_FILE):
                tar.add(file, file.relative_to(work))
                left -= size
    archive.replace(Path(folder, ARCHIVE))


# --- the table ---------------------------------------------------------------------------------------------------


def as_markdown(entries):
    """The results as tables: one for each stage."""
    lines = [describe(entry["machine"]) for entry in entries if "machine" in entry][:1]
    for stage in dict.fromkeys(entry["stage"] for entry in entries if entry["stage"]):
        of_stage = [entry for entry in entries if entry["stage"] == stage]
        ended = next((f", {one['seconds']} s, ended by {one['ended']}" for one in of_stage if "ended" in one), "")
        lines += ["", f"**{stage}**{ended}"]
        tests = [entry for entry in of_stage if "test" in entry]
        lines += ["", "| test | outcome | figures |", "|---|---|---|"] if tests else []
        lines += [
            f"| {group} | {', '.join(f'{count} {outcome}' for outcome, count in counts.items())} | |"
            for group, counts in grouped(tests).items()
        ]
        lines += [row(test) for test in tests if not test["group"] or test["outcome"] == "failed"]
    return "\n".join(lines) + "\n"


def describe(machine):
    """A line with the hardware and the versions."""
    gpus = ", ".join(
        gpu.get("reason") or f"{gpu['name']} (driver {gpu['driver_version']}, {gpu['memory_mib']} MiB)"
        for gpu in machine["gpus"]
    )
    versions = ", ".join(f"{package} {number}" for package, number in machine["versions"].items())
    missing = "".join(f"; {name} is not tested: {packages}" for name, packages in machine["missing"].items())
    return f"{gpus or 'no GPU'}; {machine['cpus']} CPUs, Python {machine['python']}, {versions}{missing}."


def grouped(tests):
    """Counts of outcomes by the group of tests that are many and alike."""
    groups = dict.fromkeys(test["group"] for test in tests if test["group"])
    return {group: Counter(test["outcome"] for test in tests if test["group"] == group) for group in groups}


def row(test):
    """A row of the table."""
    figures = [f"{name} {value}" for name, value in test["figures"].items()]
    reason = re.findall(r".*Error: .*", test["reason"])[-1:] or test["reason"].splitlines()[-1:]
    cell = "; ".join([*figures, *(line.removeprefix("E").strip()[:300] for line in reason)]).replace("|", "/")
    title = re.sub(r"\[(.*)\]", r" (\1)", test["test"].removeprefix("test_")).replace("_", " ")
    group = f"{test['group']}: " if test["group"] else ""
    return f"| {group}{title} | {test['outcome']} in {test['seconds']} s | {cell} |"


# --- the plug-in of pytest ---------------------------------------------------------------------------------------

GROUP = {}
"""The group of the tests of this process, by file."""


def pytest_configure(config):
    """Name the contract suite by its framework and loop: it has sixty tests for each."""
    framework, loop = (config.getoption(name, None) for name in ("--framework", "--loop"))
    GROUP["contract_suite.py"] = f"contract of {framework}, {loop} loop"


def pytest_runtest_logreport(report):
    """Called for each phase of a test."""
    if report.when != "call" and report.outcome == "passed":
        return
    file, _, test = report.nodeid.partition("::")
    reason = report.longrepr[2].removeprefix("Skipped: ") if report.skipped else str(report.longrepr or "")
    add(
        {
            "test": test,
            "group": GROUP.get(Path(file).name, ""),
            "outcome": report.outcome,
            "seconds": round(report.duration, 1),
            "reason": reason[-4000:],
            "figures": dict(report.user_properties),
            "at": round(time.time(), 1),
        }
    )
