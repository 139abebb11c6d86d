"""Checks that a training goes on with the threads that it began with."""

import os

from threadpoolctl import ThreadpoolController

from trainmark.errors import MeasurementError
from trainmark.frameworks.adapter import Adapter


class ThreadCheck:
    """Compares the numbers of threads after each epoch with those before the first. It takes some 10 microseconds.

    Create it when all libraries are loaded.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter, self._libraries = adapter, ThreadpoolController()
        self._begun = self._threads()

    def after(self, epoch: int) -> None:
        """Raise MeasurementError if a pool has another number of threads, or the process other CPUs, than before."""
        for (what, before), (_, now) in zip(self._begun, self._threads(), strict=True):
            if now != before:
                raise MeasurementError(
                    f"{what} after epoch {epoch} are {now}, and before the first they were {before}: a run must train "
                    "with the same threads from its first epoch to its last; let nothing change them"
                )

    def _threads(self) -> list[tuple[str, int]]:
        pools = self._libraries.info() + self._adapter.thread_pools()
        found = [(f"the threads of {pool.get('internal_api') or pool['library']}", _threads_of(pool)) for pool in pools]
        if hasattr(os, "sched_getaffinity"):
            found.append(("the CPUs that it may use", len(os.sched_getaffinity(0))))
        return found


def _threads_of(pool: dict) -> int:
    return int(pool["num_threads"] if "num_threads" in pool else pool["threads"])
