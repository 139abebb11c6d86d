"""The provenance of a run: host, environment, code version and scheduler, read inside the job."""

import hashlib
import os
import platform
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

import psutil
import threadpoolctl

from trainmark.errors import IMAGE_VARIABLE, HangError
from trainmark.machine.cpus import allowed_cpus, cpu_model, read_kernel_file
from trainmark.machine.git import git
from trainmark.machine.locks import DeviceLock
from trainmark.machine.variables import PLACES, SECRET, WITHHELD, is_read, settings_in

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""File with a UUID that Linux generates at each boot."""

CONTAINER_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""Files of which each container of Docker, or of Podman, has one."""

IMAGE_VARIABLES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
"""Variables with the path of the image, in a container of Apptainer or Singularity."""

FILE_LISTS = ("DYLD_INSERT_LIBRARIES", "LD_AUDIT", "LD_PRELOAD")
"""Variables with several files, of which a record holds the names."""

KUBERNETES_VARIABLE = "KUBERNETES_SERVICE_HOST"

PROJECT_FILE = Path(__file__).parents[4] / "pyproject.toml"

MAX_CHARACTERS = 300
"""Maximum length of a variable's value; longer ones are cut, and end with a digest."""

LOGINS = re.compile(r"\S*@|(?<=\S)\?\S*")
"""The parts of a word up to an "@" and from a "?" on, where an address has secrets. They are removed from a value."""

FOLDERS = re.compile(r"(?<![^\s:=,;'\"])/(?:[^/\s:=,;'\"]*/)*")
"""The folders of an absolute path, which are removed from a variable's value. MIG-GPU-.../1/0 does not match."""


