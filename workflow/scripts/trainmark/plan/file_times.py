"""Files with a time in the future, which a wrong clock leaves."""

import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainmark.errors import DataError
from trainmark.plan.products import RESULTS

ALLOWED_SECONDS = 60
"""How far the clocks of a machine and its file server may differ."""


def check_file_times(jobs: Iterable[Any]) -> None:
    """Raise DataError if jobs read a file whose time is in the future.

    After each job Snakemake removes outputs that are older than an input, a record for example, and so do later calls.
    """
    jobs, now = list(jobs), time.time()
    made = {str(file) for job in jobs for file in job.output}
    read = {str(file) for job in jobs for file in job.input} - made
    if ahead := sorted(file for file in read if _changed(file) > now + ALLOWED_SECONDS):
        places = {RESULTS if Path(file).is_relative_to(RESULTS) else str(Path(file).parent) for file in ahead}
        others = f" (and {len(ahead) - 1} more)" if ahead[1:] else ""
        hours = (_changed(ahead[0]) - now) / 3600
        raise DataError(
            f"the time of {ahead[0]}{others} is {hours:.3g} h in the future, and Snakemake would remove results as "
            "older than what they were made of; set the clocks of this machine and its file server right, then: "
            f"find {shlex.join(sorted(places))} -newermt now -exec touch -d @{int(now)} {{}} +"
        )


def _changed(file: str) -> float:
    """Return the time of a file as Snakemake takes it, in seconds; 0 if it is not there."""
    stamp = Path(file, ".snakemake_timestamp")
    path = stamp if stamp.exists() else Path(file)
    return path.stat().st_mtime if path.exists() else 0
