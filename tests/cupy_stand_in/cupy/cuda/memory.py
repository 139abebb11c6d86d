"""The memory pool: it counts the arrays that are there, and keeps what is freed for later arrays."""

import os
import weakref

import numpy

UNIT = 512
"""Sizes of allocations are multiples of this, as in CuPy."""


class OutOfMemoryError(MemoryError):
    """The pool's limit is reached."""

    def __init__(self, size, total, limit):
        super().__init__(
            f"Out of memory allocating {size:,} bytes "
            f"(allocated so far: {total:,} bytes, limit set to: {limit:,} bytes)."
        )


class MemoryPool:
    """Counts the memory of arrays. Views share the memory of their base."""

    def __init__(self):
        self._owners, self._used, self._total = {}, 0, 0
        self._limit = int(os.environ.get("CUPY_GPU_MEMORY_LIMIT", "0"))

    def allocate(self, values):
        """Count a numpy array until it is freed; a view of a counted one is not counted again."""
        while isinstance(values.base, numpy.ndarray):
            values = values.base
        key, size = id(values), -(-values.nbytes // UNIT) * UNIT
        if key in self._owners:
            return
        if self._limit and self._used + size > self._limit:
            raise OutOfMemoryError(size, self._total, self._limit)

        def free(_):
            del self._owners[key]
            self._used -= size

        self._owners[key] = weakref.ref(values, free)
        self._used += size
        self._total = max(self._total, self._used)

    def total_bytes(self):
        """Return the size of the pool, which never shrinks."""
        return self._total


default_pool = MemoryPool()
