"""Jobs of a cluster: their names, the commands that submit them, and the scripts that run on the node.

A job's name contains digests of its outputs, without and with their keys, so that a later call of snakemake recognises
it, and one that makes the same from another config or code.
"""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trainmark.cluster.schedulers import RAW, Scheduler
from trainmark.cluster.site import Site, unknown_name
from trainmark.errors import CLUSTER_VARIABLE, ClusterError
from trainmark.files.scratch import SCRATCH_VARIABLE
from trainmark.machine.locks import LOCK_FOLDER_VARIABLE, WAITING_VARIABLE
from trainmark.plan.products import KEY

FOLDER = Path(".snakemake/cluster")
"""Folder of the jobs: for each a folder of its name, with job.json, job.sh and, once it has ended, its exit status."""

OUTPUT = "results/logs/cluster/{name}.log"
"""The output of a job, beside the log of its rule."""

RUNS = "runs-"
"""Beginning of the name of a group of runs (Campaign.group)."""

DERIVED = ("mem", "mem_mib", "disk", "disk_mb", "disk_mib", "tmpdir", "mpi")
"""Resources that ask the scheduler for nothing: those that Snakemake itself gives to each job, and the launcher."""

WAITING_SHARE = 0.5
"""Share of its time limit that a job may wait for CPUs or a GPU that other jobs hold."""


@dataclass(frozen=True)
class Job:
    """A job of the scheduler: one job of a rule, or a group of them.

    rule: name of the rule; of a group the name of the group.
    outputs: its output files; of a group those of all its jobs.
    threads, resources: as Snakemake gives them.
    logs: the log of the rule; of a group those of its runs.
    """

    rule: str
    outputs: tuple[str, ...]
    threads: int
    resources: Mapping[str, Any]
    logs: tuple[str, ...] = ()

    @classmethod
    def read(cls, script: Path) -> tuple["Job", str]:
        """Read the script that Snakemake wrote for a job. Returns the job and the script."""
        text = script.read_text()
        line = next(line for line in text.splitlines() if line.startswith("# properties = "))
        properties = json.loads(line.removeprefix("# properties = "))
        job = cls(
            rule=properties.get("rule") or properties["groupid"],
            outputs=tuple(sorted(properties["output"] or [properties["jobid"]])),
            threads=properties["threads"],
            resources=properties["resources"],
            logs=tuple(properties.get("log", map(_log_of_run, properties["output"] or ()))),
        )
        return job, text

    @cached_property
    def place(self) -> str:
        """Digest of the job's directory and outputs, whatever their keys."""
        return _short_digest([os.getcwd(), *(re.sub(KEY, "", output) for output in self.outputs)])

    @cached_property
    def digest(self) -> str:
        """Digest of its outputs, whose keys say what decides them."""
        return _short_digest(self.outputs)

    @property
    def on_gpu(self) -> bool:
        """Whether the job asks for a GPU."""
        return bool(self.resources.get("gpu"))

    @property
    def runs(self) -> int:
        """How many trainings it does, one after the other."""
        return len(self.outputs) if self.rule.startswith(RUNS) else 1

    def name(self, values: Mapping[str, object]) -> str:
        """Return the job's name at the scheduler."""
        return f"{values['jobname']}-{self.rule}-{self.place}-{self.digest}"


def _log_of_run(record: str) -> str:
    return record.replace("results/runs/", "results/logs/train/").replace("/record.json", ".log")


def _short_digest(parts: Iterable[str]) -> str:
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()[:12]


def values_of(job: Job, scheduler: Scheduler, site: Site) -> dict[str, Any]:
    """Return all values that a job passes to the scheduler, by name. Those of the site file replace those of the rules.

    Raises ClusterError for a value that the scheduler does not know.
    """
    values = _given(job, scheduler, site)
    known = scheduler.names | {"threads", "runtime", "mem_mb", "gpu"}
    for name in values.keys() - known:
        raise ClusterError(f"{job.rule}: {unknown_name(name, scheduler)}")
    if "runtime" not in values:
        raise ClusterError(f"{job.rule}: there is no time limit; give the rule `runtime` in minutes")
    if scheduler.node_types:
        _check_node(job, values, scheduler)
    minutes, name = int(values["runtime"]), job.name(values)
    outputs = {key: values[key] for key in ("stdout", "stderr") if values.get(key)}
    for key, file in outputs.items():
        if "{name}" not in file:
            raise ClusterError(f"{key}: found {file}, one file for all jobs; put {{name}}, the job's name, into it")
    return values | {
        "limit": f"{minutes // 60:02d}:{minutes % 60:02d}:00",
        "gpu_type": f"{values['gpu_model']}:" if values.get("gpu_model") else "",
        "name": name,
        "join": None if "stderr" in outputs else "y",
        **{key: file.replace("{name}", name) for key, file in ({"stdout": OUTPUT} | outputs).items()},
    }


