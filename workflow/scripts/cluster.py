#!/usr/bin/env python3
"""Submit jobs to a cluster, tell their state, and cancel them, as Snakemake's generic executor asks.

The cluster profiles call it as

    cluster.py submit <profile> <job script>     prints the job's id
    cluster.py status <profile> <id>             prints running, success or failed
    cluster.py cancel <profile>                  cancels all jobs that this folder's workflow has submitted
"""

import sys
from pathlib import Path

from trainmark.cluster.site import read_site, scheduler_of
from trainmark.cluster.status import status
from trainmark.cluster.submission import cancel, submit
from trainmark.errors import run_command


def main() -> None:
    """Do what the first word asks, at the scheduler of the profile."""
    command, profile, *arguments = sys.argv[1:]
    scheduler = scheduler_of(profile)
    if command == "submit":
        print(submit(Path(arguments[0]), scheduler, read_site(scheduler)))
    elif command == "status":
        print(status(arguments[0], scheduler))
    elif command == "cancel":
        cancel(scheduler)


if __name__ == "__main__":
    run_command(main)
