"""Devices: which GPUs are found and given, what is said where there is none, and the threads of a run."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.machine import gpus

SCRIPTS = Path(gpus.__file__).parents[2]
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


def two_gpus(install) -> None:
    listing(install, GPUS)


def test_two_gpus(nvidia_smi):
    two_gpus(nvidia_smi)
    assert gpus.find_gpus() == GPUS


def test_an_instance_is_no_gpu_of_the_machine(nvidia_smi):
    listing(nvidia_smi, DIVIDED)
    assert gpus.find_gpus() == GPUS


def test_no_nvidia_smi(nvidia_smi):
    assert gpus.find_gpus() == []


def test_nvidia_smi_that_is_not_executable(nvidia_smi):
    nvidia_smi("echo 'GPU 0: x'", mode=0o644)
    assert gpus.find_gpus() == []


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
    assert gpus.find_gpus() == []


def test_nvidia_smi_that_can_not_be_run(nvidia_smi, tmp_path):
    nvidia_smi("exit 0")
    (tmp_path / "bin" / "nvidia-smi").write_bytes(b"\x7fELF not a program")
    assert gpus.find_gpus() == []


def test_nvidia_smi_that_hangs(nvidia_smi, monkeypatch):
    two_gpus(nvidia_smi)

    def hang(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert gpus.find_gpus() == []


@pytest.mark.parametrize("hidden", ["", "-1", "NoDevFiles"])
def test_gpus_hidden_by_cuda_visible_devices(nvidia_smi, monkeypatch, hidden):
    two_gpus(nvidia_smi)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert gpus.find_gpus() == []


def test_gpus_that_cuda_visible_devices_names(nvidia_smi, monkeypatch):
    """The list is the machine's; `visible_gpus` says which of them a process was given."""
    two_gpus(nvidia_smi)
    for visible in ("0,1", "1", "GPU-0a"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus.find_gpus() == GPUS


# --- the GPUs that this process was given -------------------------------------------------------------------------


def test_without_cuda_visible_devices_every_gpu_is_given(nvidia_smi):
    two_gpus(nvidia_smi)
    assert gpus.visible_gpus() == UUIDS


@pytest.mark.parametrize(
    ("variable", "given"),
    [
        ("0", ["GPU-0a"]),
        ("1", ["GPU-1b"]),
        ("1,0", ["GPU-1b", "GPU-0a"]),
        (" 1 , 0 ", ["GPU-1b", "GPU-0a"]),
        ("GPU-1b", ["GPU-1b"]),
        ("GPU-1", ["GPU-1b"]),
        ("GPU-1b,0", ["GPU-1b", "GPU-0a"]),
        ("MIG-2c", ["MIG-2c"]),
        ("MIG-GPU-0a/1/0", ["MIG-GPU-0a/1/0"]),
    ],
)
def test_numbers_uuids_and_beginnings_of_uuids_name_gpus(nvidia_smi, monkeypatch, variable, given):
    two_gpus(nvidia_smi)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert gpus.visible_gpus() == given


@pytest.mark.parametrize(
    ("variable", "given"),
    [
        ("2", []),
        ("1,2,0", ["GPU-1b"]),
        ("0,-1,1", ["GPU-0a"]),
        ("0,,1", ["GPU-0a"]),
        ("GPU-", []),  # the beginning of two
        ("GPU-9f,0", []),
        ("none", []),
        ("0,0,1", ["GPU-0a"]),
        ("-1", []),
        ("", []),
    ],
)
def test_the_first_wrong_entry_ends_the_list(nvidia_smi, monkeypatch, variable, given):
    two_gpus(nvidia_smi)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert gpus.visible_gpus() == given


def test_where_there_is_no_gpu_none_is_given(nvidia_smi, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert gpus.visible_gpus() == []


def test_a_gpu_without_a_uuid_is_named_by_its_number(nvidia_smi):
    nvidia_smi("echo 'GPU 0: Tesla K20'; echo 'GPU 1: Tesla K20'")
    assert gpus.visible_gpus() == ["0", "1"]


# --- divided GPUs (MIG) -------------------------------------------------------------------------------------------


def test_instances_stand_in_the_place_of_their_gpu(nvidia_smi):
    """CUDA does not compute on a GPU that is divided."""
    listing(nvidia_smi, DIVIDED)
    assert gpus.visible_gpus() == ["MIG-2c", "MIG-3d", "GPU-1b"]


def test_instances_belong_to_the_gpu_above_them(nvidia_smi):
    listing(nvidia_smi, [GPUS[1], GPUS[0], *DIVIDED[1:3]])
    assert gpus.visible_gpus() == ["GPU-1b", "MIG-2c", "MIG-3d"]


@pytest.mark.parametrize(
    ("variable", "given"),
    [
        ("0", ["MIG-2c"]),  # CUDA takes one instance only
        ("1", ["GPU-1b"]),  # numbers count GPUs, not instances
        ("2", []),
        ("1,0", ["GPU-1b", "MIG-2c"]),
        ("GPU-0a", ["MIG-2c"]),
        ("MIG-3d", ["MIG-3d"]),
        ("MIG-3d,0", ["MIG-3d", "MIG-2c"]),
        ("0,MIG-2c,1", ["MIG-2c"]),  # named twice
        ("", []),
    ],
)
def test_a_divided_gpu_that_is_named_means_its_first_instance(nvidia_smi, monkeypatch, variable, given):
    listing(nvidia_smi, DIVIDED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert gpus.visible_gpus() == given


# --- the sentence -------------------------------------------------------------------------------------------------

WHAT_TO_DO = (
    "change `devices` to auto or [cpu], or run on a machine with a GPU and its driver, or submit with a cluster "
    "profile (snakemake --workflow-profile)"
)


def test_message_without_nvidia_smi(nvidia_smi):
    assert gpus.no_gpu_message("the experiment e") == (
        f"the experiment e asks for the device gpu, and {platform.node()} has none that can be used "
        f"(there is no nvidia-smi on the PATH); {WHAT_TO_DO}"
    )


def test_message_with_nvidia_smi(nvidia_smi):
    nvidia_smi("exit 9")
    assert gpus.no_gpu_message("the experiment e") == (
        f"the experiment e asks for the device gpu, and {platform.node()} has none that can be used "
        f"(nvidia-smi -L listed no NVIDIA GPU); {WHAT_TO_DO}"
    )


def test_message_where_the_gpu_is_hidden(nvidia_smi, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpus.no_gpu_message("run x") == (
        f"run x asks for the device gpu, and {platform.node()} has none that can be used "
        f"(there is no nvidia-smi on the PATH, with CUDA_VISIBLE_DEVICES='-1'); {WHAT_TO_DO}"
    )


def test_message_where_there_are_gpus_and_they_are_hidden(nvidia_smi, monkeypatch):
    """nvidia-smi would have listed two: the message must not say that it listed none."""
    two_gpus(nvidia_smi)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus.no_gpu_message("run x") == (
        f"run x asks for the device gpu, and {platform.node()} has none that can be used "
        f"(CUDA_VISIBLE_DEVICES='' hides every GPU); {WHAT_TO_DO}"
    )


def test_message_where_one_gpu_is_chosen_and_none_is_there(nvidia_smi, monkeypatch):
    nvidia_smi("exit 9")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert "(nvidia-smi -L listed no NVIDIA GPU, with CUDA_VISIBLE_DEVICES='1')" in gpus.no_gpu_message("run x")


def test_message_where_no_gpu_of_that_number_is_there(nvidia_smi, monkeypatch):
    two_gpus(nvidia_smi)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "(nvidia-smi -L lists no such GPU, with CUDA_VISIBLE_DEVICES='7')" in gpus.no_gpu_message("run x")


# --- threads ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_a_process_is_held_to_its_cpus_with_a_thread_each(count):
    """In a process of its own: it can't be taken back."""
    held = sorted(os.sched_getaffinity(0))[-count:]
    code = (
        "import json, os, sys\n"
        "from trainmark.machine.gpus import THREAD_VARIABLES, limit_threads\n"
        "limit_threads(json.loads(sys.argv[1]))\n"
        "variables = [os.environ[name] for name in THREAD_VARIABLES]\n"
        "print(json.dumps([sorted(os.sched_getaffinity(0)), variables, 'numpy' in sys.modules]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, json.dumps(held)],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    affinity, variables, numpy_imported = json.loads(output)
    assert affinity == held
    assert variables == [str(len(held))] * len(gpus.THREAD_VARIABLES)
    assert not numpy_imported, "numpy would have read its threads before"


def test_a_system_without_affinity_still_has_its_threads_limited(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    for variable in gpus.THREAD_VARIABLES:
        monkeypatch.setenv(variable, "9")
    gpus.limit_threads([4, 5, 6])
    assert {os.environ[variable] for variable in gpus.THREAD_VARIABLES} == {"3"}


def test_message_in_a_job_of_a_cluster_names_the_host_and_the_site_file(nvidia_smi, monkeypatch):
    monkeypatch.setenv("TRAINMARK_CLUSTER_JOB", "trainmark-train-1-2")
    message = gpus.no_gpu_message("this run")
    assert f"and {platform.node()} has none that can be used" in message
    assert message.endswith("or give its GPU jobs options that lead to nodes with a GPU (options.gpu in the site file)")
    assert "cluster profile" not in message
