"""Processes that load images: they end with the training, however it ends, leave nothing, and die with a sentence."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
import pytest
from harness import REPOSITORY

from trainmark.errors import LoaderError
from trainmark.loading import processes as module
from trainmark.loading.memory_file import MemoryFile
from trainmark.loading.streams import open_streams
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.recipe import InputTransform

TRANSFORM = InputTransform(random_flip=True)
SETTINGS = {"iterator": "process", "jobs": 2, "store": "files"}
FEED = epoch_feed(50, 5, (1, 1), 1)
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

DIED = (
    "a process that loads images ended by SIGKILL, perhaps because memory ran out; run snakemake again, which goes on "
    "after the last checkpoint; allowed: fewer loader.jobs (now 2), or loader.iterator: thread"
)

TRAINING = """
import sys, time
from pathlib import Path
from trainmark.loading.streams import open_streams
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.recipe import InputTransform

def main():
    folder, end = sys.argv[1:]
    settings = {"iterator": "process", "jobs": 2, "store": "files"}
    stream = open_streams(Path(folder), None, InputTransform(random_flip=True), "float32", settings, 2)["train"]
    print(*(process.pid for process in stream._workers._processes), flush=True)
    for epoch in range(1, 1_000_000):
        for step, _ in enumerate(stream.training_batches(epoch_feed(50, 5, (1, 1), epoch))):
            if step == 1 and epoch == 1:
                print("trains", flush=True)
            if end == "returns" and epoch == 2:
                return
            if end == "waits":
                time.sleep(0.2)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def streams(arrays):
    """Streams of arrays, loaded by two processes."""
    opened = open_streams(arrays.folder, None, TRANSFORM, "float32", SETTINGS, 2)
    yield opened
    opened["train"].close()


def workers_of(stream) -> list[psutil.Process]:
    return [psutil.Process(process.pid) for process in stream._workers._processes]


def run_started(stream) -> list[psutil.Process]:
    """Load an epoch, so that the processes have started; return them."""
    assert len(list(stream.training_batches(FEED))) == 10
    return workers_of(stream)


@contextmanager
def training(arrays, tmp_path, end: str, *, before: tuple = ()):
    """A process that trains; yields it and the processes that load its images, once it trains."""
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    command = [*before, sys.executable, script, arrays.folder, end]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "workflow" / "scripts")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            workers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
            assert len(workers) == 2 and process.stdout.readline() == "trains\n"
            yield process, workers
        finally:
            process.kill()


def shared_memory() -> set[str]:
    folder = Path("/dev/shm")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize(("sent", "end"), [("SIGKILL", "waits"), ("SIGTERM", "runs")])
def test_no_process_outlives_a_training_that_is_killed_and_none_ends_before(arrays, tmp_path, sent, end):
    before = shared_memory()
    with training(arrays, tmp_path, end) as (process, workers):
        family = psutil.Process(process.pid).children(recursive=True)
        assert {worker.pid for worker in workers} <= {member.pid for member in family}
        for worker in workers:
            for name in module.NOT_FOR_US:
                worker.send_signal(getattr(signal, name))
        time.sleep(0.3)
        alive = process.poll() is None and all(worker.is_running() for worker in workers)
        assert alive, "signals of terminals and schedulers are left to the training"
        process.send_signal(getattr(signal, sent))
        process.wait(10)
        assert not psutil.wait_procs(family, timeout=10)[1]
        assert process.stderr.read() == "", "nor do they complain"
    assert shared_memory() <= before


def test_closing_ends_the_processes_and_a_second_time_does_nothing(streams):
    workers = run_started(streams["train"])
    batches = streams["train"].training_batches(FEED)
    inputs, _ = next(batches)
    batches.close()
    descriptor = streams["train"]._workers.memory_file.descriptor
    streams["train"].close()
    streams["test"].close()
    assert not psutil.wait_procs(workers, timeout=0)[1]
    assert inputs.sum() > 0, "a batch can still be read"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(RuntimeError, match="closed"):
        next(streams["train"].training_batches(FEED))


