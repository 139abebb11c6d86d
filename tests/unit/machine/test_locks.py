"""Device locks: what a run is timed on is its own, in real processes; and the files of the locks."""

import errno
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from filelock import FileLock, Timeout
from harness import importing

from trainmark.errors import BusyError, DeviceError
from trainmark.machine import locks as locks_module
from trainmark.machine.locks import DeviceLock, cpus_beside_runs, hold_device, hold_directory, keep_locks, run_lock

TWO_CORES = {0: [0], 1: [1]}
FOUR_CORES = {0: [0, 4], 1: [1, 5], 2: [2, 6], 3: [3, 7]}
GPUS = ["GPU-0a", "GPU-1b"]

WORKER = """
import json, sys, time
from trainmark.machine import locks

device, threads, cores, gpus, times, seconds = json.loads(sys.argv[1])
locks.allowed_cores = lambda: {core: cpus for core, cpus in cores}
locks.visible_gpus = lambda: gpus
locks.POLL_SECONDS = locks.QUEUE_POLL_SECONDS = 0.005
for _ in range(times):
    with locks.hold_device(device, threads) as held:
        if seconds is None:
            print(json.dumps([held.cpus, held.gpu, held.held_from, None]), flush=True)
            sys.stdin.readline()
        else:
            time.sleep(seconds)
            print(json.dumps([held.cpus, held.gpu, held.held_from, time.monotonic()]), flush=True)
"""


@pytest.fixture
def start(lock_folder):
    """Starts a process that holds a device lock of a machine that is played to it, several times one after the other.

    It prints CPUs, GPU, begin and end of each. seconds None: it holds the lock until it is told to go on.
    """
    started = []

    def start(device="cpu", threads=1, cores=TWO_CORES, gpus=(), times=1, seconds=None):
        settings = json.dumps([device, threads, list(cores.items()), list(gpus), times, seconds])
        command = [sys.executable, "-c", WORKER, settings]
        worker = subprocess.Popen(
            command, env=importing(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()
        worker.communicate()


def held_by(worker):
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


@pytest.fixture
def lock_folder(tmp_path, monkeypatch):
    """The folder for the locks of this process and of those that it starts."""
    folder = tmp_path / "locks"
    monkeypatch.setenv(locks_module.LOCK_FOLDER_VARIABLE, str(folder))
    return folder


# --- one run at a time --------------------------------------------------------------------------------------------


def test_no_two_runs_hold_one_core_at_once_and_all_get_theirs_whatever_set_they_choose_from(start):
    """Each could hold what another needs: they must not wait forever, also with sets that overlap."""
    workers = [
        start(threads=3, cores=cores, times=3, seconds=0.05)
        for cores in ({0: [0], 1: [1]}, {1: [1], 0: [0]}, {2: [2], 1: [1]})
    ]
    workers += [start(threads=1, times=3, seconds=0.05), start("gpu", gpus=GPUS[:1], times=3, seconds=0.05)]
    held = [json.loads(line) for worker in workers for line in worker.communicate(timeout=120)[0].splitlines()]
    assert len(held) == 15
    for cpu in range(3):
        stretches = sorted((begin, end) for cpus, _, begin, end in held if cpu in cpus)
        assert stretches and all(end <= begin for (_, end), (begin, _) in pairwise(stretches)), f"two held {cpu}"


def test_a_run_that_needs_all_cores_is_not_passed_by_one_that_needs_few(start, lock_folder):
    holder = start()
    held_by(holder)
    big = start(threads=2)
    wait_until_first_in_queue(lock_folder)
    small = start()  # a core is free for it
    time.sleep(0.5)
    print(file=holder.stdin)
    assert held_by(big)[0] == [0, 1]
    released = time.monotonic()
    print(file=big.stdin)
    assert held_by(small)[2] >= released


def test_locks_are_free_after_their_process_was_killed(start, lock_folder):
    holder = start("gpu", threads=2, gpus=GPUS[:1])
    cpus, gpu, *_ = held_by(holder)
    locks = sorted(path.name for path in lock_folder.iterdir() if taken(path))
    assert locks == ["core-0.lock", "core-1.lock", "gpu-GPU-0a.lock"]
    holder.kill()
    assert held_by(start("gpu", threads=2, gpus=GPUS[:1]))[:2] == [cpus, gpu]


REMOVALS = {
    "a file": lambda folder: (folder / "core-0.lock").unlink(),
    "the folder": shutil.rmtree,
    "the folder by its name": lambda folder: folder.rename(folder.with_name("moved")),
    "a file for another": lambda folder: os.replace(made(folder / "new"), folder / "core-0.lock"),
}


def refuse():
    raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")


def made(path: Path) -> Path:
    path.touch()
    return path


@pytest.mark.parametrize("waits", [True, False], ids=["while one waits", "before one comes"])
@pytest.mark.parametrize("removed", REMOVALS)
def test_a_lock_is_held_whatever_somebody_removes(start, lock_folder, removed, waits):
    holder = start()
    held_by(holder)
    if waits:
        other = start(threads=2)
        wait_until_first_in_queue(lock_folder)
    REMOVALS[removed](lock_folder)
    if not waits:
        other = start(threads=2)
    time.sleep(0.5)
    released = time.monotonic()
    print(file=holder.stdin)
    assert held_by(other)[2] >= released
    assert all(taken(lock_folder / f"core-{core}.lock") for core in TWO_CORES)
    assert stat.S_IMODE(lock_folder.stat().st_mode) == 0o1777


@pytest.mark.parametrize("removed", REMOVALS)
def test_a_run_locks_anew_what_somebody_removed_unless_another_has_it(host, removed, monkeypatch):
    """Without the kernel's names of locks, as between containers with one folder and networks of their own."""
    monkeypatch.setattr("socket.socket", lambda *_: refuse())
    folder = host / "trainmark-locks"
    with hold_device("cpu", 2):
        keep_locks()
        REMOVALS[removed](folder)
        keep_locks()
        assert all(taken(folder / f"core-{core}.lock") for core in TWO_CORES)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
        (folder / "core-1.lock").unlink()
        other = os.open(folder / "core-1.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match=r"core-1\.lock while this run held it, and another process has it now"):
            keep_locks()
        os.close(other)


# --- what a device lock holds -------------------------------------------------------------------------------------


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


def test_the_locks_are_everybodys_whatever_the_umask(host, machine):
    machine(TWO_CORES, GPUS[:1])
    before = os.umask(0o077)
    with hold_device("gpu", 2), run_lock(Path("a.json"), host / "own"):
        files = list((host / "trainmark-locks").iterdir())
    os.umask(before)
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
        refused("No locks available.; .* file system with locks, .* in TRAINMARK_LOCK_FOLDER$", hold_device("cpu", 1))
    (host / "file").touch()
    (host / "of-another").symlink_to(host)
    os.lchown(host / "of-another", 1, 1) if os.getuid() == 0 else monkeypatch.setattr(os, "getuid", lambda: -1)
    (host / "linked").mkdir()
    (host / "linked" / "choosing.lock").symlink_to(host / "file")
    for no_folder in (host / "file", host / "file" / "locks", host / "of-another", host / "linked"):
        monkeypatch.setenv(locks_module.LOCK_FOLDER_VARIABLE, str(no_folder))
        refused(f"{no_folder}, can't be used", hold_device("cpu", 1))
