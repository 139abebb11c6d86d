"""Where and with what a run was made, read inside the job itself."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import psutil

import trainmark


def _cpu_model() -> str:
    """The processor's name as the kernel gives it, or the architecture's where it gives none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _git_commit() -> str | None:
    """Commit of the working copy that the library lies in, "+changes" when it is not clean; None outside git."""
    folder = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"],
            cwd=folder, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return commit.stdout.strip()


def describe_host(threads: int) -> dict:
    """Host, processor, memory, system and trainmark's own version, as the record keeps them."""
    return {
        "host": platform.node(),
        "cpu_model": _cpu_model(),
        "cpu_cores": psutil.cpu_count(logical=True),
        "threads": threads,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 2),
        "load_1min": round(os.getloadavg()[0], 2),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "trainmark": trainmark.__version__,
        "git_commit": _git_commit(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
