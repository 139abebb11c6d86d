"""Devices: which GPUs are found, what is said where there is none, and one timed run at a time on each device."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from trainmark import devices

SCRIPTS = Path(devices.__file__).parents[1]
GPUS = ["GPU 0: NVIDIA H200 (UUID: GPU-0a)", "GPU 1: NVIDIA H200 (UUID: GPU-1b)"]


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """A function that puts a shell script in the place of nvidia-smi; before it is called there is none."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(body: str, mode: int = 0o755) -> None:
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{body}\n")
        (folder / "nvidia-smi").chmod(mode)

    return install


def two_gpus(install) -> None:
    lines = "\n".join(f"echo '{line}'" for line in GPUS)
    install(f'[ "$1" = -L ] || exit 3\n{lines}\necho "  MIG 1g.10gb Device 0: (UUID: MIG-2c)"')


def test_two_gpus(nvidia_smi):
    two_gpus(nvidia_smi)
    assert devices.find_gpus() == GPUS


def test_no_nvidia_smi(nvidia_smi):
    assert devices.find_gpus() == []


def test_nvidia_smi_that_is_not_executable(nvidia_smi):
    nvidia_smi("echo 'GPU 0: x'", mode=0o644)
    assert devices.find_gpus() == []


@pytest.mark.parametrize(
    "body",
    [
        "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9",
        "echo 'No devices found.'; exit 6",
        "echo 'GPU access blocked by the operating system' >&2; exit 17",
        "exit 0",
    ],
)
def test_nvidia_smi_that_fails_or_finds_nothing(nvidia_smi, body):
    nvidia_smi(body)
    assert devices.find_gpus() == []


def test_nvidia_smi_that_can_not_be_run(nvidia_smi, tmp_path):
    nvidia_smi("exit 0")
    (tmp_path / "bin" / "nvidia-smi").write_bytes(b"\x7fELF not a program")
    assert devices.find_gpus() == []


