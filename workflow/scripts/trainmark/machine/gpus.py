"""What a run is timed on: the GPUs that there are, and the threads that it may use. Standard library only."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

DEVICES = ("cpu", "gpu")

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
"""Environment variables that BLAS, OpenMP and TensorFlow read their number of threads from, once, at import."""

HIDING = ("", "-1", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES that hide every GPU."""


def find_gpus() -> list[str]:
    """The machine's NVIDIA GPUs, as `nvidia-smi -L` lists them; [] where there is none.

    CUDA_VISIBLE_DEVICES set to nothing or to -1 hides them all, as it does for the frameworks. Set to some of them, it
    leaves this list as it is: `visible_gpus` says which.
    """
    return [line for line in _listing() if line.startswith("GPU ")]


def _listing() -> list[str]:
    """The lines of `nvidia-smi -L`; [] where every GPU is hidden and where it can't be run."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in HIDING:
        return []
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    try:
        listing = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.rstrip() for line in listing.stdout.splitlines()]


def visible_gpus() -> list[str]:
    """UUIDs of the GPUs that this process was given: those of CUDA_VISIBLE_DEVICES, or all of the machine's.

    In the place of a divided GPU stand its instances ("MIG-..."; MIG: Multi-Instance GPU): CUDA computes on nothing
    else there.

    A scheduler's assignment comes in that variable, as numbers (in nvidia-smi's order), UUIDs or beginnings of them.
    As in CUDA, the first entry that is no GPU here ends the list; so does a GPU that is named twice. An instance is
    taken as it is. A divided GPU that is named means its first instance: CUDA takes one instance only.
    """
    gpus = _gpus_and_instances()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None or not gpus:
        return [uuid for instances in gpus.values() for uuid in instances]
    visible: list[str] = []
    for entry in (part.strip() for part in given.split(",")):
        uuid = entry if entry.startswith("MIG-") else _named(entry, gpus)
        if uuid is None or uuid in visible:
            break
        visible.append(uuid)
    return visible


def _gpus_and_instances() -> dict[str, list[str]]:
    """By the UUID of each GPU, in nvidia-smi's order, the UUIDs that CUDA computes on: its instances, or its own.

    nvidia-smi lists instances in indented lines below their GPU: "  MIG 1g.10gb     Device  0: (UUID: MIG-...)".
    """
    instances: dict[str, list[str]] = {}
    gpu = None
    for line in _listing():
        if line.startswith("GPU "):
            gpu = _uuid(line)
            instances[gpu] = []
        elif gpu and line.lstrip().startswith("MIG "):
            instances[gpu].append(_uuid(line))
    return {gpu: of_gpu or [gpu] for gpu, of_gpu in instances.items()}


def _uuid(line: str) -> str:
    """UUID in a line such as "GPU 0: NVIDIA H200 (UUID: GPU-0a...)"; its number where there is none."""
    found = re.search(r"\(UUID: (\S+)\)", line) or re.match(r"GPU (\d+)", line)
    return found[1] if found else line


def _named(entry: str, gpus: dict[str, list[str]]) -> str | None:
    """The GPU, or its first instance, that a number, a UUID or the beginning of exactly one means."""
    if entry.isdecimal():
        matching = list(gpus)[int(entry) :][:1]
    else:
        matching = [uuid for uuid in gpus if entry and uuid.startswith(entry)]
    return gpus[matching[0]][0] if len(matching) == 1 else None


def no_gpu_message(asked_by: str) -> str:
    """The sentence for a GPU that was asked for and isn't there."""
    return (
        f"{asked_by} asks for the device gpu, and this machine has none that can be used ({_where_looked()}); change "
        "`devices` to auto or [cpu], run on a machine with a GPU and its driver, or submit with a cluster profile "
        "(snakemake --workflow-profile)"
    )


def _where_looked() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shutil.which("nvidia-smi") is None:
        looked = "there is no nvidia-smi on the PATH"
    elif visible in HIDING:
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU"
    elif find_gpus():
        looked = "nvidia-smi -L lists no such GPU"
    else:
        looked = "nvidia-smi -L listed no NVIDIA GPU"
    return looked if visible is None else f"{looked}, with CUDA_VISIBLE_DEVICES={visible!r}"


def limit_threads(cpus: Sequence[int]) -> None:
    """Hold this process to these CPUs, a thread each: before numpy or a framework is imported, or it has no effect.

    JAX reads no variable: it makes as many threads as the process may use CPUs, hence the affinity.
    """
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(len(cpus))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)
