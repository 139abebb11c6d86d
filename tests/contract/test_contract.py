"""Runs the contract suite over every adapter, each in its own process, because Keras has one backend per process."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from trainmark.frameworks.registry import known_frameworks

SUITE = Path(__file__).with_name("contract_suite.py")
DIFFERENCES = {
    framework: suite
    for framework in known_frameworks()
    if (suite := SUITE.with_name(f"{framework.partition('-')[0]}_differences_suite.py")).exists()
}
"""The suite of the differences of a framework's library. Those of Chainer are in tests/unit/frameworks."""
GPU_PATH = Path(__file__).with_name("gpu_path_suite.py")

QUICKLY_COMPILED = " ".join([
    os.environ.get("XLA_FLAGS", ""), "--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true",
    # Later versions have no other emitters, and end at a flag that they do not know.
    *(["--xla_cpu_use_fusion_emitters=false"] if version("jaxlib").startswith("0.10.") else []),
])  # fmt: skip
"""Flags of XLA with which the suite takes a third of its time, most of which XLA needs for compiling."""

OF_TWO_PROGRAMS = "from_memory or unobserved"
"""Tests in which two programs compute the same bits. They do with XLA's own optimization alone."""

QUICK = {("chainer", "tuned"), *((name, "stock") for name in ("chainer", "flax", "torch"))}
"""The trainers (framework, loop) of which every `make test` runs the suite. Keras takes as long as these together."""

TRAINERS = [
    pytest.param(name, loop, marks=() if (name, loop) in QUICK else pytest.mark.slow)
    for name, entry in known_frameworks().items()
    for loop in entry.loops
]

COMPILED_WITH_XLA = [
    ("flax", "stock"), ("flax", "tuned"), ("keras-jax", "stock"), ("keras-jax", "tuned"), ("keras-tensorflow", "tuned"),
]  # fmt: skip


def run_suite(suite, framework, *options, least, **environment):
    """Run a suite of tests for one framework in its own process; how many passed.

    At least `least` tests must pass. None may be skipped, except those of another framework.
    """
    missing = known_frameworks()[framework].missing_packages()
    if missing:
        pytest.skip(f"{framework}: {', '.join(missing)} is not installed (an optional extra)")
    command = [sys.executable, "-m", "pytest", str(suite), "--framework", framework, *options]
    command += ["-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed >= least, done.stdout[-2000:]
    skipped = re.findall(r"SKIPPED .*", done.stdout)
    assert all(" alone" in line for line in skipped), skipped
    return passed


@pytest.mark.parametrize(("framework", "loop"), TRAINERS)
def test_adapter_fulfils_the_contract(framework, loop):
    others = ("-k", f"not ({OF_TWO_PROGRAMS})") if (framework, loop) in COMPILED_WITH_XLA else ()
    run_suite(SUITE, framework, "--loop", loop, *others, least=60, XLA_FLAGS=QUICKLY_COMPILED)


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "loop"), COMPILED_WITH_XLA)
def test_two_programs_compute_the_same_bits(framework, loop):
    run_suite(SUITE, framework, "--loop", loop, "-k", OF_TWO_PROGRAMS, least=4)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["flax", "keras-jax"])
def test_the_gpu_path_trains_on_a_second_cpu_device(framework):
    run_suite(
        GPU_PATH, framework, "--device", "gpu", least=12, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu",
        PYTHONPATH=str(Path(__file__).parents[1] / "unit" / "training"),
        XLA_FLAGS=f"{QUICKLY_COMPILED} --xla_force_host_platform_device_count=2",
    )  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize(("framework", "loop"), COMPILED_WITH_XLA)
def test_adapter_fulfils_the_contract_with_xlas_own_optimization(framework, loop):
    run_suite(SUITE, framework, "--loop", loop, least=60)


@pytest.mark.slow
@pytest.mark.parametrize("framework", DIFFERENCES)
def test_a_framework_has_the_documented_differences(framework):
    backend = {"KERAS_BACKEND": framework.removeprefix("keras-")} if framework.startswith("keras-") else {}
    run_suite(DIFFERENCES[framework], framework, least=10, **backend)