def _given(job: Job, scheduler: Scheduler, site: Site) -> dict[str, Any]:
    """Return the values of the profile, the rule and the site file; later ones replace earlier ones."""
    resources = {name: value for name, value in job.resources.items() if name not in DERIVED}
    # A scheduler without tasks is asked for the CPUs of all workers.
    slots = job.threads if "tasks" in scheduler.names else job.threads * resources.pop("tasks", 1)
    values = {**scheduler.defaults, "threads": slots, **resources}
    rule = "train" if job.rule.startswith(RUNS) else job.rule
    for section in ("all", *(["gpu"] if job.on_gpu else []), rule):
        given = dict(site.options.get(section, {}))
        if "runtime" in given:
            given["runtime"] *= job.runs
        values |= given
    return values


def _check_node(job: Job, values: Mapping, scheduler: Scheduler) -> None:
    """Raise ClusterError if a job asks for more than its node type has."""
    kind = values["node_type"]
    nodes = int(values.get("nodes") or 1)
    has = dict(zip(("threads", "mem_mb", "gpu"), scheduler.node_types[kind], strict=True))
    for name, most in has.items():
        if (values.get(name) or 0) > most * nodes:
            several = f" on {nodes} nodes" if nodes > 1 else ""
            raise ClusterError(
                f"{job.rule}: it asks for {name}={values[name]}{several}, and the node type {kind} has {most}; choose "
                f"another node_type for it in the site file ({', '.join(scheduler.node_types)})"
            )


def submit_command(values: Mapping[str, Any], scheduler: Scheduler) -> list[str]:
    """Return the command that submits a job, without the script."""
    command = list(scheduler.submit)
    for name, template in scheduler.options.items():
        value = values.get(name)
        if value is None or value == scheduler.unasked.get(name):
            continue
        if template == RAW:
            command += _raw(value)
        else:
            command += [word.format_map(values) for word in template.split()]
    return command


def _raw(value: object) -> list[str]:
    if isinstance(value, Mapping):
        return [word for key, text in value.items() for word in (f"-{key}", str(text))]
    return shlex.split(str(value))


def _lock_folder(site: Site) -> str:
    """Return the folder of the locks as a shell word: that of the environment, or else of the site file."""
    named = os.environ.get(LOCK_FOLDER_VARIABLE)
    return shlex.quote(named) if named else f'"{site.lock_folder}"'


def node_script(job_script: str, name: str, values: Mapping[str, Any], site: Site, command: Iterable[str]) -> str:
    """Return the script that runs on the node: the environment, Snakemake's own script, and its exit status in a file.

    job_script: the script of Snakemake.
    command: the command that submits it, for the reader.
    """
    folder = shlex.quote(str(FOLDER.absolute() / name))
    seconds = int(int(values["runtime"]) * 60 * WAITING_SHARE)
    restored = [name for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# Submitted by trainmark: {shlex.join(command)}",
            f"cd {shlex.quote(os.getcwd())} && rm -f {folder}/exit || exit 1",
            "# Login shells and schedulers change these.",
            *(f"export {name}={shlex.quote(os.environ[name])}" for name in restored),
            f"export {CLUSTER_VARIABLE}={shlex.quote(name)} {WAITING_VARIABLE}={seconds}",
            f"export {LOCK_FOLDER_VARIABLE}={_lock_folder(site)}",
            # srun takes the CPUs of a task from its own variable.
            '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK',
            *([f'export {SCRATCH_VARIABLE}="{site.scratch}"'] if site.scratch else []),
            *([f". {shlex.quote(os.path.abspath(site.modules))}"] if site.modules else []),
            'echo "started $(date) on $(hostname)"',
            'printf "%s\\n" "PATH=$PATH" "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"',
            'echo "CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-not set}"',
            "python --version; command -v mpirun > /dev/null && mpirun --version",
            "(",
            job_script.partition("\n")[2] if job_script.startswith("#!") else job_script,
            ")",
            "status=$?",
            'echo "ended $(date) with status $status"',
            f"echo $status > {folder}/exit.part && mv {folder}/exit.part {folder}/exit",
            "exit $((status != 0))  # Grid Engine would start a job that ends with 99 again",
            "",
        ]
    )
