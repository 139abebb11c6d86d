"""What do many short runs cost through a real Slurm? `make bench-cluster` prints it: RUNS=2000 RUNS_PER_JOB=50.

The framework computes nothing, so what is left is the cost of submitting, starting and following. It needs Slurm from
Debian's packages, and root.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import yaml

sys.path.append(str(Path(__file__).parents[1] / "cluster"))

from harness import REPOSITORY, copy_of_repository, environment, write_config
from schedulers import Slurm

RUNS, RUNS_PER_JOB = (int(os.environ.get(name) or default) for name, default in (("RUNS", 2000), ("RUNS_PER_JOB", 50)))


def config() -> dict:
    experiment = {
        "recipes": ["mnist-mlp-flux"],
        "frameworks": ["constant"],
        "devices": ["cpu"],
        "epochs": [1],
        "repeats": RUNS,
        "keep_weights": False,
    }
    return {"experiments": {"many": experiment}}


def main() -> None:
    """Run the campaign once, and print what it took."""
    if reason := Slurm.missing():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as temporary, Slurm() as slurm:
        folder = copy_of_repository(Path(temporary))
        example = REPOSITORY / "tests" / "workflow" / "example" / "constant_adapter.py"
        shutil.copy(example, folder / "workflow" / "scripts" / "trainmark" / "frameworks")
        (folder / "envs" / "constant.yaml").write_text("dependencies: [numpy]\n")
        name = write_config(folder, config())
        (folder / "config" / "site.yaml").write_text(yaml.safe_dump({"runs_per_job": RUNS_PER_JOB}))
        command = [
            "snakemake",
            "--workflow-profile",
            "profiles/slurm",
            "--configfile",
            name,
            "--set-threads",
            "train=1",
        ]
        start = time.monotonic()
        os.chdir(folder)
        pid = os.posix_spawnp(command[0], command, environment(**slurm.environment))
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - start
        records = len(list(folder.glob("results/runs/**/record.json")))
        jobs = [job for job in slurm.finished() if "-runs-" in job["name"]]
    print(f"exit status {os.waitstatus_to_exitcode(status)}, {records} records")
    print(f"{len(jobs)} jobs of the scheduler trained them")
    print(f"{seconds:.0f} s in all, {seconds / RUNS:.2f} s for each run, on {os.cpu_count()} CPUs")
    cpu_seconds = usage.ru_utime + usage.ru_stime
    print(f"snakemake took {usage.ru_maxrss / 1024:.0f} MiB of memory at most, and {cpu_seconds:.0f} s of CPU time")


if __name__ == "__main__":
    main()
