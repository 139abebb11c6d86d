"""Steps of a workflow before its first job and after its last."""

import json
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from trainmark.console import Terminal, print_line
from trainmark.errors import WORKFLOW_VARIABLE, DataError, DeviceError, why
from trainmark.frameworks.registry import check_installed
from trainmark.machine.gpus import no_gpu_message
from trainmark.machine.locks import hold_directory
from trainmark.machine.ranks import check_launcher
from trainmark.plan.campaign import Campaign
from trainmark.plan.plan_file import PARTIAL_VARIABLE, plan_if_there, write_plan
from trainmark.plan.products import (
    MANIFEST,
    PAPER_FILES,
    PAPER_FOLDER,
    PLAN_FILE,
    RESULTS,
    TRAINING_RULES,
    described,
    prepared_in,
)
from trainmark.plan.run import trainer_in
from trainmark.session.display import Failure
from trainmark.session.other_calls import call_again
from trainmark.variant import split_name

PAGE = f"{RESULTS}/report/index.html"

ALLOWED_SECONDS = 60
"""How far the clocks of a machine and its file server may differ."""


def start_workflow(
    campaign: Campaign,
    config: Mapping,
    jobs: Sequence[Any],
    *,
    gpu_found: bool,
    local: bool,
    deployed: bool,
) -> ExitStack:
    """Lock the directory, check devices and frameworks, write the plan, and set the jobs' environment variables.

    config: the checked config, in which devices may still be "auto".
    local: whether the jobs run on this machine.
    deployed: whether Snakemake provides the software of the jobs, through conda or containers.

    Returns the lock, which the caller must keep. Raises BusyError if another workflow is running in the directory,
    DataError if the results can't be written or a file is of the future and, if jobs run here, DeviceError if a GPU or
    a framework is missing.
    """
    with hold_directory(Path.cwd()) as lock:  # an error leaves it free
        if local and not deployed:
            frameworks = {trainer.framework for job in jobs if (trainer := trainer_in(job.wildcards_dict))}
            check_installed(name for name in campaign.frameworks if name in frameworks)
            launched = {(job.resources.get("mpi", ""), job.resources.get("tasks", 1)) for job in jobs}
            for launcher, workers in sorted(launched):
                if workers > 1:
                    check_launcher(launcher, workers)
        devices = {name: experiment["devices"] for name, experiment in config["experiments"].items()}
        on_gpu = [name for name, of_experiment in devices.items() if "gpu" in of_experiment]
        if on_gpu and local and not gpu_found:
            raise DeviceError(no_gpu_message(f"the experiment {on_gpu[0]}"))
        if not local and not gpu_found and "auto" in devices.values():
            print(
                f"devices: auto means the CPU alone here, since {platform.node()} has no GPU; to train on the "
                "cluster's, write devices: [cpu, gpu]",
                file=Terminal(sys.stderr),
            )
        _check_writable(Path(RESULTS))
        _print_replaced_report(campaign, jobs, Terminal(sys.stderr))
        _check_file_times(jobs)
        write_plan(Path(PLAN_FILE), campaign.plan)
        _tidy_runs(campaign, jobs)
        _forget_report(campaign, jobs)
        # These are environment variables and not parameters, because a change of theirs makes nothing again.
        os.environ[WORKFLOW_VARIABLE] = str(os.getpid())
        if config["mirror"]:
            os.environ["TRAINMARK_MIRROR"] = config["mirror"]
        if config["offline"]:
            os.environ["TRAINMARK_OFFLINE"] = "1"
        return lock.pop_all()


def _check_writable(folder: Path) -> None:
    """Raise DataError if nothing can be written to the results folder."""
    try:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(
            f"the folder {folder.absolute()} can't be written to {why(error, 'make it writable')}, or choose "
            "another directory with snakemake --directory"
        ) from error


def _print_replaced_report(campaign: Campaign, jobs: Iterable[Any], stream: Terminal) -> None:
    """Print a line if the report that is there is of experiments that this call leaves out."""
    config = plan_if_there(Path(PLAN_FILE)).get("config")
    planned = config.get("experiments", ()) if isinstance(config, dict) else ()
    paper = Path(PAPER_FOLDER, PAPER_FILES).exists() and not any(job.rule.name == "paper" for job in jobs)
    there, now = ({split_name(name)[0] for name in names} for names in (planned, campaign.config["experiments"]))
    if there - now and Path(PAGE).exists() and any(job.rule.name == "report" for job in jobs):
        print_line(
            f"{RESULTS}/report and {RESULTS}/tables are going to be of {', '.join(sorted(now))}, no longer of "
            f"{', '.join(sorted(there - now))}, whose runs stay; to keep both, give each config a folder: snakemake "
            "--directory <folder>"
            + (f". {PAPER_FOLDER} stays of the earlier ones until a call makes it again" if paper else ""),
            stream,
        )


