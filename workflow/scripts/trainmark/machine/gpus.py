"""Find the GPUs of this machine, and limit the threads of a run. No module outside the standard library is imported."""

import os
import platform
import shutil
from collections.abc import Sequence

from trainmark.errors import CLUSTER_VARIABLE, HangError
from trainmark.machine.cpus import bind
from trainmark.machine.programs import run_program
from trainmark.machine.variables import unset_settings

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
"""Environment variables from which BLAS, OpenMP and TensorFlow read their number of threads, once, at import."""

HIDING = ("", "-1", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES that hide every GPU."""


def find_gpus() -> list[str]:
    """Return the machine's NVIDIA GPUs as `nvidia-smi -L` lists them; [] if there is none, or all are hidden.

    If CUDA_VISIBLE_DEVICES selects some, this list still contains all; `visible_gpus` returns the selected ones.
    """
    return [line for line in _listing() if line.startswith("GPU ")]


def _listing() -> list[str]:
    """Return the lines of `nvidia-smi -L`; [] if every GPU is hidden or it can't be run. Raises HangError."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in HIDING:
        return []
    try:
        listing = run_program(["nvidia-smi", "-L"])
    except OSError:
        return []
    except HangError as error:
        raise HangError(f"{error}; with CUDA_VISIBLE_DEVICES='' in the environment, no GPU is looked for") from error
    return [line.rstrip() for line in listing.stdout.splitlines()]


def visible_gpus() -> list[str]:
    """Return the UUIDs of the GPUs that this process may use: those in CUDA_VISIBLE_DEVICES, or all of the machine's.

    A divided GPU is replaced by its instances ("MIG-..."), because CUDA can compute only on these. A scheduler assigns
    GPUs through this variable, as numbers (in nvidia-smi's order), UUIDs or prefixes of UUIDs. As in CUDA, the list
    ends at the first entry that is not a GPU of this machine, or that repeats an earlier one. An entry that names an
    instance is not checked. An entry that names a divided GPU means its first instance, because CUDA uses only one
    instance.
    """
    gpus = _gpus_and_instances()
    assigned = os.environ.get("CUDA_VISIBLE_DEVICES")
    if assigned is None or not gpus:
        return [uuid for instances in gpus.values() for uuid in instances]
    visible: list[str] = []
    for entry in (part.strip() for part in assigned.split(",")):
        uuid = entry if entry.startswith("MIG-") else _named(entry, gpus)
        if uuid is None or uuid in visible:
            break
        visible.append(uuid)
    return visible


def _gpus_and_instances() -> dict[str, list[str]]:
    """Return the UUIDs that CUDA can compute on, by the UUID of each GPU, in nvidia-smi's order.

    These are the instances of a divided GPU, which are indented lines below it, and the GPU itself otherwise.
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
    """Return the UUID in a line such as "GPU 0: NVIDIA H200 (UUID: GPU-0a...)"."""
    return line.partition("(UUID: ")[2].rstrip(")")


def _named(entry: str, gpus: dict[str, list[str]]) -> str | None:
    """Return the GPU, or its first instance, that a number, a UUID or an unambiguous prefix of a UUID means."""
    if entry.isdecimal():
        matching = list(gpus)[int(entry) :][:1]
    else:
        matching = [uuid for uuid in gpus if entry and uuid.startswith(entry)]
    return gpus[matching[0]][0] if len(matching) == 1 else None


def no_gpu_message(asked_by: str) -> str:
    """Return the error message for a requested GPU that is not available. asked_by: what requests it."""
    elsewhere = (
        "give its GPU jobs options that lead to nodes with a GPU (options.gpu in the site file)"
        if CLUSTER_VARIABLE in os.environ
        else "run on a machine with a GPU and its driver, or submit with a cluster profile (snakemake "
        "--workflow-profile)"
    )
    return (
        f"{asked_by} asks for the device gpu, and {platform.node()} has none that can be used ({where_looked()}); "
        f"change `devices` to auto or [cpu], or {elsewhere}"
    )


def where_looked() -> str:
    """Return why no GPU was found, as part of a sentence."""
    if shutil.which("nvidia-smi") is None:
        reason = "there is no nvidia-smi on the PATH"
    elif find_gpus() or not (said := _listing()):
        reason = f"nvidia-smi -L lists {'no such GPU' if find_gpus() else 'no NVIDIA GPU, or all are hidden'}"
    else:
        reason = f"nvidia-smi -L says: {said[0].rstrip('.')}"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return reason if visible is None else f"{reason}, with CUDA_VISIBLE_DEVICES={visible!r}"


def limit_threads(cpus: Sequence[int]) -> None:
    """Pin this process to these CPUs, with one thread each. Call it before numpy or a framework is imported.

    It is the one place that decides on threads: what else limits them is removed (`variables.THREADS`). Libraries read
    the number of threads from environment variables when they are imported. JAX reads no variable: it starts one thread
    for each CPU that the process may use, so the CPU affinity is set too.
    """
    unset_settings(os.environ)
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(len(cpus))
    bind(cpus)
