"""The second CPU device of XLA, as the GPU of keras-jax: XLA computes on it as on a GPU, after the call returns."""

import os


def gpus(jax):
    """Return the second device, unless the GPUs are hidden."""
    return [] if os.environ.get("CUDA_VISIBLE_DEVICES") == "" else jax.devices()[1:]


def device_of(array):
    """Return what an array of a GPU would say of its device; keras_adapter._device_of."""
    return "cuda:0" if array.device.id == 1 else array.device


BACKEND = {
    "gpus": gpus,
    "gpu_name": lambda jax, gpu: "second CPU device",
    "peak_bytes": lambda jax, gpu: sum(array.nbytes for array in jax.live_arrays() if gpu in array.devices()),
}
"""The functions of keras_adapter.Backend that are another one's on a GPU."""
