"""Watching the machine: kernel counters of stretches of epochs, and the limits of disturbances."""

import os
import signal
import subprocess
import sys
import time

import pytest
from harness import importing

from trainmark.machine import cpus as cpus_module
from trainmark.machine import watch as module
from trainmark.machine.disturbance import cause_in_words, disturbance
from trainmark.machine.watch import COUNTED, Watch, _cpu_seconds


class Kernel:
    """Fake files of /proc and fake clocks, which tests change."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.now, self.slept, self.cpu = folder, 100.0, 0.0, 10.0
        self.ticks = {name: [0] * 8 for name in ("cpu0", "cpu1", "cpu2")}
        self.write()
        monkeypatch.setattr(module, "STAT", folder / "stat")
        monkeypatch.setattr(module, "_cpu_seconds", lambda: self.cpu)
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module, "_suspended_seconds", lambda: self.slept)
        monkeypatch.setattr(module, "Heartbeat", lambda: None)
        monkeypatch.setattr(module, "throttle_files", list)

    def write(self):
        total = " ".join("9" * 10)
        lines = [f"{name} {' '.join(map(str, ticks))} 0 0" for name, ticks in self.ticks.items()]
        (self.folder / "stat").write_text("\n".join([f"cpu  {total}", *lines, "intr 1 2 3"]))


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    return Kernel(tmp_path, monkeypatch)


def test_a_stretch_counts_the_cpu_time_of_others_on_the_cpus_held(kernel):
    watch = Watch((0, 1), None)
    watch.begin(1)
    kernel.now += 4.0  # 8 s of two CPUs: 2 idle, 1 waiting for a disk, 0.5 stolen, 3 its own, and 1.5 others'
    kernel.cpu += 3.0
    kernel.ticks["cpu0"][3] += 200
    kernel.ticks["cpu1"][4] += 100
    kernel.ticks["cpu1"][7] += 50
    kernel.ticks["cpu2"][3] += 9999  # not held
    kernel.write()
    kernel.slept += 60
    (stretch,) = watch.after(3)
    assert stretch["epochs"] == [1, 3]
    assert {name: stretch[name] for name in COUNTED} == {
        "seconds": 4.0, "cpu_seconds": 3.0, "foreign_seconds": pytest.approx(1.5), "steal_seconds": 0.5,
        "throttled_seconds": None, "suspended_seconds": pytest.approx(60), "stopped_seconds": None,
    }  # fmt: skip


def test_a_checkpoint_within_an_epoch_loses_no_time(kernel):
    watch = Watch((0, 1), None)
    watch.begin(1)
    stretches = []
    for within in (True, True, False):
        kernel.now += 1.0
        stretches += watch.after(1, force=True, within=within)
    kernel.now += 1.0
    stretches += watch.after(2)
    assert [(one["epochs"], one["seconds"]) for one in stretches] == [([1, 1], 1.0)] * 3 + [([2, 2], 1.0)]


def test_missing_counters_are_none_and_no_disturbance(kernel, tmp_path):
    (tmp_path / "stat").unlink()
    watch = Watch((0, 1), None)
    watch.begin(1)
    kernel.now += 1
    (stretch,) = watch.after(1)
    missing = {"foreign_seconds", "steal_seconds", "throttled_seconds", "stopped_seconds"}
    assert {name for name in COUNTED if stretch[name] is None} == missing
    assert disturbance([stretch], 2) is None


def test_short_epochs_share_a_stretch_to_limit_the_cost(kernel, monkeypatch):
    """A read takes 1 ms here, so one read per second is a fraction of 0.001."""

    def read():
        kernel.now += 0.001
        return 0.0

    monkeypatch.setattr(module, "_suspended_seconds", read)
    watch = Watch((0, 1), None)
    watch.begin(0)
    stretches = watch.after(0, force=True)
    for epoch in range(1, 61):
        kernel.now += 0.021
        stretches += watch.after(epoch)
    assert [stretch["epochs"] for stretch in stretches] == [[0, 0], [1, 48]]
    assert [one["epochs"] for one in watch.after(60, force=True)] == [[49, 60]]
    assert watch.after(60, force=True) == [], "nothing was trained since"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("nr_periods 3\nthrottled_usec 2500000\n", 2.5), ("", None)],
)
def test_throttling_is_read_from_control_groups(tmp_path, text, seconds):
    (tmp_path / "cpu.stat").write_text(text)
    assert cpus_module.throttled_seconds([tmp_path / "cpu.stat"]) == seconds


def stretch(first=1, last=1, **counts):
    return {"epochs": [first, last], **dict.fromkeys(COUNTED, 0.0), "seconds": 1.0, "gpu_processes": None} | counts


@pytest.mark.parametrize(
    ("counts", "cause", "words"),
    [
        ({"foreign_seconds": 0.11}, "foreign load", "other work took 5.5 % of its CPUs, the limit is 5.0 %"),
        ({"steal_seconds": 0.08}, "steal", "4.0 % of its CPUs, the limit is 3.0 %"),
        ({"stopped_seconds": 0.5}, "stopped", "it was stopped for 50.0 % of the time, the limit is 1.0 %"),
        ({"throttled_seconds": 0.02}, "throttled", "2.0 % of the time, the limit is 1.0 %"),
        ({"suspended_seconds": 0.5}, "suspended", "the machine was suspended for 0.5 s, the limit is 0.1"),
        ({"gpu_processes": 2}, "foreign GPU work", "2 processes computed on its GPU, the limit is 1"),
    ],
)
def test_each_cause_has_a_limit_and_a_description(counts, cause, words):
    found = disturbance([stretch(**counts)], 2)["causes"]
    assert [one["cause"] for one in found] == [cause]
    assert cause_in_words(found[0]).endswith(words)
    assert found[0]["epochs"] == [[1, 1]]
    assert disturbance([stretch(**{name: count * 0.01 for name, count in counts.items()})], 2) is None


def test_load_on_the_epochs_is_detected_after_a_long_compilation():
    compilation = stretch(0, 0, seconds=100.0, foreign_seconds=0.5)
    (cause,) = disturbance([compilation, stretch(1, 9), stretch(10, 10, foreign_seconds=1.0)], 2)["causes"]
    assert cause["epochs"] == [[10, 10]]
    assert cause["value"] == 0.25


WATCHED = """
import sys, time
from trainmark.machine.cpus import allowed_cpus
from trainmark.machine.watch import Watch
watch = Watch(allowed_cpus(), None)
watch.begin(1)
print("begun", flush=True)
if sys.argv[1] == "lock":  # C code that holds Python's lock and waits
    import ctypes
    ctypes.PyDLL(None).usleep(700_000)
else:
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
print(watch.after(1, force=True)[0]["stopped_seconds"])
"""


def test_processes_that_load_images_are_no_foreign_load():
    """While they run: getrusage counts a child process only when it was waited for."""
    work = "end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    code = f"import time\n{work}\nprint(1, flush=True)\ninput()"
    before = _cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"1\n"
        assert 0.25 < _cpu_seconds() - before < 1.5
        process.communicate(b"\n")
    assert 0.25 < _cpu_seconds() - before < 1.5, "counted once"


@pytest.mark.parametrize("what", ["stopped", "not stopped", "lock"])
def test_a_stop_is_distinguished_from_waiting_for_pythons_lock(what):
    command = [sys.executable, "-c", WATCHED, what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=importing()) as process:
        assert process.stdout.readline() == "begun\n"
        if what == "stopped":
            time.sleep(0.1)
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.6)
            os.kill(process.pid, signal.SIGCONT)
        stopped_seconds = float(process.stdout.read())
    assert 0.5 < stopped_seconds < 1.5 if what == "stopped" else stopped_seconds == 0
