"""Enqueues long work on the GPU and stops the clock with and without a wait: does the clock check tell them apart?

Called by test_gpu_measurements.py with the name of a framework and the rows of its square matrices. Prints JSON.
"""

import json
import sys
import time

import numpy as np
from one_layer import one_layer_adapter

from trainmark.errors import MeasurementError
from trainmark.training.clock_check import ClockCheck

SIDE = int(sys.argv[2])
PRODUCTS = 60


def chainer_work(adapter):
    """A function that lets the bias of the network depend on many products, and does not wait for them."""
    cupy = adapter._device.xp
    matrix = cupy.zeros((SIDE, SIDE), dtype="float32")
    bias = adapter._network.dense.b.array

    def enqueue():
        product = matrix
        for _ in range(PRODUCTS):
            product = product.dot(matrix)
        bias[...] += product[0, 0]

    return enqueue


def keras_work(adapter):
    """The same in Keras."""
    from keras import ops

    matrix = ops.zeros((SIDE, SIDE), dtype="float32")
    bias = adapter._model.trainable_variables[-1]

    def enqueue():
        product = matrix
        for _ in range(PRODUCTS):
            product = ops.matmul(product, matrix)
        bias.assign(bias + product[0, 0])

    return enqueue


def flax_work(adapter):
    """The same in Flax."""
    import jax.numpy as jnp

    matrix = jnp.zeros((SIDE, SIDE), dtype="float32")
    bias = adapter._network.layer("dense").bias

    def enqueue():
        product = matrix
        for _ in range(PRODUCTS):
            product = product @ matrix
        bias.set_value(bias[...] + product[0, 0])

    return enqueue


def torch_work(adapter):
    """The same in torch."""
    import torch

    matrix = torch.zeros((SIDE, SIDE), dtype=torch.float32, device=adapter._device)
    bias = [*adapter._network.parameters()][-1]

    @torch.no_grad()
    def enqueue():
        product = matrix
        for _ in range(PRODUCTS):
            product = product @ matrix
        bias.add_(product[0, 0])

    return enqueue


WORK = {"chainer": chainer_work, "flax": flax_work, "keras": keras_work, "torch": torch_work}
"""By library, a function (adapter) -> function that enqueues the work."""


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


def main():
    """Print what the clock check says, and the ratio of the times."""
    adapter = one_layer_adapter(sys.argv[1])
    enqueue = WORK[adapter.framework.partition("-")[0]](adapter)
    enqueue()  # compiles
    adapter.weights()
    with_wait, waited = checked(adapter, enqueue, adapter.synchronize)
    without, enqueued = checked(adapter, enqueue, lambda: None)
    adapter.weights()
    print(
        json.dumps(
            {
                "with synchronize": with_wait,
                "without synchronize": without,
                "measured without by with": f"{np.median(enqueued) / np.median(waited):.4f}",
            }
        )
    )


if __name__ == "__main__":
    main()
