"""The energy of a run: of its GPU or of all CPU packages; otherwise the reason why it is not measured."""

import threading

import pytest

from trainmark.machine import energy
from trainmark.machine.energy import open_meter

GPU = "GPU-0a1b"

RANGE_UJ = 65_532_610_987
"""Range of the counters in the tests: the smallest one known, of Haswell servers."""


@pytest.fixture
def counters(tmp_path, monkeypatch):
    """Counters like those of Linux, on a machine of four CPUs. Returns what sets one, by zone, in microjoules."""
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    monkeypatch.setattr(energy.os, "cpu_count", lambda: 4)

    def set_counter(zone, microjoules):
        part = tmp_path / zone / "part"
        part.write_text(f"{microjoules}\n")
        part.replace(part.with_name("energy_uj"))  # in one step, as a thread may read it meanwhile

    def add(zone, name):
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "name").write_text(f"{name}\n")
        (tmp_path / zone / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        set_counter(zone, 5_000_000)

    set_counter.add = add
    return set_counter


@pytest.fixture
def one_package(counters):
    """The only package's counter is at 5 J; parts of it and other counters do not count."""
    others = {"intel-rapl:0:0": "core", "intel-rapl:1": "psys", "intel-rapl-mmio:0": "package-0"}
    for zone, name in {"intel-rapl:0": "package-0", **others}.items():
        counters.add(zone, name)
    return counters


def assert_not_measured(meter, reason):
    assert meter.joules() is None
    assert meter.source is None
    assert meter.reason.startswith(reason)


def test_a_run_that_holds_all_cpus_is_measured_from_when_the_meter_is_opened(one_package):
    meter = open_meter("cpu", [0, 1, 2, 3], None)
    assert (meter.source, meter.reason, meter.joules()) == ("rapl", None, 0.0)
    for zone in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1", "intel-rapl-mmio:0"):
        one_package(zone, 7_500_000)
    assert meter.joules() == 2.5
    assert meter.joules() == 2.5, "nothing was taken since"


def test_the_counters_of_all_packages_and_dies_are_added(counters):
    for number, name in enumerate(("package-0-die-0", "package-0-die-1", "package-1")):
        counters.add(f"intel-rapl:{number}", name)
    meter = open_meter("cpu", range(4), None)
    counters("intel-rapl:1", 6_000_000)
    counters("intel-rapl:2", 9_000_000)
    assert meter.joules() == 5.0


def test_a_counter_that_wraps_is_continued(one_package):
    one_package("intel-rapl:0", RANGE_UJ - 1_000_000)
    meter = open_meter("cpu", range(4), None)
    one_package("intel-rapl:0", 2_000_000)
    assert meter.joules() == 3.0
    one_package("intel-rapl:0", 1_000_000)
    assert meter.joules() == pytest.approx(2.0 + RANGE_UJ / 1e6), "a second wrap"


def test_where_cpus_are_not_measured_the_reason_is_given(counters, tmp_path):
    assert_not_measured(open_meter("cpu", range(4), None), "this machine has no energy counter")
    counters.add("intel-rapl:0", "package-0")
    reason = "the run holds 2 of the 4 CPUs that the counter covers"
    assert_not_measured(open_meter("cpu", range(2), None), reason)
    meter = open_meter("cpu", range(4), None)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    for one in (meter, open_meter("cpu", range(4), None)):
        assert_not_measured(one, "the CPU's counter can't be read (No such file")


def test_a_counter_that_went_unread_for_too_long_is_not_used(one_package, monkeypatch):
    """At 1000 W the range of 65.5 kJ is reached after 65.5 s; later it may have wrapped twice."""
    assert RANGE_UJ / 1e6 / energy.MAX_PACKAGE_WATTS > energy.POLL_SECONDS * 2
    clock = [100.0]
    monkeypatch.setattr(energy.time, "monotonic", lambda: clock[0])
    meter = open_meter("cpu", range(4), None)
    clock[0] += 65.5
    one_package("intel-rapl:0", 6_000_000)
    assert meter.joules() == 1.0
    clock[0] += 65.6
    assert_not_measured(meter, "the CPU's counter went unread for so long that it may have wrapped unnoticed")


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
    one_package("intel-rapl:0", 1_000_000)
    assert wrapped.wait(60)
    meter.joules()  # waits until the thread has added what it read
    one_package("intel-rapl:0", 500_000)
    assert meter.joules() == pytest.approx((2 * RANGE_UJ - 4_500_000) / 1e6)


@pytest.fixture
def gpus(monkeypatch):
    """Joules by UUID, which tests change. A GPU that is not in it reports none."""
    joules = {GPU: 1000.0, "GPU-other": 5.0}
    monkeypatch.setattr(energy.nvml, "energy_joules", joules.get)
    described = {"GPU-hidden": {"reason": "NVML can't be started (x)"}}
    monkeypatch.setattr(energy.nvml, "describe", lambda uuid: described.get(uuid, {"name": "Tesla K80"}))
    return joules


def test_a_run_on_a_gpu_is_measured_by_that_gpus_counter_until_it_is_lost(gpus):
    meter = open_meter("gpu", [0, 1], GPU)
    assert (meter.source, meter.reason, meter.joules()) == ("nvml", None, 0.0)
    gpus["GPU-other"] += 77.0
    assert meter.joules() == 0.0
    gpus[GPU] += 12.5
    assert meter.joules() == 12.5
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
