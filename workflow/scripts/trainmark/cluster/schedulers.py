"""The schedulers: how each one submits, lists and cancels jobs, and what the states of its jobs mean."""

import getpass
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

RAW = "{}"
"""Template of an option whose value is itself options: a text as in a shell, or a mapping of keys and values."""


@dataclass(frozen=True)
class Listed:
    """A job in the listing of a scheduler.

    alive: whether it waits, runs, or will run again.
    hopeless: why it will wait for ever, in the scheduler's words; empty if it need not.
    """

    name: str
    state: str
    alive: bool
    hopeless: str = ""


@dataclass(frozen=True)
class Scheduler:
    """One scheduler.

    title: its name in messages.
    submit: the command that submits a job, with the options that every job has.
    options: the options that pass a resource to the scheduler, by the resource. "{x}" stands for the value of x.
    unasked: values for which no option is given, since jobs have them anyway.
    defaults: values that the options name and that need not be given.
    required: what the site file must say, by name, with the reason.
    listing: the command that lists the user's jobs.
    read_listing: reads its output, and returns the jobs by their id.
    account: the command that describes an ended job, whose id follows.
    read_account: reads its output, and returns the state in which the job ended, one of ENDED; empty if it says none.
    cancel: the command that cancels the jobs whose ids follow.
    node_types: CPU cores, memory in MB and GPUs of each node type, where jobs ask for nodes and not for resources.
    """

    title: str
    submit: tuple[str, ...]
    options: Mapping[str, str]
    listing: tuple[str, ...]
    read_listing: Callable[[str], dict[str, Listed]]
    account: tuple[str, ...]
    read_account: Callable[[str], str]
    cancel: tuple[str, ...]
    unasked: Mapping[str, object] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    required: Mapping[str, str] = field(default_factory=dict)
    node_types: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """The names of all values that can be passed to the scheduler."""
        used = {name for template in self.options.values() for name in re.findall(r"{(\w+)}", template)}
        return (used | set(self.options) | set(self.defaults) | set(self.required)) - OWN


OWN = {"name", "limit", "gpu_type", "join"}
"""Values that trainmark derives, and nobody gives."""

ENDED = {
    "TIMEOUT": "it ran past its time limit of {limit}; the next call goes on from the last checkpoint; a longer limit, "
    "in minutes: {rule}: {{runtime: ...}} under options in {site}",
    "OUT_OF_MEMORY": "it used more than its {mem_mb} MB of memory; for more: {rule}: {{mem_mb: ...}} under options in "
    "{site}",
    "CANCELLED": "somebody cancelled it; the next call goes on from the last checkpoint",
    "NODE_FAIL": "its node failed; the next call goes on from the last checkpoint",
    "REFUSED": "the node could not start it; {title} says why, and so may its output",
    "FAILED": "it ended with status {exit_status}",
    "LOST": "{title} no longer knows it, and it left no exit status: it was killed, or its node failed; the next call "
    "goes on from the last checkpoint",
}
"""What the state in which a job ended means, and what to do."""


def user_name() -> str:
    """Return the name of the user. One who has none, as in a container (docker run --user), gets the number as name.

    It is set as USER, because Snakemake and frameworks ask for the name, too, and fail without one.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.environ.setdefault("USER", str(os.getuid()))


def _read_squeue(text: str) -> dict[str, Listed]:
    jobs = {}
    for line in text.splitlines():
        job_id, name, state, reason = line.split("|", 3)
        hopeless = reason if state == "PENDING" and reason in SLURM_HOPELESS else ""
        jobs[job_id] = Listed(name, SLURM_STATES.get(state, state), state not in SLURM_STATES, hopeless)
    return jobs


def _read_sacct(text: str) -> str:
    state = text.partition("\n")[0].partition(" ")[0]  # "CANCELLED by 1000"
    return SLURM_STATES.get(state, "")


def _read_qstat(text: str) -> dict[str, Listed]:
    jobs = {}
    for job in re.findall(r"<job_list.*?</job_list>", text, re.DOTALL):
        values = dict(re.findall(r"<(JB_job_number|JB_name|state)>(.*?)<", job))
        refused = "E" in values["state"]
        jobs[values["JB_job_number"]] = Listed(
            values["JB_name"], "REFUSED" if refused else values["state"], not refused
        )
    return jobs


def _read_qacct(text: str) -> str:
    values = dict(re.findall(r"^(\w+) +(.*?) *$", text, re.MULTILINE))
    return next((state for key, pattern, state in GRID_ENGINE_ENDS if re.search(pattern, values.get(key, ""))), "")


SLURM_STATES = {
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "TIMEOUT": "TIMEOUT",
    "DEADLINE": "TIMEOUT",
    "OUT_OF_MEMORY": "OUT_OF_MEMORY",
    "CANCELLED": "CANCELLED",
    "PREEMPTED": "CANCELLED",
    "REVOKED": "CANCELLED",
    "NODE_FAIL": "NODE_FAIL",
    "BOOT_FAIL": "NODE_FAIL",
}
"""The states of Slurm in which a job has ended (squeue(1), "JOB STATE CODES"), in the words of ENDED."""

SLURM_HOPELESS = (
    "PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionInactive", "BadConstraints",
    "JobHeldAdmin", "JobHeldUser", "InvalidAccount", "InvalidQOS", "QOSMaxCpuPerJobLimit", "QOSMaxMemoryPerJob",
    "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit", "AssocMaxCpuPerJobLimit",
)  # fmt: skip
"""Reasons for which a job waits until somebody changes it or the cluster (squeue(1), "JOB REASON CODES")."""

OUT_OF_MEMORY_OUTPUT = re.compile(r"exceeded memory limit|oom[-_ ]kill", re.IGNORECASE)
"""What a job's output says if it was killed for its memory. Without control groups, Slurm gives it another state."""

