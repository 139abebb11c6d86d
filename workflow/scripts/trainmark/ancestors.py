"""Whether the workflow that started a job is still there to take its result."""

import os

import psutil

WORKFLOW_VARIABLE = "TRAINMARK_WORKFLOW_PID"
"""Environment variable in which a workflow leaves its process's id to its jobs."""


def has_workflow() -> bool:
    """Whether the workflow that WORKFLOW_VARIABLE names is among the processes that this one descends from.

    When it ends, whoever is left belongs to another process. False, too, without a workflow, and where a container
    hides the processes of its host.
    """
    return os.environ.get(WORKFLOW_VARIABLE) in {str(process.pid) for process in psutil.Process().parents()}
