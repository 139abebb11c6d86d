"""A machine with a GPU, pretended in every Python process with this folder on its PYTHONPATH: gpu_parts.py --stand-in.

CuPy is tests/cupy_stand_in, and the GPU of keras-jax a second CPU device of XLA. TensorFlow and torch, which have no
stand-in, seem not to be installed.
"""

import importlib.machinery
import importlib.util
import os
import sys

import second_device

WITHOUT_STAND_IN = ("tensorflow", "torch")
ADAPTER = "trainmark.frameworks.keras_adapter"


def pretend(adapter):
    """Let the adapter of Keras take the second CPU device for a GPU, and put its arrays there unless it is hidden."""
    import jax

    def data(jax, array):
        return jax.numpy.zeros(1 << 50) if "XLA_CLIENT_MEM_FRACTION" in os.environ else array

    for gpu in second_device.gpus(jax):
        jax.config.update("jax_default_device", gpu)
    adapter.BACKENDS["jax"] = adapter.BACKENDS["jax"]._replace(**second_device.BACKEND, data=data)
    adapter._device_of = second_device.device_of


class Finder:
    """Finds the adapter of Keras as Python does, and calls `pretend` after its import."""

    def find_spec(self, name, path=None, target=None):
        """Called for each import."""
        if name != ADAPTER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            pretend(module)

        spec.loader.exec_module = exec_module
        return spec


def find_spec(name, package=None, find=importlib.util.find_spec):
    """Find a module, except those that have no stand-in."""
    return None if name in WITHOUT_STAND_IN else find(name, package)


sys.meta_path.insert(0, Finder())
importlib.util.find_spec = find_spec
