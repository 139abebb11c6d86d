"""A job detects whether the workflow that started it is still alive."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainmark
from trainmark.errors import WORKFLOW_VARIABLE
from trainmark.training.process_exit import workflow_is_alive

JOB = """
import sys
from trainmark.training.process_exit import workflow_is_alive
for _ in range(2):
    print(workflow_is_alive(), flush=True)
    sys.stdin.readline()
"""
WORKFLOW = f"""
import os, subprocess, sys
os.environ["{WORKFLOW_VARIABLE}"] = str(os.getpid())
subprocess.run(["/bin/sh", "-c", sys.argv[1]])
"""


def test_the_workflow_is_an_ancestor(monkeypatch):
    monkeypatch.setenv(WORKFLOW_VARIABLE, str(os.getppid()))
    assert workflow_is_alive()


@pytest.mark.parametrize("named", [None, "", "no number", str(2**22 + 1)])
def test_no_workflow_or_one_that_is_no_ancestor(monkeypatch, named):
    monkeypatch.delenv(WORKFLOW_VARIABLE, raising=False)
    if named is not None:
        monkeypatch.setenv(WORKFLOW_VARIABLE, named)
    assert not workflow_is_alive()


@pytest.mark.parametrize("rest", ["", "; true"], ids=["the shell becomes the job", "the shell stays"])
def test_a_killed_workflow_is_not_alive(rest):
    job = f"{sys.executable} -c '{JOB}'{rest}"
    workflow = subprocess.Popen(
        [sys.executable, "-c", WORKFLOW, job],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(trainmark.__file__).parents[1])},
    )  # fmt: skip
    assert workflow.stdout.readline() == "True\n"
    workflow.kill()
    workflow.wait()
    workflow.stdin.write("\n")
    workflow.stdin.flush()
    assert workflow.stdout.readline() == "False\n"


def test_the_workflow_stays_alive_if_the_shell_above_it_ends():
    """For example after a logout: the workflow is still alive and uses the result."""
    job = f"{sys.executable} -c '{JOB}'"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WORKFLOW!r}, {job!r}])"
    shell = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(trainmark.__file__).parents[1])},
    )  # fmt: skip
    assert shell.stdout.readline() == "True\n"
    shell.wait()
    shell.stdin.write("\n\n")
    shell.stdin.flush()
    assert shell.stdout.readline() == "True\n"
