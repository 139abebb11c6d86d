"""The schedulers: how each one submits, lists and cancels jobs, and what the states of its jobs mean."""

import os
import pwd
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

RAW = "{}"
"""Template of an option whose value is itself options: a text as in a shell, or a mapping of keys and values."""


@dataclass(frozen=True)
class Listed:
    """A job in the listing of a scheduler.

    alive: whether it waits, runs, or will run again.
    reason: why it waits, in the scheduler's words; its state if it does not wait.
    """

    name: str
    state: str
    alive: bool
    reason: str = ""


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
    account: the command that describes an ended job; "{job_id}" and "{name}" stand for its own.
    read_account: reads its output, and returns the state in which the job ended, COMPLETED or one of ENDED; another
        one if it has not ended; empty if it says none.
    cancel: the command that cancels the jobs whose ids follow.
    reasons: what is said of a job by a pattern of its reason; nothing if it runs, or needs only patience.
    ended: what its states mean, where that is not what ENDED says.
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
    reasons: Mapping[str, str]
    ended: Mapping[str, str] = field(default_factory=dict)
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
    "REFUSED": "its node could not start it; {title} says why, and so may its output",
    "FAILED": "it ended with status {exit_status}",
    "LOST": "{title} no longer knows it, and it left no exit status: it was killed, or its node failed; the next call "
    "goes on from the last checkpoint",
}
"""What the state in which a job ended means, and what to do."""


def user_name() -> str:
    """Return the name of the user for the kernel: USER and LOGNAME may be somebody else's (sudo, a container).

    One who has none, as in a container (docker run --user), gets the number as name. It is set as USER, because
    Snakemake and frameworks ask for the name, too, and fail without one.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        os.environ.setdefault("USER", str(os.getuid()))
        return str(os.getuid())


SUBMITTED = re.compile(r"^\s*(\d+)(?:[;.]\S*)?\s*$|(?:Submitted batch job|Your job(?:-array)?) (\d+)", re.MULTILINE)
"""The id of a job that was submitted: alone in its line (sbatch --parsable, qsub -terse), or in a sentence."""

ON_CLUSTER = re.compile(r"^\s*(?:\d+;|Submitted batch job \d+ on cluster )([^\s;]+)", re.MULTILINE)
"""The cluster that a job was submitted to, where Slurm names one."""

OF_OURS = re.compile(r"-[0-9a-f]{12}-[0-9a-f]{12}\b")
"""The end of the name of a job of trainmark's (jobs.Job.name)."""


def read_submission(text: str) -> str | None:
    """Return the id of a job from what sbatch or qsub printed; None if it names none, or several."""
    ids = {short or long for short, long in SUBMITTED.findall(text)}
    return ids.pop() if len(ids) == 1 else None


def _read_squeue(text: str) -> dict[str, Listed]:
    jobs = {}
    for line in text.splitlines():
        if found := re.fullmatch(r"\s*(\d[^|\s]*)\s*\|\s*(.*?)\s*\|\s*([A-Z_]+)\+?\s*\|\s*([^|]*?)\s*\|?\s*", line):
            job_id, name, state, reason = found.groups()
            reason = reason if state == "PENDING" else state
            if job_id not in jobs or OF_OURS.search(name):  # two clusters may give one id
                jobs[job_id] = Listed(name, SLURM_STATES.get(state, state), state not in SLURM_STATES, reason)
        elif re.match(rf"\s*\d+(([_+]\S*)?\s*\||.*{OF_OURS.pattern})", line):  # others are notes and headers
            raise ValueError(line)
    return jobs


def _read_sacct(text: str) -> str:
    states = re.findall(r"^\s*([A-Z_]+)\+?(?: by \S+)?\s*\|?\s*$", text, re.MULTILINE)  # "CANCELLED by 1000"
    known = [SLURM_STATES.get(state, state) for state in states if state in SLURM_STATES or state in SLURM_ALIVE]
    return known[-1] if known else ""


def _read_qstat(text: str) -> dict[str, Listed]:
    if not re.search(r"<job_info[^>]*/>|</job_info>", text):  # cut off: jobs would seem to be gone
        raise ValueError(text)
    jobs = {}
    for job in re.findall(r"<job_list.*?</job_list>", text, re.DOTALL):
        values = dict(re.findall(r"<(JB_job_number|JB_name|state)>\s*(.*?)\s*<", job))
        jobs[values["JB_job_number"]] = Listed(values["JB_name"], values["state"], True, values["state"])
    return jobs


def _read_qacct(text: str) -> str:
    """Read the last entry: a job that was started again has several."""
    last = dict(re.findall(r"^(failed|exit_status) +(\d+) *(?:[:(].*)?$", text, re.MULTILINE))
    return "COMPLETED" if [*last.values()] == ["0", "0"] else GRID_ENGINE_ENDS.get(last.get("failed", ""), "")


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

