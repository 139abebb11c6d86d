"""The Makefile says what its targets do and cost, and `make report` shows the report with and without a display."""

import re
import subprocess

from harness import REPOSITORY, environment


def make(*arguments, cwd=REPOSITORY, **extra):
    command = ["make", "--no-print-directory", "PYTHON=python3", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment(**extra), capture_output=True, text=True, check=False)


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


def test_without_a_report_make_says_what_to_do(tmp_path):
    done = make("report", "-f", str(REPOSITORY / "Makefile"), cwd=tmp_path)
    assert done.returncode and "there is no report yet; run make" in done.stderr


def test_the_report_is_opened_in_the_browser_or_served_on_this_machine_alone(tmp_path):
    page = tmp_path / "results" / "report" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("the report")
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/opened"\n')
    browser.chmod(0o755)
    arguments = ["report", "-f", str(REPOSITORY / "Makefile")]
    assert make(*arguments, cwd=tmp_path, DISPLAY=":0", BROWSER=str(browser)).returncode == 0
    assert (tmp_path / "opened").read_text() == f"file://{page}\n"
    assert 'http.server --bind 127.0.0.1 --directory "results" 8000' in make("-n", *arguments, cwd=tmp_path).stdout
