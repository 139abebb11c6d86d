"""Slots: what a run is timed on is its own, in real processes; and the locks that say so."""

import errno
import fcntl
import json
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from trainmark.errors import BusyError, DeviceError
from trainmark.machine import locks as locks_module
from trainmark.machine.locks import DeviceLock, cpus_beside_runs, hold_device, hold_directory, run_lock

SCRIPTS = Path(locks_module.__file__).parents[2]
TWO_CORES = {0: [0], 1: [1]}
FOUR_CORES = {0: [0, 4], 1: [1, 5], 2: [2, 6], 3: [3, 7]}
GPUS = ["GPU-0a", "GPU-1b"]

WORKER = """
import json, os, sys, time
from trainmark.machine import locks

settings = json.loads(sys.argv[1])
cores = {int(core): cpus for core, cpus in settings["cores"].items()}
locks.allowed_cores = lambda: cores
locks.visible_gpus = lambda: settings["gpus"]
locks.POLL_SECONDS = locks.QUEUE_POLL_SECONDS = 0.005
print("ready", flush=True)
sys.stdin.readline()
for _ in range(settings["times"]):
    with locks.hold_device(settings["device"], settings["threads"]) as device_lock:
        held = {"cpus": device_lock.cpus, "gpu": device_lock.gpu, "visible": os.environ["CUDA_VISIBLE_DEVICES"]}
        if settings["seconds"] is None:
            print(json.dumps(held | {"begin": device_lock.held_from}), flush=True)
            sys.stdin.readline()
        else:
            time.sleep(settings["seconds"])
            print(json.dumps(held | {"begin": device_lock.held_from, "end": time.monotonic()}), flush=True)
"""


class Workers:
    """Processes that hold device locks of a machine that is played to them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, []

    def start(self, device="cpu", threads=1, cores=TWO_CORES, gpus=(), times=1, seconds=None) -> subprocess.Popen:
        """A process that waits to be told to `go`; seconds None: it holds each lock until it is told to `go` on."""
        settings = {"device": device, "threads": threads, "cores": cores, "gpus": list(gpus)}
        settings |= {"times": times, "seconds": seconds}
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(settings)],
            env=os.environ | {"PYTHONPATH": str(SCRIPTS), locks_module.LOCK_FOLDER_VARIABLE: str(self.folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(worker)
        return worker

    def held(self, **settings) -> tuple[subprocess.Popen, dict]:
        """A process that holds a device lock, and what it holds."""
        worker = self.start(**settings)
        go(worker)
        return worker, next_line(worker)

    def run_all(self) -> list[dict]:
        """Let all go at once; everything that they held."""
        for worker in self.started:
            assert worker.stdout.readline() == "ready\n"
        for worker in self.started:
            tell(worker)
        lines = [line for worker in self.started for line in worker.communicate(timeout=120)[0].splitlines()]
        assert [worker.returncode for worker in self.started] == [0] * len(self.started)
        return [json.loads(line) for line in lines]


@pytest.fixture
def workers(tmp_path):
    made = Workers(tmp_path)
    yield made
    for worker in made.started:
        worker.kill()
        worker.communicate()


def tell(worker: subprocess.Popen) -> None:
    worker.stdin.write("go\n")
    worker.stdin.flush()


def go(worker: subprocess.Popen) -> None:
    assert worker.stdout.readline() == "ready\n"
    tell(worker)


def next_line(worker: subprocess.Popen) -> dict:
    assert select.select([worker.stdout], [], [], 60)[0], "it holds nothing"
    return json.loads(worker.stdout.readline())


def taken(file: Path) -> bool:
    """Whether somebody holds this lock."""
    try:
        with FileLock(file, timeout=0):
            return False
    except Timeout:
        return True


def wait_until_first_in_queue(folder: Path) -> None:
    """Return when a queue has somebody at its head, who waits."""
    deadline = time.monotonic() + 60
    while not any(map(taken, folder.glob("queue-*.lock"))):
        assert time.monotonic() < deadline, "nobody came to wait"
        time.sleep(0.01)


def refused(message: str, lock, error: type[Exception] = DeviceError) -> None:
    """Expect that a lock can't be taken, and why."""
    with pytest.raises(error, match=message), lock:
        pytest.fail("it began")


