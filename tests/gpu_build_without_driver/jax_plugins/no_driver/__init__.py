"""Does what JAX's CUDA plug-in does on a machine without a driver: JAX logs the traceback of this error."""

from jax._src import config


def initialize():
    print("the CUDA plug-in was asked", flush=True)
    if config.jax_platforms.value != "cpu":
        raise RuntimeError("cuInit(0) failed")