def _check_file_times(jobs: Iterable[Any]) -> None:
    """Raise DataError if jobs read a file whose time is in the future.

    After such a job Snakemake fails, and removes what it made, as older than what it was made of.
    """
    jobs, now = list(jobs), time.time()
    made = {str(file) for job in jobs for file in job.output}
    read = {str(file) for job in jobs for file in job.input} - made
    if ahead := sorted(file for file in read if _time_of(file) > now + ALLOWED_SECONDS):
        places = {RESULTS if Path(file).is_relative_to(RESULTS) else str(Path(file).parent) for file in ahead}
        others = f" (and {len(ahead) - 1} more)" if ahead[1:] else ""
        raise DataError(
            f"the time of {ahead[0]}{others} is {(_time_of(ahead[0]) - now) / 3600:.3g} h in the future, and Snakemake "
            "would remove results as older than what they were made of; set the clocks of this machine and its file "
            f"server right, then: find {shlex.join(sorted(places))} -newermt now -exec touch -d @{int(now)} {{}} +"
        )


def _time_of(file: str) -> float:
    """Return the time of a file or folder as Snakemake takes it, in seconds; 0 if it is not there."""
    stamp = Path(file, ".snakemake_timestamp")
    path = stamp if stamp.exists() else Path(file)
    return path.stat().st_mtime if path.exists() else 0.0


def _tidy_runs(campaign: Campaign, jobs: Iterable[Any]) -> None:
    """Remove copies of records that are there (`process_exit`), and evaluations of runs that are to be trained."""
    to_train = {file for job in jobs if job.rule.name in TRAINING_RULES for file in job.output}
    for record in filter(Path.exists, map(Path, set(campaign.records) - to_train)):
        record.with_suffix(".kept.json").unlink(missing_ok=True)
    for evaluation, records in campaign.evaluated_records.items():
        if not to_train.isdisjoint(records):
            Path(evaluation).unlink(missing_ok=True)


def _forget_report(campaign: Campaign, jobs: Iterable[Any]) -> None:
    """Remove the files that say that the report is of the results, if these jobs make any of them anew."""
    if not {str(file) for job in jobs for file in job.output}.isdisjoint(campaign.all_files):
        for made in Path(PAGE).parent.glob("made_*"):
            made.unlink()


def missing_runs(campaign: Campaign, failures: Sequence[Failure], not_trained: Container[str]) -> dict[str, str]:
    """Return the reason why a run is missing, by run id. Those that match the wildcards of a failed job depend on it.

    not_trained: ids of the runs that this call should have trained but did not.
    """
    reasons = {}
    for run in campaign.runs:
        if run.id in campaign.plan["repeated"]:
            continue  # its earlier record counts
        values = {name: str(value) for name, value in (run.values | vars(run)).items()}
        for failure in failures:
            if all(failure.wildcards[name] == values[name] for name in failure.wildcards.keys() & values.keys()):
                reasons[run.id] = f"{failure.title} failed: {failure.sentence}"
                break
        else:
            if run.id in not_trained:
                reasons[run.id] = "not trained, since another job failed"
    return reasons


def finish_without(campaign: Campaign, missing: Mapping[str, str], call: Iterable[str], stream: Terminal) -> None:
    """Make tables and report of the remaining runs in another call of snakemake. If none is left, a line says so.

    missing: the reason why a run has no record, by run id.
    call: the options of the call.
    """
    left = len(campaign.runs) - len(missing)
    if missing and not left and Path(PAGE).exists():
        print(
            f"\nno run is done; {RESULTS}/tables and {RESULTS}/report are of an earlier call", file=stream, flush=True
        )
    if not missing or not left:
        return
    print(
        f"\n{left} of {len(campaign.runs)} runs are done; making the tables and the report of these",
        file=stream,
        flush=True,
    )
    write_plan(Path(PLAN_FILE), {**campaign.plan, "missing": dict(missing)})
    call_again(call, {PARTIAL_VARIABLE: "1"})


def print_results(campaign: Campaign, stream: Terminal) -> None:
    """Print the datasets listed under `prepare`, the table of results and the path of the report."""
    for name in campaign.config["prepare"]:
        folder = prepared_in(f"{RESULTS}/{campaign.plan['datasets'][name]['folder']}")
        if (manifest := Path(folder, MANIFEST)).exists():
            print(described(json.loads(manifest.read_text()), folder), file=stream)
    summary, page = Path(f"{RESULTS}/tables/summary.txt"), Path(PAGE)
    if campaign.runs and summary.exists() and page.exists():
        # In front: behind --configfile and other options it would be taken for one of their values.
        paper = "" if "paper" in sys.argv else "For a paper: this call with paper in front: snakemake paper ...\n"
        print(f"\n{summary.read_text()}\n{paper}Report: {page.resolve()}", file=stream)