GRID_ENGINE_ENDS = (
    # key of qacct, what its value matches, the state
    ("failed", r"^37 ", "TIMEOUT"),  # qmaster enforced h_rt limit
    ("failed", r"^100 ", "CANCELLED"),  # killed, as by qdel
    ("failed", r"^(26|30) ", "REFUSED"),
)
"""How the accounting of Grid Engine tells how a job ended (accounting(5), sge_status(5))."""

SLURM = Scheduler(
    title="Slurm",
    submit=("sbatch", "--parsable", "--export=ALL", "--requeue", "--open-mode=append"),
    options={
        "name": "--job-name={name}",
        "stdout": "--output={stdout}",
        "stderr": "--error={stderr}",
        "runtime": "--time={runtime}",
        "mem_mb": "--mem={mem_mb}M",
        "tasks": "--ntasks={tasks}",
        "threads": "--cpus-per-task={threads}",
        "gpu": "--gpus={gpu_type}{gpu}",
        "nodes": "--nodes={nodes}",
        "slurm_account": "--account={slurm_account}",
        "slurm_partition": "--partition={slurm_partition}",
        "qos": "--qos={qos}",
        "constraint": "--constraint={constraint}",
        "reservation": "--reservation={reservation}",
        "slurm_extra": RAW,
    },
    defaults={"tasks": 1, "gpu_model": None, "jobname": "trainmark"},
    listing=("squeue", f"--user={user_name()}", "--states=all", "--noheader", "--format=%i|%j|%T|%r"),
    read_listing=_read_squeue,
    account=("sacct", "--allocations", "--noheader", "--parsable2", "--format=State", "--jobs"),
    read_account=_read_sacct,
    cancel=("scancel",),
)

QSUB_NAMES = {"name": "-N {name}", "stdout": "-o {stdout}", "stderr": "-e {stderr}", "join": "-j {join}"}
"""Options of qsub for the name and the output of a job."""

GRID_ENGINE = Scheduler(
    title="Grid Engine",
    submit=("qsub", "-terse", "-V", "-cwd", "-S", "/bin/bash", "-r", "y"),
    options={
        **QSUB_NAMES,
        "runtime": "-l h_rt={limit}",
        "mem_mb": "-l {memory_resource}={mem_mb}M",
        "threads": "-pe {parallel_environment} {threads}",
        "gpu": "-l {gpu_resource}={gpu}",
        "project": "-P {project}",
        "queue": "-q {queue}",
        "others": RAW,
    },
    unasked={"threads": 1},  # not every queue has the parallel environment
    defaults={
        "memory_resource": "mem_free",
        "parallel_environment": "smp",
        "gpu_resource": "gpu",
        "jobname": "trainmark",
    },
    listing=("qstat", "-u", user_name(), "-xml"),
    read_listing=_read_qstat,
    account=("qacct", "-j"),
    read_account=_read_qacct,
    cancel=("qdel",),
)

TSUBAME = replace(
    GRID_ENGINE,
    title="TSUBAME",
    options={
        "group": "-g {group}",
        "node_type": "-l {node_type}={nodes}",
        "runtime": "-l h_rt={limit}",
        **QSUB_NAMES,
        "others": RAW,
    },
    defaults={"nodes": 1, "jobname": "trainmark"},
    required={
        "group": "-g: without it a job is a trial of 10 minutes, for which you write group: null",
        "node_type": "one of f_node, h_node, q_node and s_gpu",
    },
    node_types={
        "f_node": (28, 240_000, 4),
        "h_node": (14, 120_000, 2),
        "q_node": (7, 60_000, 1),
        "s_gpu": (2, 30_000, 1),
    },
)

SCHEDULERS = {"slurm": SLURM, "gridengine": GRID_ENGINE, "tsubame": TSUBAME}
"""The scheduler of each cluster profile, by the name of its folder in profiles/."""
