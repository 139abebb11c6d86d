"""A machine with a GPU, pretended in every Python process with this folder on its PYTHONPATH: gpu_parts.py --stand-in.

CuPy is tests/cupy_stand_in, and the GPU of keras-jax and flax a second CPU device of XLA. TensorFlow and torch, which
have no stand-in, seem not to be installed.
"""

import importlib.machinery
import importlib.util
import os
import sys

import second_device

WITHOUT_STAND_IN = ("tensorflow", "torch")


def out_of_memory():
    """Raise the error of JAX without memory, if its variable leaves it none."""
    import jax

    if "XLA_CLIENT_MEM_FRACTION" in os.environ:
        jax.numpy.zeros(1 << 50)


def use_second_device():
    """Let JAX put its arrays on the second CPU device, unless it is hidden."""
    import jax

    jax.config.update("jax_num_cpu_devices", 2)  # the adapters ask for one
    for gpu in second_device.gpus(jax):
        jax.config.update("jax_default_device", gpu)


def pretend_keras(adapter):
    """Let the adapter of Keras take the second CPU device for a GPU."""
    use_second_device()
    data = lambda jax, array: out_of_memory() or array  # noqa: E731
    adapter.BACKENDS["jax"] = adapter.BACKENDS["jax"]._replace(**second_device.BACKEND, data=data)
    adapter._device_of = second_device.device_of


def pretend_flax(adapter):
    """The same for the adapter of Flax."""
    use_second_device()
    for name, function in second_device.BACKEND.items():
        setattr(adapter.jax_platform, name, function)
    to_channels_last = adapter.to_channels_last
    adapter.to_channels_last = lambda array: out_of_memory() or to_channels_last(array)


ADAPTERS = {
    "trainmark.frameworks.flax_adapter": pretend_flax,
    "trainmark.frameworks.keras_adapter": pretend_keras,
}


class Finder:
    """Finds adapters as Python does, and calls their functions of ADAPTERS after their import."""

    def find_spec(self, name, path=None, target=None):
        """Called for each import."""
        if name not in ADAPTERS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            ADAPTERS[name](module)

        spec.loader.exec_module = exec_module
        return spec


def find_spec(name, package=None, find=importlib.util.find_spec):
    """Find a module, except those that have no stand-in."""
    return None if name in WITHOUT_STAND_IN else find(name, package)


sys.meta_path.insert(0, Finder())
importlib.util.find_spec = find_spec
