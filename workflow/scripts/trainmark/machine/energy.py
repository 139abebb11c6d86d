"""The energy that a run takes: of its one GPU, or of its CPUs where nothing but the run is counted."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.machine import nvml

POWERCAP = Path("/sys/class/powercap")
"""Where Linux shows the counters of RAPL (Running Average Power Limit) of Intel's and AMD's processors."""

CPUS = Path("/sys/devices/system/cpu")

POLL_SECONDS = 20.0
"""How often a CPU's counter is read besides: it wraps, the smallest range (65 kJ) within three minutes at 400 W."""

MAX_PACKAGE_WATTS = 1000.0
"""More than any package takes: tells how long a counter may go unread before it may have wrapped unseen."""


class _NotMeasured(Exception):
    """Its text says why the energy is not measured."""


class Meter:
    """Joules since it was opened, and where they are read.

    source: "nvml" (one GPU), "rapl" (whole CPU packages) or None; reason: where None, why it is not measured.
    """

    def __init__(
        self, source: str | None, read: Callable[[], float] | None, reason: str | None, close: Callable[[], None]
    ) -> None:
        self.source = source
        self.reason = reason
        self._read = read
        self._close = close

    def joules(self) -> float | None:
        """Joules since the meter was opened: it only grows. None where it is not measured, or no longer: see reason."""
        if self._read is None:
            return None
        try:
            return self._read()
        except _NotMeasured as error:
            self.source, self.reason, self._read = None, str(error), None
            return None

    def close(self) -> None:
        """Stop the thread that reads a CPU's counter now and then. The process's end does so too."""
        self._close()


def open_meter(device: str, cpus: Sequence[int], gpu_uuid: str | None) -> Meter:
    """A meter for a run on `device` ("cpu" or "gpu") that holds the CPUs with these numbers, or the GPU with this UUID.

    gpu: that one GPU's own counter, of the whole board; not the other GPUs of the host.
    cpu: the counters of the CPU packages that the run's CPUs lie on. They count whole packages, so it is measured only
    where the run holds every online CPU of them. What other processes do on these CPUs is counted; main memory (DRAM)
    is not: few machines count it.
    """
    try:
        if device == "gpu":
            return Meter("nvml", _gpu_reader(gpu_uuid), None, _nothing)
        packages = _Packages([_Counter.of(zone) for zone in _zones_of(set(cpus))])
        return Meter("rapl", packages.joules, None, packages.close)
    except _NotMeasured as error:
        return Meter(None, None, str(error), _nothing)


def _nothing() -> None:
    """What closing a meter does that has no thread."""


# --- GPU: NVML's counter of one GPU -------------------------------------------------------------------------------


def _gpu_reader(uuid: str | None) -> Callable[[], float]:
    """A function that gives the joules since now. Raises _NotMeasured, and so does the function."""
    if uuid is None:
        raise _NotMeasured("the UUID of the run's GPU is not known")
    if nvml.is_instance(uuid):
        raise _NotMeasured("the run holds an instance of a GPU (MIG), and the counter counts the whole GPU")
    start = _gpu_joules(uuid)
    return lambda: _gpu_joules(uuid) - start


def _gpu_joules(uuid: str) -> float:
    if (joules := nvml.energy_joules(uuid)) is None:
        raise _NotMeasured(nvml.describe(uuid).get("reason", "this GPU shows no energy counter"))
    return joules


# --- CPU: RAPL's counters of the packages -------------------------------------------------------------------------


def _zones_of(cpus: set[int]) -> list[Path]:
    """Folders of the counters that count the packages of these CPUs and nothing else; else raises _NotMeasured."""
    zones = _package_zones()
    if not zones:
        raise _NotMeasured("this machine shows no energy counter")
    packages = {package: dies for package, dies in _topology().items() if cpus & set().union(*dies.values())}
    if not packages:
        raise _NotMeasured("this machine does not tell which CPUs its energy counter counts")
    counted = set().union(*(members for dies in packages.values() for members in dies.values()))
    if not counted <= cpus:
        raise _NotMeasured(f"the run holds {len(counted & cpus)} of the {len(counted)} CPUs that the counter counts")
    chosen = [_zones_of_package(package, set(dies), zones) for package, dies in sorted(packages.items())]
    return [zone for package_zones in chosen for zone in package_zones]


def _zones_of_package(package: int, dies: set[int], zones: dict[tuple[int, int | None], Path]) -> list[Path]:
    """The counter of the whole package, or those of all its dies; raises _NotMeasured where one is missing."""
    wanted = [(package, None)] if (package, None) in zones else [(package, die) for die in sorted(dies)]
    if not all(key in zones for key in wanted):
        raise _NotMeasured(f"this machine shows no energy counter for all of package {package}")
    return [zones[key] for key in wanted]


def _package_zones() -> dict[tuple[int, int | None], Path]:
    """Folder by (package, die or None) of every package's counter.

    Left out are the parts of a package (core, uncore), which its counter holds already; the platform's (psys); DRAM's;
    and intel-rapl-mmio, which shows the same package a second time.
    """
    zones = {}
    for folder in sorted(POWERCAP.glob("intel-rapl:*")):
        try:
            name = (folder / "name").read_text().strip()
        except OSError:  # hidden from a container
            continue
        if found := re.fullmatch(r"package-(\d+)(?:-die-(\d+))?", name):
            zones[int(found[1]), int(found[2]) if found[2] else None] = folder
    return zones


def _topology() -> dict[int, dict[int, set[int]]]:
    """Online CPUs by package and die. A CPU that is offline has no topology."""
    packages: dict[int, dict[int, set[int]]] = {}
    for folder in CPUS.glob("cpu[0-9]*/topology"):
        package, die = (_number(folder / name) for name in ("physical_package_id", "die_id"))
        if package is not None:
            dies = packages.setdefault(package, {})
            dies.setdefault(die or 0, set()).add(int(folder.parent.name.removeprefix("cpu")))
    return packages


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except OSError:
        return None


def _microjoules(file: Path) -> int:
    try:
        return int(file.read_text())
    except PermissionError as error:
        raise _NotMeasured(f"the CPU's counter can't be read (needs permission on {POWERCAP})") from error
    except OSError as error:
        raise _NotMeasured(f"the CPU's counter can't be read ({error.strerror})") from error


@dataclass
class _Counter:
    """One counter of microjoules that begins again at 0 after `range_uj`. seconds: when it was read last."""

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
        """Microjoules since the counter was opened. Raises _NotMeasured where it may have wrapped more than once."""
        now_uj, now_seconds = _microjoules(self.file), time.monotonic()
        if (now_seconds - self.seconds) * MAX_PACKAGE_WATTS * 1e6 > self.range_uj:
            raise _NotMeasured("the CPU's counter went unread for so long that it may have wrapped unseen")
        step_uj = now_uj - self.last_uj
        self.total_uj += step_uj if step_uj >= 0 else step_uj + self.range_uj
        self.last_uj, self.seconds = now_uj, now_seconds
        return self.total_uj


class _Packages:
    """The sum of some counters, and the thread that reads them often enough to see each wrap."""

    def __init__(self, counters: list[_Counter]) -> None:
        self._counters = counters
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._poll, name="energy", daemon=True).start()

    def joules(self) -> float:
        with self._lock:
            return sum(counter.advance() for counter in self._counters) / 1e6

    def close(self) -> None:
        self._closed.set()

    def _poll(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            try:
                self.joules()
            except _NotMeasured:  # whoever reads next is told, or still reads in time
                return
