"""A job sees whether the workflow that started it is still there."""

import os
import subprocess
import sys
from pathlib import Path

import trainmark
from trainmark.ancestors import NEAREST, ancestors

JOB = """
import sys
from trainmark.ancestors import ancestors
first = ancestors()
print(*first, flush=True)
sys.stdin.readline()
print(*ancestors(), flush=True)
"""
WORKFLOW = "import subprocess, sys; subprocess.run(['/bin/sh', '-c', sys.argv[1] + '; true'])"


def test_they_begin_with_the_parent():
    assert ancestors()[0] == os.getppid()
    assert len(ancestors()) <= NEAREST
    assert ancestors() == ancestors()


def test_they_change_when_the_workflow_is_killed():
    """Between it and the job is a shell, which stays."""
    scripts = str(Path(trainmark.__file__).parents[1])
    job = f"{sys.executable} -c '{JOB}'"
    workflow = subprocess.Popen(
        [sys.executable, "-c", WORKFLOW, job],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": scripts},
    )  # fmt: skip
    before = workflow.stdout.readline().split()
    assert before[1] == str(workflow.pid)
    workflow.kill()
    workflow.wait()
    workflow.stdin.write("\n")
    workflow.stdin.flush()
    after = workflow.stdout.readline().split()
    assert after[0] == before[0]
    assert after != before
