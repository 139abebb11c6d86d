"""What a workflow does before its first job and after its last."""

import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from trainmark.errors import DeviceError
from trainmark.machine.gpus import no_gpu_message
from trainmark.machine.locks import hold_directory
from trainmark.plan.campaign import Campaign
from trainmark.plan.plan_file import WORKFLOW_VARIABLE, write_plan
from trainmark.plan.products import PLAN_FILE, described, prepared_folder


def start_workflow(campaign: Campaign, asked: Mapping, *, gpu_found: bool, local: bool) -> ExitStack:
    """Lock the directory, check the devices, write the plan, and hand the jobs what is no part of any result.

    asked: the config as it was given. local: whether the jobs run on this machine. Returns the lock, which the caller
    keeps. Raises BusyError where another workflow is at work in the directory, and DeviceError where an experiment
    names the device gpu and this machine, which is to train, has none.
    """
    lock = hold_directory(Path.cwd())
    devices = {name: experiment["devices"] for name, experiment in asked["experiments"].items()}
    asking = [name for name, named in devices.items() if "gpu" in named]
    if asking and local and not gpu_found:
        raise DeviceError(no_gpu_message(f"the experiment {asking[0]}"))
    if not local and not gpu_found and "auto" in devices.values():
        print(
            f"devices: auto means the CPU alone here, since {platform.node()} has no GPU; to train on the cluster's, "
            "write devices: [cpu, gpu]",
            file=sys.stderr,
        )
    write_plan(Path(PLAN_FILE), campaign.config, [run.id for run in campaign.runs], campaign.order, campaign.attempts)
    # By environment, not as parameters: none of these makes a result stale.
    os.environ[WORKFLOW_VARIABLE] = str(os.getpid())
    if campaign.config["mirror"]:
        os.environ["TRAINMARK_MIRROR"] = campaign.config["mirror"]
    if campaign.config["offline"]:
        os.environ["TRAINMARK_OFFLINE"] = "1"
    return lock


def print_stale(stale: Mapping[str, list[str]], stream: TextIO) -> None:
    """Say how many results are made anew because they are not what the config asks for. stale: why, by their files."""
    for why, count in Counter(", ".join(changed) for changed in stale.values()).most_common():
        files = f"{count} result{'s are' if count > 1 else ' is'}"
        print(f"{files} not what the config asks for, and made anew: {why}", file=stream)


def print_results(campaign: Campaign, stream: TextIO) -> None:
    """Print the datasets that are prepared without a run, the table of results and where the report is."""
    for name in campaign.config["prepare"]:
        manifest = Path(prepared_folder(name)) / "manifest.json"
        if manifest.exists():
            print(described(json.loads(manifest.read_text())), file=stream)
    summary, page = Path("results/tables/summary.txt"), Path("results/report/index.html")
    if campaign.runs and summary.exists() and page.exists():
        print(f"\n{summary.read_text()}\nReport: {page.resolve()}", file=stream)
