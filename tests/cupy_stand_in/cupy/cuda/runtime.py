"""The CUDA runtime of a machine with one GPU, which CUDA_VISIBLE_DEVICES may hide."""

import os


class CUDARuntimeError(RuntimeError):
    """An error of the CUDA runtime."""


def getDeviceCount():
    """Return 1. Raises CUDARuntimeError if the GPU is hidden."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
    return 1


def getDeviceProperties(device):
    """Return the name of the GPU."""
    return {"name": b"stand-in for a GPU"}


def check_device(device):
    """Raise CUDARuntimeError unless this is the number of a GPU."""
    if device >= getDeviceCount():
        raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