def expect_no_overlap(held: list[dict]) -> None:
    """Only one may hold a CPU at a time. The clock is the system's: one for all."""
    stretches = defaultdict(list)
    for device_lock in held:
        for cpu in device_lock["cpus"]:
            stretches[cpu].append((device_lock["begin"], device_lock["end"]))
    for cpu, of_one in stretches.items():
        for (_, end), (next_begin, _) in pairwise(sorted(of_one)):
            assert end <= next_begin, f"two held {cpu}"


# --- one run at a time --------------------------------------------------------------------------------------------


def test_two_gpu_runs_hold_two_gpus_and_a_third_waits(workers):
    (first, first_lock), (_, second_lock) = (workers.held(device="gpu", threads=8, gpus=GPUS) for _ in range(2))
    assert {first_lock["gpu"], second_lock["gpu"]} == set(GPUS)
    assert (first_lock["visible"], second_lock["visible"]) == (first_lock["gpu"], second_lock["gpu"])
    third = workers.start(device="gpu", gpus=GPUS)
    go(third)
    wait_until_first_in_queue(workers.folder)
    released = time.monotonic()
    tell(first)
    third_lock = next_line(third)
    assert third_lock["gpu"] == first_lock["gpu"] and third_lock["begin"] >= released


def test_no_two_runs_hold_one_core_at_once_and_all_get_theirs_whatever_set_they_choose_from(workers):
    """Each could hold what another needs: they must not wait forever, also with sets that overlap."""
    for cores in ({0: [0], 1: [1]}, {1: [1], 0: [0]}, {2: [2], 1: [1]}):
        workers.start(threads=3, cores=cores, times=3, seconds=0.01)
    workers.start(threads=1, times=3, seconds=0.01)
    workers.start(device="gpu", threads=1, gpus=GPUS[:1], times=3, seconds=0.01)
    held = workers.run_all()
    assert len(held) == 15
    assert {cpu for device_lock in held for cpu in device_lock["cpus"]} == {0, 1, 2}
    expect_no_overlap(held)


def test_a_run_that_needs_all_cores_is_not_passed_by_one_that_needs_few(workers):
    holder, _ = workers.held()
    big = workers.start(threads=2)
    go(big)
    wait_until_first_in_queue(workers.folder)
    small = workers.start()  # a core is free for it
    go(small)
    tell(holder)
    big_lock = next_line(big)
    released = time.monotonic()
    tell(big)
    assert big_lock["cpus"] == [0, 1]
    assert next_line(small)["begin"] >= released


def test_a_slot_is_free_after_its_process_was_killed(workers):
    holder, device_lock = workers.held(device="gpu", threads=2, gpus=GPUS[:1])
    locks = sorted(path for path in workers.folder.iterdir() if taken(path))
    assert [path.name for path in locks] == ["core-0.lock", "core-1.lock", "gpu-GPU-0a.lock"]
    holder.send_signal(signal.SIGKILL)
    assert holder.wait(timeout=60) == -signal.SIGKILL
    _, next_lock = workers.held(device="gpu", threads=2, gpus=GPUS[:1])
    assert (next_lock["gpu"], next_lock["cpus"]) == (device_lock["gpu"], device_lock["cpus"])


# --- what a device lock holds -----------------------------------------------------------------------------


