"""The memory of this process, and the watch that reports when it exceeds a limit."""

import mmap
import resource
import threading

import psutil
import pytest

from trainmark.machine import cpus, memory
from trainmark.machine.memory import available_mib, memory_watch, peak_host_mib, resident_mib

WAIT_SECONDS = 60
"""Longer than even a busy machine needs; only a failing test waits this long."""


def touched(mib: int) -> mmap.mmap:
    """Allocate new memory and write to each page, so that it is resident. An array could get reused memory."""
    block = mmap.mmap(-1, mib << 20)
    block[:: resource.getpagesize()] = b"\1" * len(range(0, len(block), resource.getpagesize()))
    return block


def watches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "memory"]


def test_the_sizes_are_in_mib_and_the_peak_stays_and_reserved_memory_does_not_count():
    before = resident_mib()
    reserved, block = mmap.mmap(-1, 256 << 20), touched(64)
    resident = resident_mib()
    assert 60 <= resident - before <= 72
    reserved.close()
    del block
    peak = peak_host_mib()
    assert resident - 4 <= peak < psutil.virtual_memory().total / 2**20, "the kernel's two counts differ a little"


STATUS = "Name:\tpython\nVmPeak:\t 9999 kB\nVmHWM:\t    1748 kB\nVmRSS:\t 1000 kB\n"


@pytest.mark.parametrize(("text", "mib"), [(STATUS, 1748 / 1024), ("Name:\tpython\n", 3.0)])
def test_the_peak_is_that_of_the_kernels_status_file_or_of_getrusage(tmp_path, monkeypatch, text, mib):
    monkeypatch.setattr(memory, "STATUS", tmp_path / "status")
    (tmp_path / "status").write_text(text)
    monkeypatch.setattr(resource, "getrusage", lambda who: resource.struct_rusage([0.0, 0.0, 3072] + [0] * 13))
    assert peak_host_mib() == mib


LIMIT = {"job/memory.max": "104857600", "job/memory.current": "62914560"}
CACHE = {"memory.max": "73400320", "memory.current": "62914560", "memory.stat": "inactive_file 10485760\n"}


@pytest.mark.parametrize(
    ("files", "mib"), [(LIMIT, 40), (LIMIT | CACHE, 20), (LIMIT | {"job/memory.max": "max"}, None)]
)
def test_control_groups_limit_the_available_memory(tmp_path, monkeypatch, files, mib):
    monkeypatch.setattr(cpus, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(cpus, "CGROUP_ROOT", tmp_path / "groups")
    (tmp_path / "cgroup").write_text("0::/job")
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert available_mib() == mib if mib else available_mib() > 100


def test_a_slurm_job_and_the_address_space_limit_the_available_memory(monkeypatch):
    monkeypatch.setenv("SLURM_MEM_PER_NODE", str(int(resident_mib()) + 50))
    assert 0 < available_mib() <= 51
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "0")  # the whole node
    assert available_mib() > 100
    monkeypatch.setattr(resource, "getrlimit", lambda what: (psutil.Process().memory_info().vms + 20 * 2**20, -1))
    assert 0 < available_mib() <= 21


def test_exceeding_the_limit_is_reported_once_by_the_watchs_thread():
    told, was_told = [], threading.Event()

    def on_excess(mib):
        told.append((mib, threading.current_thread().name))
        was_told.set()

    limit_mib = resident_mib() + 32
    with memory_watch(limit_mib, on_excess, poll_seconds=0.001):
        block = touched(64)
        assert was_told.wait(WAIT_SECONDS)
        for one in watches():
            one.join(WAIT_SECONDS)
            assert not one.is_alive(), "it has called, and looks no more"
    assert len(told) == 1
    assert told[0][0] > limit_mib and told[0][1] == "memory"
    del block


def test_no_thread_is_left_after_the_watch():
    with memory_watch(None, pytest.fail):
        assert watches() == [], "without a limit there is none"
    with pytest.raises(ZeroDivisionError), memory_watch(resident_mib() + 2**20, pytest.fail, WAIT_SECONDS):
        assert [thread.daemon for thread in watches()] == [True], "a process that ends waits for no watch"
        raise ZeroDivisionError
    assert watches() == []
