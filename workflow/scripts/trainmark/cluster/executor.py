"""The cluster of a workflow, for Snakemake's executor in `workflow/executor`."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from trainmark.cluster.listing import Listing
from trainmark.cluster.site import read_site, scheduler_of
from trainmark.cluster.status import status
from trainmark.cluster.submission import submit

CANCEL = Path(__file__).parents[2] / "cancel_jobs.py"

CANCEL_SECONDS = 10
"""Ctrl-C waits for this time until the jobs are cancelled; after it the command goes on by itself."""


class Cluster:
    """A scheduler, its site file and a listing of its jobs.

    profile: the name of the cluster profile.

    Raises ClusterError for an unknown profile and for a site file with mistakes.
    """

    def __init__(self, profile: str) -> None:
        scheduler = scheduler_of(profile)
        self._profile, self._site, self._listing = profile, read_site(scheduler), Listing(scheduler)

    def submit(self, script: Path) -> str | None:
        """See `submission.submit`."""
        return submit(script, self._listing, self._site)

    def status(self, external_id: str) -> str:
        """See `status.status`."""
        return status(external_id, self._listing)

    def cancel(self) -> None:
        """Cancel all jobs, in a process that a second Ctrl-C does not reach."""
        process = subprocess.Popen([sys.executable, str(CANCEL), self._profile], start_new_session=True)
        with suppress(subprocess.TimeoutExpired):
            process.wait(CANCEL_SECONDS)
