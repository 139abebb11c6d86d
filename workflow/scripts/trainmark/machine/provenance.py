"""Where and with what a run was made, read inside the job itself."""

import hashlib
import os
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

import psutil
import threadpoolctl

from trainmark.machine.cpus import allowed_cpus

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Linux draws a UUID at each boot and shows it here."""

CPU_INFO = Path("/proc/cpuinfo")

DOCKER_FILE = Path("/.dockerenv")
"""Docker puts an empty file here into every container."""

PODMAN_FILE = Path("/run/.containerenv")
"""Podman puts a file here into every container; in some it names the image: lines image="...", imageid="..."."""

GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Set by a hook of git, for whatever it starts: they tie git to the hook's repository."""

IMAGE_VARIABLES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
"""Variables that hold the path of the image in a container of Apptainer or Singularity."""

KUBERNETES_VARIABLE = "KUBERNETES_SERVICE_HOST"

VARIABLES = (
    # which GPUs a run sees, how they multiply, and how work gets to them
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    # threads of BLAS and OpenMP, and which of their kernels, of oneDNN's and of numpy's are taken
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "OMP_DYNAMIC", "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY", "KMP_BLOCKTIME", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "MKL_NUM_THREADS", "MKL_CBWR",
    "NUMEXPR_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "NPY_DISABLE_CPU_FEATURES",
    # TensorFlow and XLA
    "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_ENABLE_ONEDNN_OPTS", "TF_XLA_FLAGS",
    "TF_DETERMINISTIC_OPS", "TF_CUDNN_USE_AUTOTUNE", "TF_GPU_ALLOCATOR", "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT", "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR",
    # JAX; its cache of compiled programs shortens compilation
    "JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_DISABLE_JIT",
    "JAX_DISABLE_MOST_OPTIMIZATIONS", "JAX_COMPILATION_CACHE_DIR",
    # Keras and torch
    "KERAS_BACKEND", "KERAS_MAX_EPOCHS", "KERAS_MAX_STEPS_PER_EPOCH", "KERAS_NNX_ENABLED", "KERAS_TORCH_DEVICE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF",
    # Chainer and CuPy
    "CHAINER_DTYPE", "CHAINER_CUDNN", "CHAINER_USE_CUDNN", "CHAINER_CUDNN_FAST_BATCH_NORMALIZATION",
    "CHAINER_USE_IDEEP", "CHAINER_DEBUG", "CHAINER_TYPE_CHECK", "CHAINER_KEEP_GRAPH_ON_REPORT",
    "CHAINER_LAZY_GRAD_SUM", "CUPY_ACCELERATORS", "CUPY_TF32", "CUPY_GPU_MEMORY_LIMIT",
    # the process
    "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD", "PYTHONHASHSEED", "TRAINMARK_CHECKPOINT_SECONDS",
)  # fmt: skip
"""The environment variables that a record keeps: those that change what a framework computes, or how.

A list of what is kept, not of what is left out: environments hold keys and passwords under names that nobody can list
beforehand, and records are published.
"""

PROJECT_FILE = Path(__file__).parents[4] / "pyproject.toml"

MAX_CHARACTERS = 300
"""Of a variable's value."""

LOGINS = re.compile(r"\S*@")
"""The part of a word up to an "@", where an address holds its user and password: left out of a variable's value."""

FOLDERS = re.compile(r"(?<![^\s:=,;'\"])/(?:[^/\s:=,;'\"]*/)*")
"""The folders of an absolute path in a variable's value, to be left out; MIG-GPU-.../1/0 is none."""

