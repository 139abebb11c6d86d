"""Steps of a workflow before its first job and after its last."""

import json
import os
import platform
import subprocess
import sys
import tempfile
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
from trainmark.plan.display import Failure
from trainmark.plan.plan_file import PARTIAL_VARIABLE, plan_if_there, write_plan
from trainmark.plan.products import (
    PAPER_FILES,
    PAPER_FOLDER,
    PLAN_FILE,
    RECORD_FILE,
    RESULTS,
    TRAINING_RULES,
    described,
    prepared_folder,
)
from trainmark.plan.replaced import announce
from trainmark.plan.run import trainer_in
from trainmark.records.attempts import forget_others, set_aside
from trainmark.variant import split_name

PAGE = f"{RESULTS}/report/index.html"

PATH_OPTIONS = {"-s", "--snakefile", "-d", "--directory", "--configfile", "--configfiles"}
"""Options of snakemake whose values are paths."""


def start_workflow(
    campaign: Campaign,
    config: Mapping,
    jobs: Sequence[Any],
    *,
    gpu_found: bool,
    local: bool,
    deployed: bool,
    stale: Mapping[str, list[str]],
) -> ExitStack:
    """Lock the directory, check devices and frameworks, write the plan, and set the jobs' environment variables.

    Before anything is written, it prints which results are going to be replaced (`announce`).

    config: the checked config, in which devices may still be "auto".
    local: whether the jobs run on this machine.
    deployed: whether Snakemake provides the software of the jobs, through conda or containers.
    stale: what differs from the config, by the path of the result.

    Returns the lock, which the caller must keep. Raises BusyError if another workflow is running in the directory,
    DataError if the results can't be written and, if jobs run here, DeviceError if a GPU or a framework is missing.
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
        announce(campaign, jobs, stale, Terminal(sys.stderr))
        write_plan_of(campaign, campaign.missing)
        _tidy_runs(campaign, jobs)
        # These are environment variables and not parameters, because they must not make a result stale.
        os.environ[WORKFLOW_VARIABLE] = str(os.getpid())
        if campaign.config["mirror"]:
            os.environ["TRAINMARK_MIRROR"] = campaign.config["mirror"]
        if campaign.config["offline"]:
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


def write_plan_of(campaign: Campaign, missing: Mapping[str, str]) -> None:
    """Write a campaign's plan. missing: the reason why a run has no record, by run id."""
    runs = [run.id for run in campaign.runs if run.id not in missing]
    write_plan(Path(PLAN_FILE), campaign.config, runs, campaign.order, missing)


def _tidy_runs(campaign: Campaign, jobs: Iterable[Any]) -> None:
    """Set runs aside that this call trains again; remove what is left of runs that it does not train."""
    to_train = {file for job in jobs if job.rule.name in TRAINING_RULES for file in job.output}
    for record in map(Path, set(campaign.records) - to_train):
        if record.exists():
            record.with_suffix(".kept.json").unlink(missing_ok=True)
            forget_others(record)
    for run in campaign.runs:
        if run.id in campaign.repeated and (file := RECORD_FILE.format_map(vars(run))) in to_train:
            set_aside(Path(file))


def missing_runs(campaign: Campaign, failures: Sequence[Failure], not_trained: Container[str]) -> dict[str, str]:
    """Return the reason why a run is missing, by run id. Those that match the wildcards of a failed job depend on it.

    not_trained: ids of the runs that this call should have trained but did not.
    """
    reasons = {}
    for run in campaign.runs:
        values = {name: str(value) for name, value in (run.values | vars(run)).items()}
        for failure in failures:
            if all(failure.wildcards[name] == values[name] for name in failure.wildcards.keys() & values.keys()):
                reasons[run.id] = f"{failure.title} failed: {failure.sentence}"
                break
        else:
            if run.id in not_trained:
                reasons[run.id] = "not trained, since another job failed"
    return reasons


def without_paths(options: Iterable[str]) -> list[str]:
    """Return a command line of snakemake without PATH_OPTIONS and their values, and without targets after them."""
    kept, is_path = [], False
    for token in options:
        if token.startswith("-"):
            is_path = token.partition("=")[0] in PATH_OPTIONS
        if not is_path:
            kept.append(token)
    return kept


def finish_without(campaign: Campaign, missing: Mapping[str, str], paths: Iterable[str], stream: Terminal) -> None:
    """Make tables and report of the remaining runs in another call of snakemake. If none is left, a line says so.

    missing: the reason why a run has no record, by run id.
    paths: the options for Snakefile and config files, with absolute paths. Snakemake has changed its working directory
        to that of --directory, so paths in its command line may lead nowhere now.
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
    write_plan_of(campaign, missing)
    # Tables and report name the missing runs, so those of an earlier call are outdated even if their runs are the same.
    again = ["--forcerun", "collect_records"]
    command = [sys.executable, "-m", "snakemake", *without_paths(sys.argv[1:]), *again, *paths]
    # No time limit: figures of any number of runs are drawn, and each job that ends prints a line.
    subprocess.run(command, env=os.environ | {PARTIAL_VARIABLE: "1"}, stdin=subprocess.DEVNULL, check=False)


def print_results(campaign: Campaign, stream: Terminal) -> None:
    """Print the datasets listed under `prepare`, the table of results and the path of the report."""
    for name in campaign.config["prepare"]:
        manifest = Path(prepared_folder(name)) / "manifest.json"
        if manifest.exists():
            print(described(json.loads(manifest.read_text())), file=stream)
    summary, page = Path(f"{RESULTS}/tables/summary.txt"), Path(PAGE)
    if campaign.runs and summary.exists() and page.exists():
        # In front: behind --configfile and other options it would be taken for one of their values.
        paper = "For a paper: this call with results/paper in front: snakemake results/paper ...\n"
        paper = "" if {PAPER_FOLDER, f"{PAPER_FOLDER}/"} & set(sys.argv) else paper
        print(f"\n{summary.read_text()}\n{paper}Report: {page.resolve()}", file=stream)
