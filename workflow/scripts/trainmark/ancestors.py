"""Whether the workflow that started a job is still there to take its result."""

import psutil

NEAREST = 2
"""A job's shell, and the workflow that started it."""


def ancestors() -> tuple[int, ...]:
    """Ids of the processes that started this one, the nearest first: its parent, and its parent's parent.

    They change when one of the two ends: whoever is left then belongs to another process.
    """
    return tuple(process.pid for process in psutil.Process().parents()[:NEAREST])
