"""The energy of a run: of its GPU or of whole CPU packages; otherwise the reason why it is not measured."""

import os
import threading

import pytest

from trainmark.machine import energy
from trainmark.machine.energy import open_meter

GPU = "GPU-0a1b"

RANGE_UJ = 65_532_610_987
"""Range of the counters in the tests: the smallest one known, of Haswell servers."""


@pytest.fixture
def begun():
    """The threads of meters that have begun since: each reads until its process ends."""
    before = {*threading.enumerate()}
    return lambda: [thread for thread in {*threading.enumerate()} - before if thread.name == "energy"]


class Machine:
    """Folders like those of Linux: counters (powercap), and package and die of each CPU."""

    def __init__(self, folder):
        self.powercap, self.cpus = folder / "powercap", folder / "cpu"
        for made in (self.powercap, self.cpus / "cpufreq"):
            made.mkdir(parents=True)

    def add_zone(self, zone, name):
        """name None: it is hidden."""
        folder = self.powercap / zone
        folder.mkdir()
        if name:
            (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        self.set(zone, 0)

    def set(self, zone, microjoules):
        """In one step, as a thread may read it meanwhile."""
        part = self.powercap / zone / "part"
        part.write_text(f"{microjoules}\n")
        part.replace(part.with_name("energy_uj"))

    def make(self, cpus, names):
        """Add CPUs, of each its package (None: it is offline) and its die, and counters with these names, at 0 J."""
        for number, (package, die) in enumerate(cpus):
            topology = self.cpus / f"cpu{number}" / "topology"
            topology.mkdir(parents=True)
            for file, value in (("physical_package_id", package), ("die_id", die)):
                if value is not None:
                    (topology / file).write_text(f"{value}\n")
        for number, name in enumerate(names):
            self.add_zone(f"intel-rapl:{number}", name)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine to which a test adds CPUs and counters."""
    found = Machine(tmp_path)
    monkeypatch.setattr(energy, "POWERCAP", found.powercap)
    monkeypatch.setattr(energy, "CPUS", found.cpus)
    return found


@pytest.fixture
def one_package(machine):
    """CPUs 0 to 3 in one package, whose counter is at 5 J."""
    machine.make([(0, 0)] * 4, ["package-0"])
    machine.set("intel-rapl:0", 5_000_000)
    return machine


def assert_not_measured(meter, reason):
    assert (meter.source, meter.joules()) == (None, None)
    assert meter.reason.startswith(reason)


def test_a_run_that_holds_a_whole_package_is_measured_from_when_the_meter_is_open_meter(one_package):
    meter = open_meter("cpu", [0, 1, 2, 3], None)
    assert (meter.source, meter.reason, meter.joules()) == ("rapl", None, 0.0)
    one_package.set("intel-rapl:0", 7_500_000)
    assert meter.joules() == 2.5
    assert meter.joules() == 2.5, "nothing was taken since"


def test_a_counter_that_wraps_is_continued(one_package):
    one_package.set("intel-rapl:0", RANGE_UJ - 1_000_000)
    meter = open_meter("cpu", range(4), None)
    one_package.set("intel-rapl:0", 2_000_000)
    assert meter.joules() == 3.0
    one_package.set("intel-rapl:0", 1_000_000)
    assert meter.joules() == pytest.approx(2.0 + RANGE_UJ / 1e6), "a second wrap"


@pytest.mark.parametrize(("held", "joules"), [(range(5), 5.0), ([4], 4.0)])
def test_the_packages_of_the_runs_cpus_are_added(machine, held, joules):
    machine.make([(0, 0)] * 4 + [(1, 0)], ["package-0", "package-1"])
    meter = open_meter("cpu", held, None)
    machine.set("intel-rapl:0", 1_000_000)
    machine.set("intel-rapl:1", 4_000_000)
    assert meter.joules() == joules


def test_parts_of_a_package_and_other_counters_are_not_added(one_package):
    others = {"intel-rapl:0:0": "core", "intel-rapl:1": "psys", "intel-rapl-mmio:0": "package-0"}
    for zone, name in others.items():
        one_package.add_zone(zone, name)
    (one_package.powercap / "intel-rapl").mkdir()  # the driver itself
    meter = open_meter("cpu", range(4), None)
    for zone in one_package.powercap.glob("*:*"):
        one_package.set(zone.name, 6_000_000)
    assert meter.joules() == 1.0


def test_an_offline_cpu_need_not_be_held_and_cpus_without_a_die_are_one_die(machine):
    machine.make([(0, None), (None, None)], ["package-0"])
    assert open_meter("cpu", [0], None).source == "rapl"


def test_the_counters_of_all_dies_make_up_that_of_their_package(machine):
    machine.make([(0, 0), (0, 0), (0, 1), (0, 1)], ["package-0-die-0", "package-0-die-1"])
    meter = open_meter("cpu", range(4), None)
    machine.set("intel-rapl:0", 1_000_000)
    machine.set("intel-rapl:1", 500_000)
    assert meter.joules() == 1.5


@pytest.mark.parametrize(
    ("cpus", "zones", "held", "reason"),
    [
        ([(0, 0)] * 4, ["package-0"], 2, "the run holds 2 of the 4 CPUs that the counter covers"),
        ([(0, 0), (1, 0), (1, 0)], ["package-0", "package-1"], 2, "the run holds 2 of the 3 CPUs that"),
        ([(0, 0), (0, 1)], ["package-0-die-0", "package-0-die-1"], 1, "the run holds 1 of the 2 CPUs that"),
        ([(0, 0)], [], 1, "this machine has no energy counter"),
        ([(0, 0)], [None], 1, "this machine has no energy counter"),  # its name is hidden
        ([], ["package-0"], 1, "this machine does not show which CPUs its energy counter covers"),
        ([(0, 0), (1, 0)], ["package-0"], 2, "this machine has no energy counter for all of package 1"),
        ([(0, 0), (0, 1)], ["package-0-die-0"], 2, "this machine has no energy counter for all of package 0"),
    ],
)
def test_a_run_that_does_not_hold_all_that_is_counted_is_not_measured(machine, begun, cpus, zones, held, reason):
    machine.make(cpus, zones)
    assert_not_measured(open_meter("cpu", range(held), None), reason)
    assert begun() == []


def test_a_counter_that_only_root_may_read(one_package, monkeypatch):
    read_text = energy.Path.read_text

    def refuse(file):
        if file.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read_text(file)

    monkeypatch.setattr(energy.Path, "read_text", refuse)
    reason = f"the CPU's counter can't be read (needs permission on {one_package.powercap})"
    assert_not_measured(open_meter("cpu", range(4), None), reason)


def test_a_meter_that_becomes_unreadable_keeps_its_reason(one_package):
    meter = open_meter("cpu", range(4), None)
    file = one_package.powercap / "intel-rapl:0" / "energy_uj"
    file.unlink()
    assert meter.joules() is None
    one_package.set("intel-rapl:0", 9_000_000)
    assert_not_measured(meter, f"the CPU's counter can't be read ({os.strerror(2)})")


def test_a_counter_that_went_unread_for_too_long_is_not_used(one_package, monkeypatch):
    """At 1000 W the range of 65.5 kJ is reached after 65.5 s; later it may have wrapped twice."""
    clock = [100.0]
    monkeypatch.setattr(energy.time, "monotonic", lambda: clock[0])
    meter = open_meter("cpu", range(4), None)
    clock[0] += 65.5
    one_package.set("intel-rapl:0", 6_000_000)
    assert meter.joules() == 1.0
    clock[0] += 65.6
    assert meter.joules() is None
    assert_not_measured(meter, "the CPU's counter went unread for so long that it may have wrapped unnoticed")


def test_counters_are_read_often_enough_to_see_each_wrap():
    assert RANGE_UJ / 1e6 / energy.MAX_PACKAGE_WATTS > energy.POLL_SECONDS * 2


def test_the_meters_own_thread_sees_a_wrap_between_two_readings(one_package, monkeypatch):
    """Without the thread, two wraps between two reads would count as one."""
    wrapped, microjoules = threading.Event(), energy._microjoules

    def noticed(file):
        value = microjoules(file)
        if value == 1_000_000 and threading.current_thread().name == "energy":
            wrapped.set()
        return value

    monkeypatch.setattr(energy, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(energy, "_microjoules", noticed)
    meter = open_meter("cpu", range(4), None)  # at 5 J
    one_package.set("intel-rapl:0", 1_000_000)
    assert wrapped.wait(60)
    meter.joules()  # waits until the thread has added what it read
    one_package.set("intel-rapl:0", 500_000)
    assert meter.joules() == pytest.approx((2 * RANGE_UJ - 4_500_000) / 1e6)


def test_the_thread_delays_no_exit_and_ends_silently_if_the_counter_becomes_unreadable(one_package, begun, monkeypatch):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    monkeypatch.setattr(energy, "POLL_SECONDS", 0.001)
    open_meter("cpu", range(4), None)
    (thread,) = begun()
    assert thread.daemon
    (one_package.powercap / "intel-rapl:0" / "energy_uj").unlink()
    thread.join(60)
    assert not thread.is_alive() and failed == []


@pytest.fixture
def gpus(monkeypatch):
    """Joules by UUID, which tests change. A GPU that is not in it reports none."""
    joules = {GPU: 1000.0, "GPU-other": 5.0}
    monkeypatch.setattr(energy.nvml, "energy_joules", joules.get)
    described = {"GPU-hidden": {"reason": "NVML can't be started (x)"}}
    monkeypatch.setattr(energy.nvml, "describe", lambda uuid: described.get(uuid, {"name": "Tesla K80"}))
    return joules


def test_a_run_on_a_gpu_is_measured_by_that_gpus_counter_until_it_is_lost(gpus, begun):
    meter = open_meter("gpu", [0, 1], GPU)
    assert (meter.source, meter.reason, meter.joules()) == ("nvml", None, 0.0)
    gpus["GPU-other"] += 77.0
    assert meter.joules() == 0.0
    gpus[GPU] += 12.5
    assert meter.joules() == 12.5
    assert begun() == []
    del gpus[GPU]
    assert meter.joules() is None
    gpus[GPU] = 2000.0
    assert_not_measured(meter, "this GPU has no energy counter")


@pytest.mark.parametrize(
    ("parts", "seconds", "coarse"),
    [
        (5, 0.01, True),  # five epochs of 2 ms
        (1, 1.99, True),
        (1, 2.0, False),
        (10, 19.9, True),
        (10, 20.1, False),
        (0, 0.0, False),  # a run that ended before its first part used no energy for training
    ],
)
def test_the_steps_of_a_gpus_counter_are_too_coarse_for_short_parts(gpus, one_package, parts, seconds, coarse):
    reason = (
        "the GPU's energy counter steps by 0.1 s, too coarse for a training of less than 2 s between two evaluations"
    )
    assert open_meter("gpu", [0], GPU).too_coarse(parts, seconds) == (reason if coarse else None)
    for without in (open_meter("gpu", [0], None), open_meter("cpu", range(4), None)):
        assert without.too_coarse(parts, seconds) is None, "no energy, and that of CPUs"


@pytest.mark.parametrize(
    ("uuid", "reason"),
    [
        ("GPU-old", "this GPU has no energy counter"),
        ("MIG-1", "the run holds an instance of a GPU (MIG), and the counter counts the whole GPU"),
        (None, "the UUID of the run's GPU is unknown"),
        ("GPU-hidden", "NVML can't be started (x)"),  # as NVML says
    ],
)
def test_a_gpu_whose_energy_is_not_known(gpus, uuid, reason):
    gpus["MIG-1"] = 4.0
    assert_not_measured(open_meter("gpu", [0], uuid), reason)
