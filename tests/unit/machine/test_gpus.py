"""Devices: which GPUs are found and given, what is said where there is none, and the threads of a run."""

import json
import os
import subprocess
import sys

import pytest
from harness import importing

from trainmark.machine import gpus

GPUS = ["GPU 0: NVIDIA H200 (UUID: GPU-0a)", "GPU 1: NVIDIA H200 (UUID: GPU-1b)"]
UUIDS = ["GPU-0a", "GPU-1b"]


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


DIVIDED = [
    GPUS[0],
    "  MIG 1g.18gb     Device  0: (UUID: MIG-2c)",
    "  MIG 1g.18gb     Device  1: (UUID: MIG-3d)",
    GPUS[1],
]
"""The first of the two GPUs has two instances."""


def listing(install, lines) -> None:
    """nvidia-smi -L prints these lines."""
    install('[ "$1" = -L ] || exit 3\n' + "\n".join(f"echo '{line}'" for line in lines))


@pytest.mark.parametrize("lines", [GPUS, DIVIDED])
def test_the_gpus_of_the_machine_without_their_instances_unless_all_are_hidden(nvidia_smi, monkeypatch, lines):
    assert gpus.find_gpus() == [], "there is no nvidia-smi"
    nvidia_smi("echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9")
    assert gpus.find_gpus() == []
    listing(nvidia_smi, lines)
    assert gpus.find_gpus() == GPUS
    for visible, found in (("1", GPUS), ("", []), ("-1", []), ("NoDevFiles", [])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus.find_gpus() == found


@pytest.mark.parametrize(
    ("lines", "variable", "given"),
    [
        (GPUS, None, UUIDS),
        (DIVIDED, None, ["MIG-2c", "MIG-3d", "GPU-1b"]),  # CUDA does not compute on a GPU that is divided
        ([], "0", []),
        (GPUS, " 1 , 0 ", ["GPU-1b", "GPU-0a"]),
        (GPUS, "GPU-1", ["GPU-1b"]),  # the beginning of one
        (GPUS, "MIG-GPU-0a/1/0", ["MIG-GPU-0a/1/0"]),
        # the first wrong entry ends the list
        (GPUS, "1,2,0", ["GPU-1b"]),
        (GPUS, "0,-1,1", ["GPU-0a"]),
        (GPUS, "GPU-", []),  # the beginning of two
        # a divided GPU means its first instance: CUDA takes one only
        (DIVIDED, "1,0", ["GPU-1b", "MIG-2c"]),  # numbers count GPUs, not instances
        (DIVIDED, "GPU-0a", ["MIG-2c"]),
        (DIVIDED, "MIG-3d,0", ["MIG-3d", "MIG-2c"]),
        (DIVIDED, "0,MIG-2c,1", ["MIG-2c"]),  # named twice
    ],
)
def test_the_gpus_that_cuda_visible_devices_gives(nvidia_smi, monkeypatch, lines, variable, given):
    listing(nvidia_smi, lines)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert gpus.visible_gpus() == given


@pytest.mark.parametrize(
    ("body", "visible", "why"),
    [
        (None, "-1", "there is no nvidia-smi on the PATH, with CUDA_VISIBLE_DEVICES='-1'"),
        ("exit 9", None, "nvidia-smi -L lists no NVIDIA GPU, or all are hidden"),
        ("echo 'NVIDIA-SMI has failed.'; exit 9", None, "nvidia-smi -L says: NVIDIA-SMI has failed"),
        (f"echo '{GPUS[0]}'", "", "lists no NVIDIA GPU, or all are hidden, with CUDA_VISIBLE_DEVICES=''"),
        (f"echo '{GPUS[0]}'", "7", "nvidia-smi -L lists no such GPU, with CUDA_VISIBLE_DEVICES='7'"),
    ],
)
def test_the_message_says_why_there_is_none(nvidia_smi, monkeypatch, body, visible, why):
    if body is not None:
        nvidia_smi(body)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert f"{why}); change" in gpus.no_gpu_message("run x")


def test_message_in_a_job_of_a_cluster_names_the_site_file(nvidia_smi, monkeypatch):
    monkeypatch.setenv("TRAINMARK_CLUSTER_JOB", "trainmark-train-1-2")
    message = gpus.no_gpu_message("this run")
    assert message.endswith("or give its GPU jobs options that lead to nodes with a GPU (options.gpu in the site file)")
    assert "cluster profile" not in message


def test_a_process_is_held_to_its_cpus_with_a_thread_each():
    """In a process of its own: it can't be taken back."""
    held = sorted(os.sched_getaffinity(0))[-1:]
    code = (
        "import json, os, sys\n"
        "from trainmark.machine.gpus import THREAD_VARIABLES, limit_threads\n"
        "limit_threads(json.loads(sys.argv[1]))\n"
        "variables = [os.environ[name] for name in THREAD_VARIABLES]\n"
        "print(json.dumps([sorted(os.sched_getaffinity(0)), variables, 'numpy' in sys.modules]))"
    )
    command = [sys.executable, "-c", code, json.dumps(held)]
    affinity, variables, numpy_imported = json.loads(subprocess.check_output(command, env=importing()))
    assert affinity == held
    assert variables == [str(len(held))] * len(gpus.THREAD_VARIABLES)
    assert not numpy_imported, "numpy would have read its threads before"
