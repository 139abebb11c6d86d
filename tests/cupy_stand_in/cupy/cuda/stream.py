"""The device's queue: what the host asks for is done later, and only a wait makes sure that it is done."""

import os
import time

import numpy

kernel_seconds = float(os.environ.get("CUPY_STAND_IN_KERNEL_SECONDS", "1e-6"))
"""Time that the device takes for an operation."""

_done_at = 0.0
_unfinished_copies = []
_generator = numpy.random.default_rng()


def enqueue():
    """Queue an operation. Its result is already there, but the host can read it only after a wait."""
    global _done_at
    _done_at = max(_done_at, time.monotonic()) + kernel_seconds


def wait():
    """Wait until the device has done its queue."""
    time.sleep(max(0.0, _done_at - time.monotonic()))
    while _unfinished_copies:
        host, values = _unfinished_copies.pop()
        host[...] = values


def copy_to_host(values, blocking):
    """Return a copy of an array. Unless blocking, its content is random until somebody waits for the device."""
    enqueue()
    host = garbage(values.shape, values.dtype)
    _unfinished_copies.append((host, values.copy()))
    if blocking:
        wait()
    return host


def garbage(shape, dtype):
    """Return an array with random bytes: memory that nobody has written yet."""
    array = numpy.empty(shape, dtype)
    array.reshape(-1).view(numpy.uint8)[...] = numpy.frombuffer(_generator.bytes(array.nbytes), numpy.uint8)
    return array


class Event:
    """Chainer imports it and does not use it for training."""


class Stream:
    """The only stream."""

    def synchronize(self):
        """Wait until the device has done its queue."""
        wait()


Stream.null = Stream()