@pytest.fixture
def lock_folder(tmp_path, monkeypatch):
    """The folder for the locks of this process."""
    folder = tmp_path / "locks"
    monkeypatch.setenv(locks_module.LOCK_FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture
def machine(monkeypatch, lock_folder):
    """A function that plays cores and GPUs to this process, whose CUDA_VISIBLE_DEVICES is put back."""

    def play(cores: dict[int, list[int]], gpus: list[str]) -> None:
        monkeypatch.setattr(locks_module, "allowed_cores", lambda: cores)
        monkeypatch.setattr(locks_module, "visible_gpus", lambda: gpus)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")

    return play


@pytest.mark.parametrize(
    ("device", "threads", "gpus", "cpus", "cores"),
    [
        ("cpu", 6, [], (0, 1, 2, 3, 4, 5), [0, 1, 2, 3]),
        ("cpu", 99, [], (0, 1, 2, 3, 4, 5, 6, 7), [0, 1, 2, 3]),
        ("gpu", 4, GPUS, (0, 1, 4, 5), [0, 1]),  # half of the cores are the other GPU's
        ("gpu", 2, [f"GPU-{n}" for n in range(9)], (0, 4), [0]),  # more GPUs than cores
    ],
)
def test_a_run_holds_whole_cores_and_a_cpu_for_each_thread(lock_folder, machine, device, threads, gpus, cpus, cores):
    machine(FOUR_CORES, gpus)
    before = time.monotonic()
    with hold_device(device, threads) as device_lock:
        assert device_lock == DeviceLock(cpus, gpus[0] if gpus else None, device_lock.held_from)
        assert before <= device_lock.held_from <= time.monotonic()
        assert [core for core in FOUR_CORES if taken(lock_folder / f"core-{core}.lock")] == cores
    assert not any(map(taken, lock_folder.iterdir()))


@pytest.mark.parametrize("gpu", ["GPU-0a", "MIG-GPU-0a/1/0"])  # an instance may have slashes in its name
def test_a_run_sees_its_own_gpu_and_a_cpu_run_none(machine, gpu):
    machine(TWO_CORES, [gpu, "GPU-other"])
    with hold_device("gpu", 1) as device_lock:
        assert device_lock.gpu == os.environ["CUDA_VISIBLE_DEVICES"] == gpu
    with hold_device("cpu", 1):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_a_gpu_that_was_asked_for_and_is_not_given_is_an_error_that_says_so(lock_folder, machine):
    machine(TWO_CORES, [])
    refused(r"^this run asks for the device gpu, .*CUDA_VISIBLE_DEVICES='5'", hold_device("gpu", 1))
    assert not lock_folder.exists()


def test_a_job_with_a_time_limit_does_not_wait_until_its_end(lock_folder, machine, monkeypatch):
    machine(TWO_CORES, [])
    monkeypatch.setenv("TRAINMARK_WAITING_SECONDS", "0.3")
    with hold_device("cpu", 2):
        start = time.monotonic()
        message = r"waited 0 s of the job's time limit for 1 CPU on .*, held by other jobs: the scheduler starts more"
        refused(message, hold_device("cpu", 1), BusyError)
        assert time.monotonic() - start < 10
    with hold_device("cpu", 1):
        assert taken(lock_folder / "core-0.lock")


# --- one process a run --------------------------------------------------------------------------------------------


def test_a_record_has_one_process_at_a_time_however_its_path_is_written(tmp_path, lock_folder, monkeypatch):
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    with run_lock(Path("results/a.json"), tmp_path / "a"):
        (lock,) = lock_folder.iterdir()
        assert taken(lock)
        assert taken(tmp_path / "a" / "running.lock"), "for other hosts"
        with run_lock(tmp_path / "results" / "b.json", tmp_path / "b"):  # another run does not wait
            assert len(list(lock_folder.iterdir())) == 2
    assert not taken(lock)
    with run_lock(tmp_path / "results" / ".." / "results" / "a.json", tmp_path / "a"):
        assert taken(lock)


def test_a_run_is_held_on_its_host_where_the_results_lie_on_a_file_system_without_locks(
    tmp_path, lock_folder, monkeypatch, capsys
):
    without_locks(monkeypatch, tmp_path / "own")
    with run_lock(tmp_path / "a.json", tmp_path / "own"):
        (lock,) = lock_folder.iterdir()
        assert taken(lock)
    assert "the run is locked against other jobs of this host alone, not of other hosts" in capsys.readouterr().out


# --- one workflow a directory -------------------------------------------------------------------------------------


def test_a_directory_has_one_workflow_at_a_time_also_without_locks_of_its_own(tmp_path, lock_folder, monkeypatch):
    with hold_directory(tmp_path):
        with pytest.raises(BusyError, match=f"another snakemake is at work in {tmp_path}: wait for it"):
            hold_directory(tmp_path)
        hold_directory(tmp_path / "other").close()
    hold_directory(tmp_path).close()
    without_locks(monkeypatch, tmp_path / "results")
    with hold_directory(tmp_path / "results"), pytest.raises(BusyError):
        hold_directory(tmp_path / "results")


def without_locks(monkeypatch, folder):
    """Have the system refuse to lock files in a folder, as some network file systems do."""
    real_flock = fcntl.flock

    def flock(descriptor, operation):
        if Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_relative_to(folder):
            raise OSError(errno.ENOLCK, "No locks available")
        return real_flock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", flock)


# --- the folder of the locks --------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path, monkeypatch, machine):
    """The folder for temporary files of a host with two cores and no GPU, and no other folder named."""
    machine(TWO_CORES, [])
    monkeypatch.delenv(locks_module.LOCK_FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(locks_module, "HOST_FOLDER", tmp_path / "host")
    (tmp_path / "host").mkdir()
    return tmp_path / "host"


@pytest.fixture
def strict_umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_the_locks_are_everybodys_whatever_the_umask(host, machine, strict_umask):
    machine(TWO_CORES, GPUS[:1])
    with hold_device("gpu", 2), run_lock(Path("a.json"), host / "own"):
        files = list((host / "trainmark-locks").iterdir())
    assert len(files) == 6  # two cores, a GPU, the queue, the choosing, the run
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o666}
    assert stat.S_IMODE((host / "trainmark-locks").stat().st_mode) == 0o1777


def test_work_that_is_not_timed_keeps_to_cpus_that_no_run_holds(host, machine, monkeypatch):
    machine(FOUR_CORES, [])
    kept = []
    monkeypatch.setattr(locks_module, "limit_threads", kept.append)
    with hold_device("cpu", 3), cpus_beside_runs(1, "preparing"):
        assert kept == [(3,)]


def test_a_wait_says_for_what_and_for_how_long(host, machine, capsys):
    machine(FOUR_CORES, [])
    with hold_device("cpu", 4):
        waiting = threading.Thread(target=lambda: hold_device("cpu", 2, title="t", waiting_seconds=0.05).__enter__())
        waiting.start()
        time.sleep(0.2)
    waiting.join()
    assert capsys.readouterr().err.startswith("t: waiting for 2 CPUs, held by other jobs, for 0 s now\n")


def test_the_lock_folder_is_the_hosts_or_the_one_that_is_named(host, monkeypatch, tmp_path):
    """A batch system sets a TMPDIR for each job; with locks in each, two jobs would time on one device."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "job"))
    named = tmp_path / "deep" / "named"
    with hold_device("cpu", 1):
        assert [path.name for path in host.iterdir()] == ["trainmark-locks"]
        monkeypatch.setenv(locks_module.LOCK_FOLDER_VARIABLE, str(named))
        with hold_device("cpu", 1):
            assert taken(named / "core-0.lock")
    assert not (tmp_path / "job").exists()


def test_locks_that_can_not_be_made_give_the_sentence_and_no_soft_lock(host, monkeypatch):
    """A soft lock would stay behind a killed process, and every later run would wait for it."""
    folder = host / "trainmark-locks"
    (folder / "core-0.lock").mkdir(parents=True)
    refused(
        f"^the folder of locks, {folder}, can't be used .Is a directory.; make it writable .* TRAINMARK_LOCK_FOLDER$",
        hold_device("cpu", 1),
    )
    with monkeypatch.context() as patched:
        without_locks(patched, host)
        refused("No locks available", hold_device("cpu", 1))
    (host / "file").touch()
    for no_folder in (host / "file", host / "file" / "locks"):
        monkeypatch.setenv(locks_module.LOCK_FOLDER_VARIABLE, str(no_folder))
        refused(f"{no_folder}, can't be used", hold_device("cpu", 1))
