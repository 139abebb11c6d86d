"""The energy of a run: of its GPU, or of the CPU packages if the run holds them completely."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.machine import nvml
from trainmark.machine.cpus import read_kernel_file

POWERCAP = Path("/sys/class/powercap")
"""Folder of the RAPL counters (Running Average Power Limit) of Intel and AMD processors on Linux."""

CPUS = Path("/sys/devices/system/cpu")

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

    On "gpu" it reads the counter of the run's own GPU, for the whole board. On "cpu" it reads the counters of the CPU
    packages that the run's CPUs belong to. These count whole packages, so the energy is only measured if the run holds
    every online CPU of them. Work of other processes on these CPUs is included. Main memory (DRAM) is not, since few
    machines count it.

    device: "cpu" or "gpu".
    cpus: numbers of the CPUs that the run holds.
    gpu_uuid: UUID of the GPU that the run holds, if known.
    """
    try:
        if device == "gpu":
            return Meter("nvml", _gpu_reader(gpu_uuid), None)
        return Meter("rapl", _cpu_reader(set(cpus)), None)
    except _NotMeasured as error:
        return Meter(None, None, str(error))


# --- GPU: NVML's counter of one GPU -------------------------------------------------------------------------------


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


# --- CPU: RAPL's counters of the packages -------------------------------------------------------------------------


def _zones_of(cpus: set[int]) -> list[Path]:
    """Return the folders of the counters of exactly these CPUs' packages. Raises _NotMeasured if that is impossible."""
    zones = _package_zones()
    if not zones:
        raise _NotMeasured("this machine has no energy counter")
    packages = {package: dies for package, dies in _topology().items() if cpus & set().union(*dies.values())}
    if not packages:
        raise _NotMeasured("this machine does not show which CPUs its energy counter covers")
    covered = set().union(*(members for dies in packages.values() for members in dies.values()))
    if not covered <= cpus:
        raise _NotMeasured(f"the run holds {len(covered & cpus)} of the {len(covered)} CPUs that the counter covers")
    by_package = [_zones_of_package(package, set(dies), zones) for package, dies in sorted(packages.items())]
    return [zone for package_zones in by_package for zone in package_zones]


def _zones_of_package(package: int, dies: set[int], zones: dict[tuple[int, int | None], Path]) -> list[Path]:
    """Return the counter of the whole package, or else those of all its dies. Raises _NotMeasured if one is missing."""
    keys = [(package, None)] if (package, None) in zones else [(package, die) for die in sorted(dies)]
    if not all(key in zones for key in keys):
        raise _NotMeasured(f"this machine has no energy counter for all of package {package}")
    return [zones[key] for key in keys]


def _package_zones() -> dict[tuple[int, int | None], Path]:
    """Return the folder of each package's counter, by (package, die or None).

    Omitted are parts of a package (core, uncore), which its counter includes; the platform (psys); DRAM; and
    intel-rapl-mmio, a second view of the same package.
    """
    zones = {}
    for folder in sorted(POWERCAP.glob("intel-rapl:*")):
        if match := re.fullmatch(r"package-(\d+)(?:-die-(\d+))?", read_kernel_file(folder / "name")):
            zones[int(match[1]), int(match[2]) if match[2] else None] = folder
    return zones


def _topology() -> dict[int, dict[int, set[int]]]:
    """Return the online CPUs by package and die. Offline CPUs have no topology."""
    packages: dict[int, dict[int, set[int]]] = {}
    for folder in CPUS.glob("cpu[0-9]*/topology"):
        package, die = (read_kernel_file(folder / name) for name in ("physical_package_id", "die_id"))
        if package:
            dies = packages.setdefault(int(package), {})
            dies.setdefault(int(die or 0), set()).add(int(folder.parent.name.removeprefix("cpu")))
    return packages


def _microjoules(file: Path) -> int:
    try:
        return int(file.read_text())
    except PermissionError as error:
        raise _NotMeasured(f"the CPU's counter can't be read (needs permission on {POWERCAP})") from error
    except OSError as error:
        raise _NotMeasured(f"the CPU's counter can't be read ({error.strerror})") from error


@dataclass
class _Counter:
    """One counter of microjoules, which wraps to 0 after `range_uj`.

    last_uj: its value at the last read.
    seconds: time of the last read, on the clock of `time.monotonic`.
    total_uj: microjoules counted since it was opened.
    """

    file: Path
    range_uj: int
    last_uj: int
    seconds: float = field(default_factory=time.monotonic)
    total_uj: int = 0

    @classmethod
    def of(cls, zone: Path) -> "_Counter":
        file = zone / "energy_uj"
        return cls(file, _microjoules(zone / "max_energy_range_uj"), _microjoules(file))

    def advance(self) -> int:
        """Return the microjoules since the counter was opened. Raises _NotMeasured if it may have wrapped unnoticed."""
        now_uj, now_seconds = _microjoules(self.file), time.monotonic()
        if (now_seconds - self.seconds) * MAX_PACKAGE_WATTS * 1e6 > self.range_uj:
            raise _NotMeasured("the CPU's counter went unread for so long that it may have wrapped unnoticed")
        step_uj = now_uj - self.last_uj
        self.total_uj += step_uj if step_uj >= 0 else step_uj + self.range_uj
        self.last_uj, self.seconds = now_uj, now_seconds
        return self.total_uj


def _cpu_reader(cpus: set[int]) -> Callable[[], float]:
    """Return a function that returns the joules since this call. Both may raise _NotMeasured.

    A thread, which ends with the process, calls it often enough to notice each wrap of a counter.
    """
    counters = [_Counter.of(zone) for zone in _zones_of(cpus)]
    lock = threading.Lock()

    def joules() -> float:
        with lock:
            return sum(counter.advance() for counter in counters) / 1e6

    def poll() -> None:
        with suppress(_NotMeasured):  # the next reading raises it again, unless it is still in time
            while True:
                time.sleep(POLL_SECONDS)
                joules()

    threading.Thread(target=poll, name="energy", daemon=True).start()
    return joules
