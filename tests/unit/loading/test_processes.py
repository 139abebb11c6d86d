"""Processes that load images: they end with the training, however it ends, leave nothing, and die with a sentence."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest
from harness import REPOSITORY

from trainmark.errors import LoaderError
from trainmark.loading.streams import open_streams
from trainmark.loading.workers import NOT_FOR_US
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.recipe import InputTransform

TRANSFORM = InputTransform(random_flip=True)
SETTINGS = {"iterator": "process", "jobs": 2, "store": "files"}
FEED = epoch_feed(50, 5, (1, 1), 1)

TRAINING = """
import sys, time
from concurrent.futures import wait
from pathlib import Path
from trainmark.loading.streams import open_streams
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.recipe import InputTransform

def main():
    folder, end = sys.argv[1:]
    settings = {"iterator": "process", "jobs": 2, "store": "files"}
    stream = open_streams(Path(folder), None, InputTransform(random_flip=True), "float32", settings, 2)["train"]
    wait([stream._workers._pool.submit(time.sleep, 1) for _ in range(2)])  # until both have begun
    print(*stream._workers._pool._processes, flush=True)
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
    return [psutil.Process(pid) for pid in stream._workers._pool._processes]


def run_started(stream) -> list[psutil.Process]:
    """Load an epoch, so that the processes have started; return them."""
    assert len(list(stream.training_batches(FEED))) == 10
    return workers_of(stream)


@contextmanager
def training(arrays, tmp_path, end: str):
    """A process that trains; yields it and the processes that load its images, once it trains."""
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    command = [sys.executable, script, arrays.folder, end]
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
    """What multiprocessing has in shared memory. Other tests have theirs meanwhile."""
    return {path.name for name in ("sem.mp-*", "psm_*") for path in Path("/dev/shm").glob(name)}


@pytest.mark.parametrize(("sent", "end"), [("SIGKILL", "waits"), ("SIGTERM", "runs")])
def test_no_process_outlives_a_training_that_is_killed_and_none_ends_before(arrays, tmp_path, sent, end):
    before = shared_memory()
    with training(arrays, tmp_path, end) as (process, workers):
        family = psutil.Process(process.pid).children(recursive=True)
        assert {worker.pid for worker in workers} <= {member.pid for member in family}
        for worker in workers:
            for name in NOT_FOR_US:
                worker.send_signal(getattr(signal, name))
        time.sleep(0.3)
        alive = process.poll() is None and all(worker.is_running() for worker in workers)
        assert alive, "signals of terminals and schedulers are left to the training"
        process.send_signal(getattr(signal, sent))
        process.wait(10)
        assert not psutil.wait_procs(family, timeout=10)[1]
        complaints = process.stderr.read()
        assert not complaints or "leaked semaphore" in complaints, "which Python's resource tracker removes"
    within_seconds = time.monotonic() + 10
    while not shared_memory() <= before and time.monotonic() < within_seconds:
        time.sleep(0.1)
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
    with pytest.raises(RuntimeError, match="after shutdown"):
        next(streams["train"].training_batches(FEED))


@pytest.mark.parametrize("victims", [1, 2])
def test_a_killed_process_is_an_error_of_one_sentence(streams, victims):
    for worker in run_started(streams["train"])[:victims]:
        worker.kill()
    with pytest.raises(LoaderError) as caught:
        for _ in range(20):
            list(streams["train"].training_batches(FEED))
    assert re.match("a process that loads images was killed, .*; allowed: fewer loader.jobs", str(caught.value))
    with pytest.raises(LoaderError):  # and so do all that follow: nothing waits for ever
        for _ in range(20):
            list(streams["train"].training_batches(FEED))


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
    with pytest.raises(
        LoaderError,
        match=r"could not be started .Resource temporarily unavailable.; .*raise the limit of .*; allowed: fewer",
    ):
        open_streams(arrays.folder, None, TRANSFORM, "float32", SETTINGS, 2)
    assert not psutil.wait_procs([psutil.Process(pid) for pid in started if psutil.pid_exists(pid)], timeout=10)[1]


def test_no_process_outlives_a_training_that_ends_without_closing(arrays, tmp_path):
    with training(arrays, tmp_path, "returns") as (process, workers):
        assert process.wait(20) == 0
        assert not psutil.wait_procs(workers, timeout=10)[1]