@pytest.mark.parametrize("victims", [1, 2])
def test_a_killed_process_is_an_error_of_one_sentence(streams, victims):
    for worker in run_started(streams["train"])[:victims]:
        worker.kill()
    with pytest.raises(LoaderError) as caught:
        for _ in range(20):
            list(streams["train"].training_batches(FEED))
    assert str(caught.value) == DIED
    with pytest.raises(LoaderError):  # and so do all that follow: nothing waits for ever
        for _ in range(20):
            list(streams["train"].training_batches(FEED))


def test_a_stopped_process_does_not_keep_close_waiting(streams, monkeypatch):
    monkeypatch.setattr(module, "EXIT_SECONDS", 0.2)
    worker = run_started(streams["train"])[0]
    worker.suspend()
    streams["train"].close()
    assert not psutil.wait_procs([worker], timeout=5)[1]


@LINUX
def test_they_are_the_same_in_all_epochs_keep_to_the_cpus_of_the_training_and_are_silent(streams):
    before = run_started(streams["train"])
    list(streams["train"].training_batches(epoch_feed(50, 5, (1, 1), 2)))
    list(streams["test"].stored_batches(3))
    assert run_started(streams["train"]) == before
    assert {child.pid for child in psutil.Process().children()} >= {worker.pid for worker in before}
    for worker in before:
        assert worker.cpu_affinity() == psutil.Process().cpu_affinity()
        for descriptor in (1, 2):
            assert os.readlink(f"/proc/{worker.pid}/fd/{descriptor}") == os.devnull


def test_a_process_that_cannot_be_started(arrays, monkeypatch):
    started = []
    process = get_context("spawn").Process

    def start(self):
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        original(self)
        started.append(self.pid)

    original = process.start
    monkeypatch.setattr(process, "start", start)
    with pytest.raises(LoaderError, match=r"^started 1 of 2 processes .*: Resource temporarily unavailable; "):
        open_streams(arrays.folder, None, TRANSFORM, "float32", SETTINGS, 2)
    assert not psutil.pid_exists(started[0])


def test_without_semaphores(arrays, monkeypatch):
    """As in a sandbox, or where /dev/shm is full: multiprocessing's queues and pools need them."""
    import _multiprocessing

    def none_left(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_multiprocessing, "SemLock", none_left)
    opened = open_streams(arrays.folder, None, TRANSFORM, "float32", SETTINGS, 2)
    run_started(opened["train"])
    opened["train"].close()


@LINUX
def test_no_process_outlives_a_training_that_ends_without_closing_and_a_full_dev_shm_does_no_harm(arrays, tmp_path):
    """A /dev/shm of its own for the training, of one page, which is full; the machine's where a test may not mount."""
    fill = 'mount -t tmpfs -o size=4k none /dev/shm && ! cat /dev/zero > /dev/shm/full 2> /dev/null && exec "$@"'
    full = ("unshare", "--mount", "sh", "-c", fill, "sh")
    may_mount = subprocess.run([*full, "true"], check=False, capture_output=True).returncode == 0
    with training(arrays, tmp_path, "returns", before=full if may_mount else ()) as (process, workers):
        assert process.wait(20) == 0
        assert not psutil.wait_procs(workers, timeout=10)[1]
        assert process.stderr.read() == ""


def test_memory_grows_in_parts_that_do_not_overlap():
    file = MemoryFile()
    begins = [file.grow(size) for size in (1, 10_000, 5)]
    parts = [np.frombuffer(file.map(begin, size), np.uint8) for begin, size in zip(begins, (1, 10_000, 5), strict=True)]
    for number, part in enumerate(parts, 1):
        assert not part.any()
        part[:] = number
    file.close()
    assert [set(part.tolist()) for part in parts] == [{1}, {2}, {3}], "what is mapped stays"