SLURM_ALIVE = {
    "PENDING", "CONFIGURING", "RUNNING", "RESIZING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "COMPLETING",
    "REQUEUED",
}  # fmt: skip
"""The states in which the accounting of Slurm has jobs that have not ended (sacct(1), "JOB STATE CODES")."""

UNKNOWN_REASON = "has waited for {minutes} minutes ({why})"
"""What is said of a job whose reason has no pattern."""

SLURM_REASONS = {
    r"^(None|Priority|Resources|BeginTime|Prolog|Cleaning|SchedDefer|WaitingForScheduling|JobArrayTaskLimit)$": "",
    r"^(RUNNING|RESIZING|SIGNALING|STAGE_OUT|REQUEUED|REQUEUE_FED)$": "",
    r"^Partition(Down|Inactive)": "waits ({why}) until an administrator opens its partition; for another one, press "
    "Ctrl-C, and set slurm_partition under options in {site}",
    r"^Partition|Constraints|MaxMemPerLimit|(QOS|Assoc)Max\w*Per(Job|Node)|QOSMin": "will wait for ever ({why}); press "
    "Ctrl-C, and let it ask for what a node has and the site allows: options in {site}",
    r"^(Invalid(Account|QOS)|(Account|QOS)NotAllowed)": "will wait for ever ({why}); press Ctrl-C, and correct "
    "slurm_account, slurm_partition and qos under options in {site}",
    r"NeverSatisfied|DeadLine|Reservation(Deleted|Invalid)|RESV_DEL": "will wait for ever ({why}); press Ctrl-C, and "
    "take what is no longer there (a reservation, another job) out of options in {site}",
    r"^JobHeldAdmin": "is held by an administrator ({why}), who alone can let it go: scontrol release {job_id}",
    r"(?i)(launch|env|prolog|burst|failed).*held|JobLaunchFailure": "is held, because its node could not start "
    "it ({why}); when that is mended (scontrol show job {job_id}), scontrol release {job_id} lets it go",
    r"MaxRequeue": "is held, because it was requeued too often ({why}); when the cause is mended (scontrol show job "
    "{job_id}), scontrol release {job_id} lets it go",
    r"(?i)held|_hold|SPECIAL_EXIT": "is held ({why}): scontrol release {job_id} lets it go",
    r"^(SUSPENDED|STOPPED)": "is suspended ({why}) until an administrator or the scheduler resumes it",
}
"""What is said of a job (squeue(1), "JOB REASON CODES" and "JOB STATE CODES"). The first pattern that fits counts."""

OUT_OF_MEMORY_OUTPUT = re.compile(r"exceeded memory limit|oom[-_ ]kill", re.IGNORECASE)
"""What a job's output says if it was killed for its memory. Without control groups, Slurm gives it another state."""

GRID_ENGINE_ENDS = dict.fromkeys(map(str, (*range(1, 12), *range(26, 31))), "REFUSED") | {
    "37": "TIMEOUT",  # qmaster enforced h_rt, h_cpu, or h_vmem limit
    "100": "CANCELLED",  # killed, as by qdel
}
"""How a job ended, by the value of `failed` in the accounting of Grid Engine (accounting(5), sge_status(5))."""

GRID_ENGINE_LIMITS = (
    "it ran past its time limit of {limit} or used more than its memory (ru_wallclock and maxvmem in qacct -j {job_id} "
    "say which); the next call goes on from the last checkpoint; for more: {rule}: {{runtime: ..., mem_mb: ...}} under "
    "options in {site}"
)
"""What the accounting of Grid Engine does not tell apart."""

GRID_ENGINE_REASONS = {
    r"^(h?R?[rt]+|R?qw|Rq)$": "",
    r"E": "could not be started by its node ({why}); when that is mended (qstat -j {job_id} says why), qmod -cj "
    "{job_id} lets it go",
    r"h.*w": "is held ({why}): qrls {job_id} lets it go",
    r"s": "is suspended ({why}): qmod -usj {job_id} lets it go on",
    r"S|T": "is suspended ({why}) with its queue, until that goes on",
}
"""What is said of a job (sge_status(5))."""

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
    # --allocations, --noheader, --parsable2
    account=("sacct", "-X", "-n", "-P", "--format=State", "--name={name}", "--jobs={job_id}"),
    read_account=_read_sacct,
    cancel=("scancel",),
    reasons=SLURM_REASONS,
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
    listing=("qstat", "-u", user_name(), "-s", "a", "-xml"),
    read_listing=_read_qstat,
    account=("qacct", "-j", "{job_id}"),
    read_account=_read_qacct,
    cancel=("qdel",),
    reasons=GRID_ENGINE_REASONS,
    ended={"TIMEOUT": GRID_ENGINE_LIMITS, "CANCELLED": f"somebody cancelled it, or {GRID_ENGINE_LIMITS}"},
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
