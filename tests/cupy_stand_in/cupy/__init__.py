"""A stand-in for CuPy 14: what Chainer's GPU path needs of it for our layers and update rules, on numpy and g++.

It lets tests without a GPU execute that path, and shows errors that CuPy would show: host and device arrays do not mix,
the device works on after a call returns, and the kernels are Chainer's own. Every public name is also in CuPy 14.

Environment variables: CUPY_CACHE_DIR (folder of compiled kernels) and CUPY_GPU_MEMORY_LIMIT (here only in bytes) are
CuPy's own; CUPY_STAND_IN_KERNEL_SECONDS is the time that the device takes for an operation.
"""

# ruff: noqa: F401 (names of the package)

import numpy

from cupy import cuda, random
from cupy._array import FUNCTIONS, array, empty, empty_like, ndarray, split
from cupy._kernels import ElementwiseKernel, ReductionKernel
from cupy._util import fuse, memoize
from cupy.cuda.memory import default_pool

__version__ = "14.2.0"

asarray = array
vars().update(FUNCTIONS)


def get_default_memory_pool():
    """Return the pool that all arrays are allocated from."""
    return default_pool


def get_default_pinned_memory_pool():
    """Return None: Chainer asks for this pool when it is imported, and does not use it."""


def get_array_module(*arguments):
    """Return this module if an argument is one of its arrays, and numpy otherwise."""
    return __import__(__name__) if any(isinstance(argument, ndarray) for argument in arguments) else numpy
