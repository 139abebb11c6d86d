"""Random numbers; their values are numpy's, not cuRAND's."""

import numpy

from cupy._array import ndarray

_generator = numpy.random.default_rng()


def seed(seed=None):
    """Seed the generator. Raises what CuPy raises for other seeds than integers from 0 to 2**64 - 1."""
    global _generator
    if seed is not None and numpy.asarray(seed).dtype.kind not in "biu":
        raise TypeError("Seed must be an integer.")
    if seed is not None and not 0 <= seed < 2**64:
        raise ValueError("Seed must be an integer between 0 and 2**64 - 1")
    _generator = numpy.random.default_rng(seed)


def rand(*size, dtype=float):
    """Return uniform numbers from 0 to 1."""
    return ndarray(_generator.random(size, dtype))


def normal(loc=0.0, scale=1.0, size=None, dtype=float):
    """Return normal numbers."""
    return ndarray(_generator.normal(loc, scale, size).astype(dtype))
