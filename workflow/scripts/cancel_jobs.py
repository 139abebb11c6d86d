#!/usr/bin/env python3
"""Cancel all jobs that this folder's workflow has submitted to a cluster: cancel_jobs.py <profile>."""

import sys

from trainmark.cluster.site import scheduler_of
from trainmark.cluster.submission import cancel
from trainmark.errors import run_command


def main() -> None:
    """Cancel the jobs at the scheduler of the profile."""
    cancel(scheduler_of(" ".join(sys.argv[1:])))


if __name__ == "__main__":
    run_command(main)
