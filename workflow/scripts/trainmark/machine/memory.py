"""The memory of this process: its peak, its current size, and a watch that reports when it exceeds a limit."""

import os
import re
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from trainmark.machine.cpus import control_groups, read_kernel_file

STATUS = Path("/proc/self/status")
MAXRSS_MIB = 2**-20 if sys.platform == "darwin" else 2**-10
"""The unit of getrusage's ru_maxrss: bytes on macOS, KiB on Linux."""


def peak_host_mib() -> float:
    """Return the peak resident size of this process, in MiB.

    Reads VmHWM of /proc/self/status if it exists. ru_maxrss of getrusage can be too large: it survives exec, so it may
    be the peak of the program that started this one.
    """
    peak = re.search(r"^VmHWM:\s*(\d+) kB", read_kernel_file(STATUS), re.MULTILINE)
    return int(peak[1]) / 1024 if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_MIB


def peak_children_mib() -> float:
    """Return the peak resident size of the largest child process that has ended and was waited for, in MiB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * MAXRSS_MIB


def resident_mib() -> float:
    """Return the current resident size of this process, in MiB."""
    return psutil.Process().memory_info().rss / 2**20


def available_mib() -> float:
    """Return how much memory this process can still take, in MiB: what machine, limits and control groups leave.

    File caches that the kernel can drop count as available (MemAvailable of the machine, inactive_file of a group).
    The limits are those of the address space (Grid Engine's h_vmem sets it) and of a Slurm job without control groups.
    """
    used, rooms = psutil.Process().memory_info(), [float(psutil.virtual_memory().available)]
    if (address_space := resource.getrlimit(resource.RLIMIT_AS)[0]) != resource.RLIM_INFINITY:
        rooms.append(float(address_space - used.vms))
    job_mib = os.environ.get("SLURM_MEM_PER_NODE", "")
    if job_mib.isdecimal() and int(job_mib):  # 0: the whole node
        rooms.append(int(job_mib) * 2**20 - used.rss)
    for folder in control_groups():
        limit, usage = (read_kernel_file(folder / name) for name in ("memory.max", "memory.current"))
        if limit.isdecimal() and usage.isdecimal():  # "max": no limit
            cache = re.search(r"^inactive_file (\d+)", read_kernel_file(folder / "memory.stat"), re.MULTILINE)
            rooms.append(float(int(limit) - int(usage) + int(cache[1] if cache else 0)))
    return min(rooms) / 2**20


@contextmanager
def memory_watch(
    limit_mib: float | None, on_excess: Callable[[float], None], poll_seconds: float = 0.02
) -> Iterator[None]:
    """Call a function once if the resident size exceeds a limit while the body runs.

    limit_mib: the limit; None to watch nothing.
    on_excess: called with the resident size in MiB, from the watch's own thread.
    poll_seconds: time between two looks at the resident size.

    Memory counts when it is touched, not when it is reserved. If it grows quickly, or while Python's global lock is
    held, it can exceed the limit before the watch notices. The system's own limits (RLIMIT_AS, RLIMIT_DATA) are no
    alternative: frameworks reserve address space that they never touch, and C++ code whose allocation fails ends the
    process without a record.
    """

    if limit_mib is None:
        yield
        return
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            if (now_mib := resident_mib()) > limit_mib:
                on_excess(now_mib)
                return
            stop.wait(poll_seconds)

    thread = threading.Thread(target=watch, name="memory", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