def test_nvidia_smi_that_hangs(nvidia_smi, monkeypatch):
    two_gpus(nvidia_smi)

    def hang(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert devices.find_gpus() == []


@pytest.mark.parametrize("hidden", ["", "-1", "NoDevFiles"])
def test_gpus_hidden_by_cuda_visible_devices(nvidia_smi, monkeypatch, hidden):
    two_gpus(nvidia_smi)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert devices.find_gpus() == []


def test_gpus_that_cuda_visible_devices_names(nvidia_smi, monkeypatch):
    two_gpus(nvidia_smi)
    """The list is the machine's: which of them a process sees is for CUDA to say."""
    for visible in ("0,1", "1", "GPU-0a"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert devices.find_gpus() == GPUS


WHAT_TO_DO = (
    "change `devices` to auto or [cpu], run on a machine with a GPU and its driver, or submit with a cluster profile "
    "(snakemake --workflow-profile)"
)


def test_message_without_nvidia_smi(nvidia_smi):
    assert devices.no_gpu_message("the experiment e") == (
        "the experiment e asks for the device gpu, and this machine has none that can be used "
        f"(there is no nvidia-smi on the PATH); {WHAT_TO_DO}"
    )


def test_message_with_nvidia_smi(nvidia_smi):
    nvidia_smi("exit 9")
    assert devices.no_gpu_message("the experiment e") == (
        "the experiment e asks for the device gpu, and this machine has none that can be used "
        f"(nvidia-smi -L listed no NVIDIA GPU); {WHAT_TO_DO}"
    )


def test_message_where_the_gpu_is_hidden(nvidia_smi, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert devices.no_gpu_message("run x") == (
        "run x asks for the device gpu, and this machine has none that can be used "
        f"(there is no nvidia-smi on the PATH, with CUDA_VISIBLE_DEVICES='-1'); {WHAT_TO_DO}"
    )


def test_message_where_there_are_gpus_and_they_are_hidden(nvidia_smi, monkeypatch):
    """nvidia-smi would have listed two: the message must not say that it listed none."""
    two_gpus(nvidia_smi)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices.no_gpu_message("run x") == (
        "run x asks for the device gpu, and this machine has none that can be used "
        f"(CUDA_VISIBLE_DEVICES='' hides every GPU); {WHAT_TO_DO}"
    )


def test_message_where_one_gpu_is_chosen_and_none_is_there(nvidia_smi, monkeypatch):
    nvidia_smi("exit 9")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert "(nvidia-smi -L listed no NVIDIA GPU, with CUDA_VISIBLE_DEVICES='1')" in devices.no_gpu_message("run x")


# --- threads ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_limit_threads(threads):
    """In a process of its own: it can't be taken back."""
    code = (
        "import json, os, sys\n"
        "from trainmark.devices import THREAD_VARIABLES, limit_threads\n"
        "before = sorted(os.sched_getaffinity(0))\n"
        "limit_threads(int(sys.argv[1]))\n"
        "after = sorted(os.sched_getaffinity(0))\n"
        "print(json.dumps([before, after, [os.environ[name] for name in THREAD_VARIABLES], 'numpy' in sys.modules]))"
    )
    before, after, variables, numpy_imported = json.loads(python(code, str(threads)))
    assert after == before[:threads]
    assert variables == [str(threads)] * len(devices.THREAD_VARIABLES)
    assert not numpy_imported, "numpy would have read its threads before"


# --- the slot -----------------------------------------------------------------------------------------------------


def environment() -> dict:
    return os.environ | {"PYTHONPATH": str(SCRIPTS)}


def python(code: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment(), check=True, capture_output=True, text=True
    ).stdout


WORKER = """
import json, pathlib, sys, time
from trainmark.devices import device_slot
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
(folder / f"ready-{name}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
stretches = []
for _ in range(4):
    with device_slot("cpu", folder / "locks"):
        begin = time.monotonic()
        time.sleep(0.03)
        stretches.append([begin, time.monotonic()])
print(json.dumps(stretches))
"""

HOLDER = """
import pathlib, sys, time
from trainmark.devices import device_slot
with device_slot("cpu", pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def start(code: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=environment(), stdout=subprocess.PIPE, text=True
    )


def wait_for(condition) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("the workers did not get ready")


def test_two_processes_never_hold_the_device_at_once(tmp_path):
    """The monotonic clock is the system's: the stretches of both processes lie on one line."""
    names = ("a", "b")
    workers = [start(WORKER, str(tmp_path), name) for name in names]
    wait_for(lambda: all((tmp_path / f"ready-{name}").exists() for name in names))
    (tmp_path / "go").touch()
    outputs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    stretches = sorted(stretch for output in outputs for stretch in json.loads(output))
    assert len(stretches) == 8
    for (begin, end), (next_begin, _) in pairwise(stretches):
        assert begin < end <= next_begin


def test_the_lock_is_free_after_a_kill(tmp_path):
    holder = start(HOLDER, str(tmp_path))
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Timeout):
            FileLock(tmp_path / "cpu.lock").acquire(timeout=0.05)
        holder.send_signal(signal.SIGKILL)
        assert holder.wait(timeout=60) == -signal.SIGKILL
    finally:
        holder.kill()
        holder.communicate()
    with FileLock(tmp_path / "cpu.lock", timeout=30):
        pass


def free(lock: Path) -> bool:
    """Whether another process could take the lock now."""
    code = (
        "import sys\nfrom filelock import FileLock, Timeout\n"
        "try:\n    FileLock(sys.argv[1]).acquire(timeout=0)\nexcept Timeout:\n    print('taken')\n"
        "else:\n    print('free')"
    )
    return {"taken\n": False, "free\n": True}[python(code, str(lock))]


def test_a_slot_holds_its_own_device_alone_and_gives_it_back(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with devices.device_slot("gpu", tmp_path):
        assert not free(tmp_path / "gpu.lock")
        assert free(tmp_path / "cpu.lock")
    assert free(tmp_path / "gpu.lock")
    with pytest.raises(KeyError), devices.device_slot("gpu", tmp_path):
        raise KeyError("the run failed")
    assert free(tmp_path / "gpu.lock")


def test_a_cpu_run_sees_no_gpu_and_a_gpu_run_sees_what_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with devices.device_slot("gpu", tmp_path):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    with devices.device_slot("cpu", tmp_path):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_the_lock_folder_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "HOST_FOLDER", tmp_path)
    with devices.device_slot("gpu"):
        folder = tmp_path / f"trainmark-{os.getuid()}"
        assert (folder / "gpu.lock").exists()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_lock_folder_is_the_hosts_whatever_a_job_has_for_temporary_files(tmp_path, monkeypatch):
    """A batch system sets a TMPDIR for each job; with a lock in each, two jobs would time on one device."""
    assert Path("/tmp") == devices.HOST_FOLDER
    monkeypatch.setattr(devices, "HOST_FOLDER", tmp_path / "host")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "job"))
    (tmp_path / "host").mkdir()
    (tmp_path / "job").mkdir()
    with devices.device_slot("gpu"):
        assert [path.name for path in (tmp_path / "host").iterdir()] == [f"trainmark-{os.getuid()}"]
    assert not list((tmp_path / "job").iterdir())


def test_a_host_without_that_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "HOST_FOLDER", tmp_path / "not-there")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with devices.device_slot("gpu"):
        assert (tmp_path / f"trainmark-{os.getuid()}" / "gpu.lock").exists()
