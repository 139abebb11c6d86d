"""Show how a cluster profile would submit each kind of job, without a scheduler."""

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainmark.cluster.jobs import FOLDER, RUNS, Job, submit_command, values_of
from trainmark.cluster.site import PREVIEW_VARIABLE, check_sections, read_site, scheduler_of
from trainmark.errors import ClusterError
from trainmark.plan.products import SUBMITTED_RULES
from trainmark.plan.run import trainer_in

SNAKEFILE = Path(__file__).parents[4] / "Snakefile"


class Preview(logging.Handler):
    """A handler of Snakemake's messages that prints one submit command for each rule, device and number of workers.

    profile: the name of the profile.
    """

    def __init__(self, profile: str) -> None:
        super().__init__()
        self._scheduler = scheduler_of(profile)
        self._site = read_site(self._scheduler)
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        if record.levelno >= logging.ERROR:
            os.write(2, f"{record.getMessage()}\n".encode())
        if getattr(record, "event", None) != "job_info" or record.rule_name == "all":  # type: ignore[attr-defined]
            return
        try:
            self._show(record)
        except ClusterError as error:
            os.write(2, f"{error}\n".encode())
            os._exit(1)

    def _show(self, record: Any) -> None:
        title = _title(record)
        if title in self._shown:
            return
        self._shown.add(title)
        check_sections(self._site, SUBMITTED_RULES)
        if record.rule_name not in SUBMITTED_RULES:
            return
        job = _job(record, self._site.runs_per_job)
        values = values_of(job, self._scheduler, self._site)
        command = [*submit_command(values, self._scheduler), str(FOLDER / values["name"] / "job.sh")]
        print(f"{title}:\n  {shlex.join(command)}", flush=True)


def _title(record: Any) -> str:
    """The rule of a job, its device and its number of workers: "train on cpu, 2 workers"."""
    named = " on ".join(filter(None, (record.rule_name, _device(record))))
    return f"{named}, {tasks} workers" if (tasks := record.resources.get("tasks")) else named


def _device(record: Any) -> str | None:
    """The device of a job; None if it has none."""
    trainer = trainer_in(dict(record.wildcards))
    return trainer.device if trainer else None


def _job(record: Any, runs_per_job: int) -> Job:
    resources = {name: value for name, value in record.resources.items() if not name.startswith("_")}
    outputs = tuple(sorted(map(str, record.output or ())))
    rule = record.rule_name
    if rule == "train" and runs_per_job > 1 and "tasks" not in resources:
        rule, outputs = f"{RUNS}{_device(record)}", outputs * runs_per_job
        resources["runtime"] *= runs_per_job
    return Job(rule, outputs, record.threads, resources)


def show_submissions(profile: str, configs: Iterable[Path]) -> None:
    """Print the submit commands of a profile for a config. Exits with status 1 after an error, which is printed.

    Raises ClusterError for an unknown profile and for a site file with mistakes.
    """
    read_site(scheduler_of(profile))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(SNAKEFILE)]
    command += ["--dry-run", "--forceall", "--quiet", "all"]
    command += ["--workflow-profile", str(SNAKEFILE.parent / "profiles" / profile), "--configfile", *map(str, configs)]
    path = os.pathsep.join(
        filter(None, [str(SNAKEFILE.parent / "workflow" / "executor"), os.environ.get("PYTHONPATH")])
    )
    environment = os.environ | {PREVIEW_VARIABLE: profile, "PYTHONPATH": path}
    # No time limit: it plans any number of runs, in front of the user.
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
