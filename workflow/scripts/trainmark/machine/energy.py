"""The energy of a run: of its GPU, or of the machine's CPU packages if the run holds all CPUs."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from trainmark.machine import nvml
from trainmark.machine.cpus import read_kernel_file

POWERCAP = Path("/sys/class/powercap")
"""Folder of the RAPL counters (Running Average Power Limit) of Intel and AMD processors on Linux. Since Linux 5.10 root
alone may read them, unless the administrator lets others."""

POLL_SECONDS = 20.0
"""Interval of extra reads of the CPU counters, which wrap: the smallest range (65 kJ) in three minutes at 400 W."""

NVML_STEP_SECONDS = 0.1
"""Time between two steps of NVML's counter. It is updated every 0.02 to 0.1 s (PETSc's manual, PetscLogGpuEnergyMeter).
The power sensors of A100 and H100 give a value every 0.1 s (Yang, Adamek, Armour: "Part-time Power Measurements",
arXiv 2312.02741)."""

MAX_ERROR = 0.05
"""Largest error of an energy by the steps of its counter, as a share of the time measured. It is also the accuracy that
NVIDIA states for its power readings (NVML's manual, nvmlDeviceGetPowerUsage)."""

MAX_PACKAGE_WATTS = 1000.0
"""More than any package uses. Gives how long a counter may go unread before it could have wrapped unnoticed."""


class _NotMeasured(Exception):
    """The energy is not measured. The message is the reason."""


class Meter:
    """Measures the energy in joules since the meter was opened.

    source: "nvml" (one GPU), "rapl" (whole CPU packages), or None if the energy is not measured.
    reason: why it is not measured; None if it is.
    """

    def __init__(self, source: str | None, read: Callable[[], float] | None, reason: str | None) -> None:
        self.source = source
        self.reason = reason
        self._read = read

    def too_coarse(self, parts: int, seconds: float) -> str | None:
        """Return why the counter is too coarse for the energy of these parts; None if it is fine enough.

        It is read before and after each part, whose energy may be wrong by that of one step. RAPL's counters, which
        step by 0.001 s, are not judged.

        parts, seconds: number of the parts, and their time together.
        """
        if self.source != "nvml" or parts * NVML_STEP_SECONDS <= MAX_ERROR * seconds:
            return None
        return (
            f"the GPU's energy counter steps by {NVML_STEP_SECONDS:g} s, too coarse for a training of less than "
            f"{NVML_STEP_SECONDS / MAX_ERROR:g} s between two evaluations"
        )

    def joules(self) -> float | None:
        """Return the joules since the meter was opened; None if not, or no longer, measured (see `reason`)."""
        if self._read is None:
            return None
        try:
            return self._read()
        except _NotMeasured as error:
            self.source, self.reason, self._read = None, str(error), None
            return None


def open_meter(device: str, cpus: Sequence[int], gpu_uuid: str | None) -> Meter:
    """Open the energy meter of a run.

    On "gpu" it reads the counter of the run's own GPU, for the whole board. On "cpu" it reads the counters of all CPU
    packages, so the energy is only measured if the run holds every CPU of the machine. Work of other processes on these
    CPUs is included. Main memory (DRAM) is not, since few machines count it.

    device: "cpu" or "gpu".
    cpus: numbers of the CPUs that the run holds.
    gpu_uuid: UUID of the GPU that the run holds, if known.
    """
    try:
        if device == "gpu":
            return Meter("nvml", _gpu_reader(gpu_uuid), None)
        return Meter("rapl", _cpu_reader(len(cpus)), None)
    except _NotMeasured as error:
        return Meter(None, None, str(error))


def _gpu_reader(uuid: str | None) -> Callable[[], float]:
    """Return a function that returns the joules since this call. Both may raise _NotMeasured."""
    if uuid is None:
        raise _NotMeasured("the UUID of the run's GPU is unknown")
    if nvml.is_instance(uuid):
        raise _NotMeasured("the run holds an instance of a GPU (MIG), and the counter counts the whole GPU")
    start = _gpu_joules(uuid)
    return lambda: _gpu_joules(uuid) - start


def _gpu_joules(uuid: str) -> float:
    if (joules := nvml.energy_joules(uuid)) is None:
        raise _NotMeasured(nvml.describe(uuid).get("reason", "this GPU has no energy counter"))
    return joules


def _cpu_reader(held: int) -> Callable[[], float]:
    """Return a function that returns the joules since this call. Both may raise _NotMeasured.

    A thread, which ends with the process, calls it often enough to notice each wrap of a counter.

    held: number of CPUs that the run holds.
    """
    # Omitted are parts of a package (core, uncore), the platform (psys), and DRAM.
    zones = [zone for zone in POWERCAP.glob("intel-rapl:*") if read_kernel_file(zone / "name").startswith("package-")]
    if not zones:
        raise _NotMeasured("this machine has no energy counter")
    if held < (online := os.cpu_count() or 1):
        raise _NotMeasured(f"the run holds {held} of the {online} CPUs that the counter covers")
    ranges = [_microjoules(zone / "max_energy_range_uj") for zone in zones]  # a counter wraps to 0 after it
    before, seconds = [_microjoules(zone / "energy_uj") for zone in zones], time.monotonic()
    total, lock = 0, threading.Lock()

    def joules() -> float:
        nonlocal before, seconds, total
        with lock:
            now, now_seconds = [_microjoules(zone / "energy_uj") for zone in zones], time.monotonic()
            if (now_seconds - seconds) * MAX_PACKAGE_WATTS * 1e6 > min(ranges):
                raise _NotMeasured("the CPU's counter went unread for so long that it may have wrapped unnoticed")
            total += sum((new - old) % size for new, old, size in zip(now, before, ranges, strict=True))
            before, seconds = now, now_seconds
            return total / 1e6

    def poll() -> None:
        with suppress(_NotMeasured):  # the next reading raises it again, unless it is still in time
            while True:
                time.sleep(POLL_SECONDS)
                joules()

    threading.Thread(target=poll, name="energy", daemon=True).start()
    return joules


def _microjoules(file: Path) -> int:
    try:
        return int(file.read_text())
    except OSError as error:
        raise _NotMeasured(f"the CPU's counter can't be read ({error.strerror}): {POWERCAP}") from error