SCHEDULERS = (
    # name, variables whose values are the job's id, variables of which one has to be set too
    ("flux", ("FLUX_JOB_ID",), ()),  # first: a Flux instance often runs within another scheduler's job
    ("slurm", ("SLURM_JOB_ID",), ()),
    ("gridengine", ("JOB_ID", "SGE_TASK_ID"), ("SGE_ROOT", "SGE_TASK_ID")),  # JOB_ID alone may be anybody's
    ("pbs", ("PBS_JOBID",), ()),
    ("lsf", ("LSB_JOBID",), ()),
    ("azure-batch", ("AZ_BATCH_JOB_ID", "AZ_BATCH_TASK_ID"), ()),
    ("kubernetes", ("HOSTNAME",), (KUBERNETES_VARIABLE,)),  # the pod's name
)
"""How a job sees which scheduler started it. The first variable of an id must be set, the others may be."""


def describe_job(threads: int) -> dict:
    """Host, processor, memory, system, environment and trainmark's own version, as the record keeps them.

    threads: how many the run was given; `thread_pools` says what BLAS and OpenMP made of it, for the libraries that are
    loaded by now. No user's name, folder or secret is in it: names and hashes of the environment, and variables by a
    list (VARIABLES).
    """
    commit, clean = _git_state(Path(__file__))
    return {
        "host": platform.node(),
        "cpu_model": _cpu_model(),
        "cpu_cores": psutil.cpu_count(logical=True),
        "cpu_physical_cores": psutil.cpu_count(logical=False),
        "cpus": allowed_cpus(),
        "threads": threads,
        "thread_pools": thread_pools(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 2),
        "load_1min": round(os.getloadavg()[0], 2),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "trainmark": _version(),
        "git_commit": commit,
        "git_clean": clean,
        "environment": _environment(),
        "variables": _variables(),
        "scheduler": _scheduler(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def boot_id() -> str | None:
    """UUID of the machine's present boot; None where there is none. Monotonic times of one boot can be compared."""
    try:
        return BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def _cpu_model() -> str:
    """The processor's name as the kernel gives it, or the architecture's where it gives none."""
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def thread_pools() -> list[dict]:
    """Threads of the BLAS and OpenMP libraries that this process has loaded by now, an entry for each copy of one."""
    pools = [
        {"library": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
        for pool in threadpoolctl.threadpool_info()
    ]
    return sorted(pools, key=lambda pool: (pool["library"], pool["version"] or "", pool["threads"]))


def _version() -> str:
    """The version of trainmark, from pyproject.toml."""
    with open(PROJECT_FILE, "rb") as file:
        version: str = tomllib.load(file)["project"]["version"]
    return version


def _git_state(file: Path) -> tuple[str | None, bool | None]:
    """(commit, clean) of the working copy that `file` lies in; (None, None) outside git.

    Clean as `git describe --dirty` means it: no tracked file differs from the commit; files that git does not track are
    not looked at. A working copy that does not track `file` itself is another project's, and says nothing.
    """
    tracked = _git("ls-files", "--error-unmatch", file.name, folder=file.parent)
    status = _git("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "-uno", folder=file.parent) or ""
    commit = re.search(r"^# branch\.oid ([0-9a-f]+)$", status, re.MULTILINE)
    if not tracked or commit is None:
        return None, None
    return commit[1], all(line.startswith("#") for line in status.splitlines())


def _git(*arguments: str, folder: Path) -> str | None:
    """What git answers in `folder`; None where it fails. It takes no lock: somebody may be committing right now."""
    variables = {name: value for name, value in os.environ.items() if name not in GIT_VARIABLES}
    # In a container the working copy often belongs to another user, which git refuses unless it is called safe. To look
    # at it adds no danger: the code that is running lies in it.
    options = ("--no-optional-locks", "-c", "safe.directory=*")
    try:
        return subprocess.run(
            ["git", *options, *arguments],
            cwd=folder, env=variables, capture_output=True, text=True, timeout=60, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None


def _environment() -> dict:
    """What the packages are installed in, how many they are, and a hash of their names and versions.

    The hash is the SHA-256 of the lines "name==version", in lower case, sorted, each ended by a newline.
    """
    packages = _packages()
    lines = "".join(sorted(f"{name}=={version}\n".lower() for name, version in packages.items()))
    return {
        **_installation(),
        "packages": len(packages),
        "packages_sha256": hashlib.sha256(lines.encode()).hexdigest(),
    }


def _installation() -> dict:
    """Kind, short name and image digest. A container may hold a conda environment: its kind is container then."""
    prefix = Path(sys.prefix)
    variables = (*IMAGE_VARIABLES, KUBERNETES_VARIABLE)
    if DOCKER_FILE.exists() or PODMAN_FILE.exists() or any(map(os.environ.get, variables)):
        name, digest = _image()
        return {"kind": "container", "name": name, "image_digest": digest}
    if (prefix / "conda-meta").is_dir():
        return {"kind": "conda", "name": prefix.name, "image_digest": None}
    if sys.prefix != sys.base_prefix:
        return {"kind": "venv", "name": prefix.name, "image_digest": None}
    return {"kind": "system", "name": None, "image_digest": None}


def _image() -> tuple[str | None, str | None]:
    """(name, SHA-256) of the container's image, each None where the container does not tell.

    An image is never read to hash it: it has many GiB. Its hash is known where its name or Podman's file holds it.
    """
    try:
        told = dict(re.findall(r'^(\w+)="(.*)"$', PODMAN_FILE.read_text(), re.MULTILINE))
    except OSError:
        told = {}
    reference = next(filter(None, map(os.environ.get, IMAGE_VARIABLES)), told.get("image", ""))
    short_name = reference.rstrip("/").rsplit("/", 1)[-1]
    # Names may hold it: NAME@sha256:..., and sha256.... in Apptainer's cache. Podman tells the image's id besides.
    digest = re.search(r"sha256[.:_-]([0-9a-f]{64})\b", f"{short_name} sha256:{told.get('imageid', '')}")
    return short_name.split("@")[0] or None, digest[1] if digest else None


def _packages() -> dict[str, str]:
    """Version by name of every installed package; of two with one name, the one that is imported.

    The two lines are read from the head of its metadata: parsing all of it takes ten times as long. A folder without
    both lines is the rest of a package that was removed.
    """
    versions: dict[str, str] = {}
    for text in _metadata():
        name = re.search(r"^Name:[ \t]*(\S+)", text, re.MULTILINE)
        version = re.search(r"^Version:[ \t]*(\S+)", text, re.MULTILINE)
        if name and version:
            versions.setdefault(name[1].lower(), version[1])
    return versions


def _metadata() -> Iterator[str]:
    for distribution in distributions():
        try:
            yield next(filter(None, map(distribution.read_text, ("METADATA", "PKG-INFO", ""))), "")
        except (OSError, UnicodeDecodeError):
            continue


def _variables() -> dict[str, str]:
    """Those of VARIABLES that are set, without logins and the folders of paths, and cut at MAX_CHARACTERS."""
    return {name: _public(name, os.environ[name])[:MAX_CHARACTERS] for name in VARIABLES if name in os.environ}


def _public(name: str, value: str) -> str:
    if name.endswith("_DIR"):
        return "(a folder)" if value else ""
    if name == "LD_PRELOAD":  # a list of files: paths that are not absolute count as well
        return ":".join(Path(file).name for file in re.split(r"[\s:]+", value) if file)
    return FOLDERS.sub("", LOGINS.sub("", value))


def _scheduler() -> dict | None:
    """Name of the scheduler that runs this job and the job's id, its parts joined by dots; None where there is none."""
    for name, id_variables, required in SCHEDULERS:
        parts = [os.environ.get(variable, "") for variable in id_variables]
        if parts[0] and (not required or any(map(os.environ.get, required))):
            # Grid Engine's task id is "undefined" in a job that is no array.
            return {"name": name, "job_id": ".".join(part for part in parts if part not in ("", "undefined"))}
    return None
