"""Each framework's example, its stock loop and its tuned loop in turn on the GPU: tests/benchmarks/loops.py."""

import os
import statistics
import sys

import gpu_results
import pytest
from gpu_runs import installed
from gpu_stages import REPOSITORY, STAND_IN

sys.path.append(str(REPOSITORY / "tests" / "benchmarks"))  # its processes import the examples, too

import loops

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(100)]

ROUNDS = 3

SIZES = {"mnist-mlp-chainer": (1000, 100), "imagenet-resnet50": (8, 4)} if STAND_IN in os.environ else {}
"""Samples per epoch and batch size, if they are others than on a GPU."""

IN_TURN = {
    ("mnist-mlp-chainer", "torch"): loops.VARIANTS["cpu"],  # its products, and Chainer's, ship in float32
    ("mnist-mlp-chainer", "flax"): loops.VARIANTS["gpu"],
    ("mnist-mlp-chainer", "keras-jax"): loops.VARIANTS["gpu"],
    ("mnist-mlp-chainer", "chainer"): loops.VARIANTS["cpu"],
    ("imagenet-resnet50", "torch"): (*loops.VARIANTS["gpu"], "bfloat16"),
    ("imagenet-resnet50", "flax"): loops.VARIANTS["gpu"],
}
"""What trains in turn, by recipe and framework."""

COMPILED = {
    ("mnist-mlp-chainer", "flax"): ("tuned", loops.IN_COMMAND_BUFFER),
    ("mnist-mlp-chainer", "torch"): ("example", "compiled", "tuned"),
    ("imagenet-resnet50", "torch"): ("example", "compiled", "tuned"),
}
"""Also by compilers: torch.compile, and XLA with the loop of an epoch in a command buffer."""


def measure(recipe, framework, variants, record_property):
    """Record the epochs of each variant, and their ratios to those of the first one."""
    if framework not in installed():
        pytest.skip(f"{framework} is not installed")

    def keep(seconds):
        gpu_results.add({"recipe": recipe, "framework": framework, "seconds_of_rounds": seconds})

    result = loops.measured(framework, recipe, "gpu", variants, ROUNDS, SIZES.get(recipe), keep)
    seconds = result["seconds"]
    first = next(iter(seconds), None)
    for variant in seconds:
        epoch_seconds = statistics.median(seconds[variant])
        ratio = "" if variant == first else f", {loops.ratio(seconds[variant], seconds[first])} of {first}"
        record_property(
            variant, f"{epoch_seconds:.4f} s an epoch, {result['samples'] / epoch_seconds:.0f} samples/s{ratio}"
        )
    assert result["failed"] == {}


@pytest.mark.parametrize(("recipe", "framework"), IN_TURN)
def test_loops_beside_the_example(recipe, framework, record_property):
    measure(recipe, framework, IN_TURN[recipe, framework], record_property)


@pytest.mark.parametrize(("recipe", "framework"), COMPILED)
def test_loops_as_compilers_make_them(recipe, framework, record_property):
    measure(recipe, framework, COMPILED[recipe, framework], record_property)
