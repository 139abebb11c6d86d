"""The report's table of the machines, software and code that trained the runs."""

import pandas as pd

from trainmark.tables.tables import rows_of
from trainmark.trainer import TRAINER

SAME = (
    *TRAINER, "host", "cpu_model", "gpu", "threads", "versions", "library_settings", "environment", "python",
    "platform", "trainmark", "git_commit", "git_clean", "code_sha256",
)  # fmt: skip
"""Columns whose values are equal for all runs of one row."""


def machines(runs: pd.DataFrame) -> list[dict]:
    """One row per machine, trainer and state of software and code. Besides the columns of SAME, a row has:

    runs: the numbers of its runs.
    cpus: the sets of CPUs that these runs held.
    jobs: the scheduler's jobs that trained them.
    """
    return [
        row
        | {
            "runs": " ".join(map(str, sorted(group["number"]))),
            "cpus": " or ".join(sorted(set(group["cpus"]))),
            "jobs": _jobs(group),
        }
        for _, group in runs.groupby(list(SAME), sort=False, dropna=False)
        for row in rows_of(group[list(SAME)].head(1))
    ]


def _jobs(runs: pd.DataFrame) -> str:
    """Scheduler and jobs: "slurm 101, 102"; "" for runs without a scheduler."""
    jobs = runs.dropna(subset=["scheduler"]).groupby("scheduler", sort=False)["job_id"]
    return "; ".join(f"{scheduler} {', '.join(dict.fromkeys(job_ids))}" for scheduler, job_ids in jobs)
