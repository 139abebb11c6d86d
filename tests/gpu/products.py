"""Lets a framework compute products on the GPU, for test_gpu_measurements.py, and prints JSON.

products.py clock <framework> <rows>: stops the clock with and without a wait. Does the clock check tell them apart?
products.py energy <framework> <UUID>: ten seconds of work, in joules of NVML's counter and of its power, read ten times
a second.
"""

import json
import sys
import threading
import time
from statistics import mean, median

from trainmark.errors import MeasurementError
from trainmark.frameworks.registry import create_adapter
from trainmark.machine import nvml
from trainmark.networks.graph import chain
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer
from trainmark.training.clock_check import ClockCheck

NETWORK = chain("one", (1,), [("dense", "Dense", {"units": 1})])
PRODUCTS = 60
SECONDS = 10


def one_layer_adapter(framework):
    """The adapter of a framework with a network of one layer."""
    adapter = create_adapter(framework, threads=2)
    adapter.build(
        architecture=NETWORK, weights=draw_initial_weights(NETWORK, "glorot_uniform", (1, 1)),
        optimizer=Optimizer("sgd", 0.1), device="gpu", dtype="float32",
    )  # fmt: skip
    return adapter


def of_chainer(adapter, side):
    """(a square matrix on the GPU, a function that adds a number there to the bias of the network)."""
    bias = adapter._network.dense.b.array
    return adapter._device.xp.zeros((side, side), dtype="float32"), lambda number: bias.__iadd__(number)


def of_flax(adapter, side):
    """The same in Flax."""
    import jax.numpy as jnp

    bias = adapter._network.layer("dense").bias
    return jnp.zeros((side, side), dtype="float32"), lambda number: bias.set_value(bias[...] + number)


def of_keras(adapter, side):
    """The same in Keras."""
    from keras import ops

    bias = adapter._model.trainable_variables[-1]
    return ops.zeros((side, side), dtype="float32"), lambda number: bias.assign(bias + number)


def of_torch(adapter, side):
    """The same in torch."""
    import torch

    bias = [*adapter._network.parameters()][-1]
    return torch.zeros((side, side), device=adapter._device), lambda number: bias.data.add_(number)


MATRICES = {"chainer": of_chainer, "flax": of_flax, "keras": of_keras, "torch": of_torch}
"""By library."""


def checked(adapter, enqueue, wait):
    """(accepted or refused by the clock check, seconds that the clock measured)."""
    check, seconds = ClockCheck(adapter), []
    try:
        for _ in range(3):
            begin = time.monotonic()
            enqueue()
            wait()
            seconds.append(time.monotonic() - begin)
            check.after(seconds[-1])
    except MeasurementError:
        return "refused", seconds
    return "accepted", seconds


def clock(framework, side):
    """What the clock check says, and the ratio of the times."""
    adapter = one_layer_adapter(framework)
    matrix, add_to_bias = MATRICES[framework.partition("-")[0]](adapter, int(side))

    def enqueue():
        """Let the bias depend on many products, and do not wait for them."""
        product = matrix
        for _ in range(PRODUCTS):
            product = product @ matrix
        add_to_bias(product[0, 0])

    enqueue()  # compiles
    adapter.weights()
    with_wait, waited = checked(adapter, enqueue, adapter.synchronize)
    without, enqueued = checked(adapter, enqueue, lambda: None)
    adapter.weights()
    ratio = f"{median(enqueued) / median(waited):.4f}"
    return {"with synchronize": with_wait, "without synchronize": without, "measured without by with": ratio}


def energy(framework, gpu):
    """(joules of the counter, mean power by time)."""
    work = one_layer_adapter(framework).matrix_operation("matmul", 8192, 20)
    work()
    watts, ended = [], threading.Event()

    def sample():
        while not ended.wait(0.1):
            watts.append(nvml.state(gpu)["power_watts"])

    sampling = threading.Thread(target=sample)
    end = time.monotonic() + 1
    while time.monotonic() < end:  # until the power is steady
        work()
    sampling.start()
    begin, before = time.monotonic(), nvml.energy_joules(gpu)
    while time.monotonic() < begin + SECONDS:
        work()
    seconds, joules = time.monotonic() - begin, nvml.energy_joules(gpu) - before
    ended.set()
    sampling.join()
    return joules, mean(watts) * seconds


if __name__ == "__main__":
    print(json.dumps({"clock": clock, "energy": energy}[sys.argv[1]](*sys.argv[2:])))
