"""A job detects whether the workflow that started it is still alive."""

import os
import subprocess
import sys

import pytest
from harness import importing

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


@pytest.mark.parametrize("named", [None, "", str(2**22 + 1)])
def test_no_workflow_or_one_that_is_no_ancestor(monkeypatch, named):
    monkeypatch.delenv(WORKFLOW_VARIABLE, raising=False)
    if named is not None:
        monkeypatch.setenv(WORKFLOW_VARIABLE, named)
    assert not workflow_is_alive()


def started(code, job):
    """A process that starts a job, whose workflow is alive."""
    command = [sys.executable, "-c", code, job]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=importing())
    assert process.stdout.readline() == "True\n"
    return process


def answer(process):
    """What the job says when it is asked again."""
    process.stdin.write("\n\n")
    process.stdin.flush()
    return process.stdout.readline()


@pytest.mark.parametrize("rest", ["", "; true"], ids=["the shell becomes the job", "the shell stays"])
def test_a_killed_workflow_is_not_alive(rest):
    workflow = started(WORKFLOW, f"{sys.executable} -c '{JOB}'{rest}")
    workflow.kill()
    workflow.wait()
    assert answer(workflow) == "False\n"


def test_the_workflow_stays_alive_if_the_shell_above_it_ends():
    """For example after a logout: the workflow is still alive and uses the result."""
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WORKFLOW!r}, sys.argv[1]])"
    shell = started(code, f"{sys.executable} -c '{JOB}'")
    shell.wait()
    assert answer(shell) == "True\n"