def describe_job(threads: int) -> dict:
    """Return host, processor, memory, system, environment and version of trainmark, as the record holds them.

    It contains no user names, folders or secrets: of the environment only names and digests, and the variables that
    begin as READ says.

    threads: number of threads that the run uses.
    """
    commit, clean = _git_state(Path(__file__))
    return {
        "host": platform.node(),
        "cpu_model": cpu_model(),
        "cpu_cores": psutil.cpu_count(logical=True),
        "cpu_physical_cores": psutil.cpu_count(logical=False),
        "cpus": allowed_cpus(),
        "threads": threads,
        "thread_pools": thread_pools(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 2),
        "load_1min": round(os.getloadavg()[0], 2),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "trainmark": tomllib.loads(PROJECT_FILE.read_text())["project"]["version"],
        "git_commit": commit,
        "git_clean": clean,
        "environment": _installation() | digest_of_packages(installed_packages()),
        "variables": variables(),
        "scheduler": _scheduler(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_session(provenance: Mapping, device_lock: DeviceLock) -> dict:
    """Return where and with which settings of libraries this process runs, and the CPUs and GPU that it has held."""
    return {
        **{key: provenance[key] for key in ("host", "started", "cpu_model")},
        "boot_id": boot_id(),
        "held_seconds": [device_lock.held_from, time.monotonic()],
        "cpus": list(device_lock.cpus),
        "gpu": device_lock.gpu,
        "settings": settings_in(provenance["variables"]),
    }


def boot_id() -> str | None:
    """Return the UUID of the machine's current boot, or None. Monotonic times are comparable within one boot."""
    return read_kernel_file(BOOT_ID) or None


def thread_pools() -> list[dict]:
    """Return library, version and threads of each copy of a BLAS or OpenMP library that this process has loaded."""
    pools = [
        {"library": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
        for pool in threadpoolctl.threadpool_info()
    ]
    return sorted(pools, key=lambda pool: (pool["library"], pool["version"] or "", pool["threads"]))


def _git_state(file: Path) -> tuple[str | None, bool | None]:
    """Return (commit, clean) of the working copy that contains `file`; (None, None) outside git.

    Clean means, as in `git describe --dirty`, that no tracked file differs from the commit; untracked files are
    ignored. A working copy that does not track `file` belongs to another project and also gives (None, None).
    """
    tracked = _git("ls-files", "--error-unmatch", file.name, folder=file.parent)
    status = _git("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "-uno", folder=file.parent) or ""
    commit = re.search(r"^# branch\.oid ([0-9a-f]+)$", status, re.MULTILINE)
    if not tracked or commit is None:
        return None, None
    return commit[1], all(line.startswith("#") for line in status.splitlines())


def _git(*arguments: str, folder: Path) -> str | None:
    """Return the output of a git command, or None if it fails."""
    try:
        return git(*arguments, folder=folder).decode(errors="replace")
    except (OSError, subprocess.SubprocessError, HangError):
        return None


def digest_of_packages(packages: Mapping[str, str]) -> dict:
    """Return the number of packages, and a digest of their names and versions, as the record holds them.

    The digest is the SHA-256 of the lines "name==version", in lower case, sorted, each with a newline at its end.
    """
    lines = "".join(sorted(f"{name}=={version}\n".lower() for name, version in packages.items()))
    return {"packages": len(packages), "packages_sha256": hashlib.sha256(lines.encode()).hexdigest()}


def _installation() -> dict:
    """Return kind, short name and image digest. A conda environment in a container is of the kind container."""
    prefix = Path(sys.prefix)
    image = next(filter(None, map(os.environ.get, IMAGE_VARIABLES)), "")
    if image or KUBERNETES_VARIABLE in os.environ or any(file.exists() for file in CONTAINER_FILES):
        name = os.environ.get(IMAGE_VARIABLE + Path(image).stem, image).rstrip("/").rpartition("/")[2]
        # Names may hold it, since the image itself has many GiB: NAME@sha256:..., and sha256.... in Apptainer's cache.
        digest = re.search(r"sha256[.:_-]([0-9a-f]{64})\b", name)
        return {"kind": "container", "name": name.split("@")[0] or None, "image_digest": digest and digest[1]}
    if (prefix / "conda-meta").is_dir():
        return {"kind": "conda", "name": prefix.name, "image_digest": None}
    if sys.prefix != sys.base_prefix:
        return {"kind": "venv", "name": prefix.name, "image_digest": None}
    return {"kind": "system", "name": None, "image_digest": None}


def installed_packages() -> dict[str, str]:
    """Return the version of every installed package by name. Of two with one name, the one that is imported counts."""
    versions: dict[str, str] = {}
    for metadata in (distribution.metadata for distribution in distributions()):
        if "Name" in metadata and "Version" in metadata:  # else it is left over from a removed package
            versions.setdefault(metadata["Name"].lower(), metadata["Version"])
    return versions


def variables() -> dict[str, str]:
    """Return the variables that libraries read (READ), by name, without secrets, logins and the folders of paths."""
    return {name: _public(name, os.environ[name]) for name in sorted(os.environ) if is_read(name)}


def _public(name: str, value: str) -> str:
    """Return what a record holds of the value of a variable."""
    if WITHHELD.search(name) or SECRET.search(value):
        return value and "(withheld)"
    if PLACES.search(name):
        return value and "(a folder)"
    if name in FILE_LISTS:  # whose paths may be relative
        return ":".join(Path(file).name for file in re.split(r"[\s:]+", value) if file)
    if name.endswith("XLA_FLAGS") and not value.startswith("-"):  # XLA reads the flags from a file of this name
        with suppress(OSError):
            value = " ".join(Path(value).read_text(errors="replace").split())
    public = FOLDERS.sub("", LOGINS.sub("", value))
    if len(public) <= MAX_CHARACTERS:
        return public
    return f"{public[:MAX_CHARACTERS]}... (SHA-256 {hashlib.sha256(os.fsencode(public)).hexdigest()[:8]})"


def _scheduler() -> dict | None:
    """Return the name of the scheduler that runs this job, and the job's id; or None."""
    if job_id := os.environ.get("SLURM_JOB_ID"):
        return {"name": "slurm", "job_id": job_id}
    job_id, task_id = os.environ.get("JOB_ID"), os.environ.get("SGE_TASK_ID", "")
    if job_id and (task_id or os.environ.get("SGE_ROOT")):  # other programs set JOB_ID, too
        of_array = task_id not in ("", "undefined")
        return {"name": "gridengine", "job_id": f"{job_id}.{task_id}" if of_array else job_id}
    return None
