"""The Makefile says what its targets do and cost, and `make report` shows the report with and without a display."""

import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from harness import REPOSITORY, environment

NO_DISPLAY = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
OPEN_REPORT = [sys.executable, str(REPOSITORY / "workflow" / "scripts" / "open_report.py")]


def make(*arguments, cwd=REPOSITORY, **extra):
    command = ["make", "--no-print-directory", "PYTHON=python3", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment(**extra), capture_output=True, text=True, check=False)


@pytest.fixture
def report(tmp_path):
    """A folder with a report."""
    (tmp_path / "results" / "report").mkdir(parents=True)
    (tmp_path / "results" / "report" / "index.html").write_text("the report")
    (tmp_path / "results" / "record.json").write_text("a record")
    return tmp_path


def test_help_lists_every_target_and_first_what_users_need():
    listed = re.findall(r"^  make(?: ([a-z-]+))?  +\S", make("help").stdout, re.MULTILINE)
    assert listed[:3] == ["", "report", "test"]
    text = (REPOSITORY / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)", text, re.MULTILINE)
    assert sorted(name or "all" for name in listed) == sorted(phony.replace("\\", "").split())
    assert {"all", *listed} - {""} == set(re.findall(r"^([a-z][a-z-]*):(?!=)", text, re.MULTILINE))


def test_make_hands_the_users_choice_of_builds_on():
    """Only what make would print: -B, as if nothing were installed; -o, as if all were."""
    for choice, option in (([], ""), (["GPU="], '--gpu ""'), (["GPU=cuda12"], '--gpu "cuda12"')):
        assert re.search(
            rf"^python3 -I envs/set_up.py ?{option}$", make("-n", "-B", "all", *choice).stdout, re.MULTILINE
        )
    # tests/environments/test_conda.py runs this call
    command = make("-n", "prepare", "CONFIG=my.yaml", "-o", ".venv/.installed").stdout
    assert "snakemake --sdm conda --conda-create-envs-only --cores 1 --configfile my.yaml" in command


def test_with_a_display_the_report_is_opened_in_the_browser(report):
    browser = report / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{report}/opened"\n')
    browser.chmod(0o755)
    subprocess.run(OPEN_REPORT, cwd=report, env=environment(DISPLAY=":0", BROWSER=str(browser)), check=True, timeout=30)
    assert (report / "opened").read_text() == f"file://{report}/results/report/index.html\n"


@pytest.mark.parametrize("display", [NO_DISPLAY, {"DISPLAY": ":0", "PATH": "/nowhere"}], ids=["none", "no browser"])
def test_without_a_display_the_report_is_served_with_its_records_on_this_machine_alone(report, display):
    process = subprocess.Popen(OPEN_REPORT, cwd=report, env=environment(**display), stdout=subprocess.PIPE, text=True)
    try:
        (address,) = re.findall(
            r"The report is at (http://127\.0\.0\.1:\d+)/report/ until Ctrl-C", process.stdout.readline()
        )
        assert urllib.request.urlopen(f"{address}/report/").read() == b"the report"
        assert urllib.request.urlopen(f"{address}/record.json").read() == b"a record"
    finally:
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    process.stdout.close()
