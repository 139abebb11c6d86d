"""What do many short runs cost through a real Slurm? `make bench-cluster` prints it: RUNS=2000 RUNS_PER_JOB=50.

The framework computes nothing, so what is left is the cost of submitting, starting and following. It needs Slurm from
Debian's packages, and root.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.append(str(Path(__file__).parents[1] / "cluster"))

from harness import REPOSITORY, copy_of_repository, write_config
from measuring import usage_of
from schedulers import Slurm

RUNS, RUNS_PER_JOB = (int(os.environ.get(name) or default) for name, default in (("RUNS", 2000), ("RUNS_PER_JOB", 50)))


EXPERIMENT = {"recipes": ["mnist-mlp-flux"], "frameworks": ["constant"], "devices": ["cpu"], "epochs": [1]}
EXPERIMENT |= {"repeats": RUNS, "keep_weights": False}


def main() -> None:
    """Run the campaign once, and print what it took."""
    if reason := Slurm.missing():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as temporary, Slurm() as slurm:
        folder = copy_of_repository(Path(temporary))
        example = REPOSITORY / "tests" / "workflow" / "example" / "constant_adapter.py"
        shutil.copy(example, folder / "workflow" / "scripts" / "trainmark" / "frameworks")
        (folder / "envs" / "constant.yaml").write_text("dependencies: [numpy]\n")
        name = write_config(folder, {"experiments": {"many": EXPERIMENT}})
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
        usage = usage_of(folder, *command, **slurm.environment)
        records = len(list(folder.glob("results/runs/**/record.json")))
        jobs = [job for job in slurm.finished() if "-runs-" in job["name"]]
    print(f"exit status {usage.status}, {records} records")
    print(f"{len(jobs)} jobs of the scheduler trained them")
    print(f"{usage.seconds:.0f} s in all, {usage.seconds / RUNS:.2f} s for each run, on {os.cpu_count()} CPUs")
    print(f"snakemake took {usage.mib:.0f} MiB of memory at most, and {usage.cpu_seconds:.0f} s of CPU time")


if __name__ == "__main__":
    main()
