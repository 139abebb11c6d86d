"""Measures what a run's CPUs or GPU can do: the peak of the matrix product, and the bandwidth of the memory.

The product is the framework's own. The bandwidth is that of STREAM's add, a = b + c (McCalpin 1995, Memory bandwidth
and machine balance in current high performance computers): 3 arrays are read or written once.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path

import numpy as np

from trainmark.errors import DataError, MeasurementError
from trainmark.frameworks.adapter import Adapter
from trainmark.machine.disturbance import disturbance
from trainmark.machine.memory import available_mib, resident_mib
from trainmark.machine.ranks import ALONE, Ranks
from trainmark.machine.watch import Watch
from trainmark.recipes.recipe import DTYPE
from trainmark.records.peaks import peak_file, read_peak, write_peak

SIDE, LARGEST_SIDE = 1024, 8192
"""Rows of the square matrices. They are doubled until a product takes LEAST_PRODUCT_SECONDS: 1024 is enough for a few
CPUs, and would leave a GPU or many CPUs partly idle."""

LEAST_PRODUCT_SECONDS = 0.01

CPU_ARRAY_BYTES = 64 * 2**20
"""Size of each of the three arrays on the CPU, together six times the 32 MiB of cache that the cores of an AMD EPYC
share by eights. The size is fixed so that the need for memory is known, and small because the first touch of memory
takes longer than the sum. With a larger cache, a part of the bandwidth is the cache's."""

GPU_SUM_SIDE = 8192
"""Rows of the square arrays on a GPU: 256 MiB each, more than its caches."""

GPU_SUMS = 10
"""Sums after which a GPU is waited for: one takes less than a millisecond, of which waiting would be a large part."""

NEEDED_MIB = 1024
"""Memory that must be free on the host. Arrays take 512 MiB at most; frameworks and BLAS have buffers of their own."""

SECONDS = 0.1
"""Time for which an operation is repeated."""

RATES = "matrix_flops_per_second", "memory_bytes_per_second"
"""The keys of a peak that are summed over the ranks of a run."""

LEAST_REPEATS = 2
"""Least number of repeats, of which the fastest counts. The largest peak of all runs of a campaign is the machine's."""


def shared_peak(folder: Path, conditions: Mapping, measure: Callable[[], dict], ranks: Ranks = ALONE) -> dict:
    """Return the peak that another run measured under the same conditions, or else what `measure` returns.

    Several ranks measure at once, and their peak is the sum of theirs; every rank has to call it. A new peak is kept
    for other runs if nothing disturbed it. A file that was changed is not used, and replaced.

    folder: a JSON file for each set of conditions.
    conditions: all that the peak of this rank depends on, as JSON, among them the held "cpus" and "gpu" (its UUID or
        None).
    """
    others = ranks.all_values(conditions)[1:]
    of_all = dict(conditions) | ({"other_ranks": others} if others else {})
    file = peak_file(folder, of_all)
    if kept := ranks.from_first(partial(_kept, file, of_all)):
        return kept
    of_ranks = ranks.all_measured(partial(_watched, conditions, measure))
    peaks = [peak for peak, _ in of_ranks]
    peak = peaks[0] | {name: sum(one[name] for one in peaks) for name in RATES if name in peaks[0]}
    peak |= {"measured": datetime.now(UTC).isoformat(timespec="milliseconds")}
    if ranks.rank == 0 and not any(disturbed for _, disturbed in of_ranks):
        with suppress(OSError):  # a full disk: this run has its peak, and the next one measures again
            write_peak(file, of_all, peak)
    return peak


def _kept(file: Path, conditions: Mapping) -> dict | None:
    with suppress(DataError):
        kept = read_peak(file)
        if kept["conditions"] == conditions:
            return dict(kept["peak"])
    return None


def _watched(conditions: Mapping, measure: Callable[[], dict]) -> tuple[dict, bool]:
    """Return what this rank measures, and whether other work disturbed it."""
    watch = Watch(conditions["cpus"], conditions["gpu"])
    watch.begin(1)
    try:
        return measure(), bool(disturbance(watch.after(1, force=True), len(conditions["cpus"])))
    finally:
        watch.close()


def measure_peak(adapter: Adapter, device: str, threads: int, limit_mib: float | None, processes: int = 1) -> dict:
    """Measure on the device that the run holds; return the measured part of `peak`, as the record holds it.

    device: "cpu" or "gpu". threads: number of threads that the run uses.
    limit_mib: limit of the process's memory; None without one.
    processes: number of processes that measure at the same time on this host.

    Raises MeasurementError if memory is lacking, or if the adapter can't compute the operations.
    """
    free_mib = min(available_mib() / processes, (limit_mib or inf) - resident_mib())
    if free_mib < NEEDED_MIB:
        raise MeasurementError(f"it needs {NEEDED_MIB} MiB of memory, and {max(free_mib, 0):.0f} MiB are free")
    return {
        "matrix_flops_per_second": _matrix_flops_per_second(adapter),
        "memory_bytes_per_second": _gpu_bandwidth(adapter) if device == "gpu" else _cpu_bandwidth(threads),
        "threads": threads,
        "dtype": DTYPE,
    }


def _matrix_flops_per_second(adapter: Adapter) -> float:
    side, seconds = SIDE, _seconds_of(adapter, "matmul", SIDE, 1)
    while seconds < LEAST_PRODUCT_SECONDS and side < LARGEST_SIDE:
        side *= 2
        seconds = _seconds_of(adapter, "matmul", side, 1)
    return 2 * side**3 / seconds


def _seconds_of(adapter: Adapter, operation: str, side: int, times: int) -> float:
    work = adapter.matrix_operation(operation, side, times)
    if work is None:
        raise MeasurementError(f"the adapter of {adapter.framework} has no matrix_operation for this device")
    return fastest_seconds(work) / times


def _gpu_bandwidth(adapter: Adapter) -> float:
    array_bytes = GPU_SUM_SIDE**2 * np.dtype(DTYPE).itemsize
    return 3 * array_bytes / _seconds_of(adapter, "add", GPU_SUM_SIDE, GPU_SUMS)


def _cpu_bandwidth(threads: int) -> float:
    """Return the bytes per second of a sum of which each thread computes a part. numpy frees Python's lock for it."""
    size = CPU_ARRAY_BYTES // np.dtype(DTYPE).itemsize
    with ThreadPoolExecutor(threads) as pool:
        # Filled by the threads: first use takes page faults, and decides to which CPU the memory is near.
        sizes = [size * (i + 1) // threads - size * i // threads for i in range(threads)]
        parts = list(pool.map(lambda part: [np.full(part, 1, DTYPE) for _ in range(3)], sizes))

        def work() -> None:
            list(pool.map(lambda part: np.add(part[1], part[2], out=part[0]), parts))

        return 3 * CPU_ARRAY_BYTES / fastest_seconds(work)


def fastest_seconds(work: Callable[[], object]) -> float:
    """Return the least time of several calls, after a first one that may still allocate or compile."""
    work()
    seconds: list[float] = []
    while sum(seconds) < SECONDS or len(seconds) < LEAST_REPEATS:
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)
