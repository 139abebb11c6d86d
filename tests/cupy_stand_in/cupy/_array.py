"""Arrays on the device, and functions of them. They hold numpy arrays, but are none, and mix with none."""

import sys

import numpy
from numpy.lib.mixins import NDArrayOperatorsMixin

from cupy import cuda
from cupy.cuda.memory import default_pool
from cupy.cuda.stream import copy_to_host, enqueue, garbage

SCALARS = (bool, int, float, complex, numpy.generic)


def values_of(argument):
    """Return the numpy arrays in an argument of a function. Raises TypeError for an array on the host."""
    if isinstance(argument, numpy.ndarray):
        raise TypeError(f"Unsupported type {type(argument)}")
    if isinstance(argument, list | tuple):
        return type(argument)(map(values_of, argument))
    return argument._values if isinstance(argument, ndarray) else argument


def on_device(result):
    """Return arrays on the device for the arrays and scalars that numpy returned."""
    if isinstance(result, list | tuple):
        return type(result)(map(on_device, result))
    return ndarray(numpy.asarray(result)) if isinstance(result, numpy.ndarray | numpy.generic) else result


def device_function(function):
    """Return a function of arrays on the device that computes what a function of numpy does."""

    def compute(*arguments, **options):
        enqueue()
        result = on_device(function(*values_of(arguments), **{key: values_of(one) for key, one in options.items()}))
        return options.get("out", result)

    return compute


class ndarray(NDArrayOperatorsMixin):
    """An array on the device."""

    def __init__(self, values):
        default_pool.allocate(values)
        self._values = values

    @property
    def device(self):
        """The device, which has the number 0."""
        return cuda.Device(0)

    @property
    def T(self):
        """The transposed array."""
        return self.transpose()

    def get(self, stream=None, blocking=True):
        """Return a copy on the host; unless blocking, it is valid after the next wait for the device."""
        return copy_to_host(self._values, blocking)

    def set(self, values):
        """Copy an array of the host into this one, which must have the same shape and dtype and be contiguous."""
        if not isinstance(values, numpy.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != values.dtype:
            raise TypeError(f"{values.dtype} array cannot be set to {self.dtype} array")
        if self.shape != values.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {values.shape}")
        if not (self.flags.c_contiguous or self.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        enqueue()
        self._values[...] = values

    def reduced_view(self):
        """Return the array; CuPy may join axes, which changes no index of a kernel."""
        return self

    def __len__(self):
        return len(self._values)

    def __getitem__(self, index):
        enqueue()
        return on_device(self._values[_index(index)])

    def __setitem__(self, index, value):
        if isinstance(value, numpy.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        enqueue()
        self._values[_index(index)] = value._values if isinstance(value, ndarray) else value

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        function = getattr(sys.modules["cupy"], ufunc.__name__, None)
        known = all(isinstance(one, (ndarray, numpy.ndarray, *SCALARS)) for one in (*inputs, *out))
        if method != "__call__" or function is None or not known:
            return NotImplemented
        return function(*inputs, **options, **({"out": out[0]} if out else {}))

    def __array_function__(self, function, types, arguments, options):
        own = getattr(sys.modules["cupy"], function.__name__, None)
        if own is None or not all(issubclass(one, (ndarray, numpy.ndarray)) for one in types):
            return NotImplemented
        return own(*arguments, **options)


def _index(index):
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    return index._values if isinstance(index, ndarray) else index


def _attribute(name):
    return property(lambda array: getattr(array._values, name))


def _read(name):
    return lambda array: getattr(array.get(), name)()


for _name in ("dtype", "flags", "nbytes", "ndim", "shape", "size"):
    setattr(ndarray, _name, _attribute(_name))
for _name in ("__bool__", "__float__", "__int__", "item"):
    setattr(ndarray, _name, _read(_name))
for _name in ("argmax", "astype", "dot", "max", "mean", "reshape", "squeeze", "sum", "swapaxes", "transpose", "var"):
    setattr(ndarray, _name, device_function(getattr(numpy.ndarray, _name)))

NAMES = """add arange broadcast_arrays broadcast_to concatenate divide dot equal exp expand_dims full log matmul
maximum mean multiply negative not_equal ones_like power reciprocal rollaxis sqrt square squeeze stack
subtract tanh tensordot triu zeros zeros_like"""
FUNCTIONS = {name: device_function(getattr(numpy, name)) for name in NAMES.split()}
"""Functions that do what numpy's do, by name: those that Chainer calls for our layers and its own example."""


def array(values, dtype=None, copy=True):
    """Return an array on the device from one on the host or the device, or from numbers."""
    enqueue()
    return ndarray(numpy.array(values._values if isinstance(values, ndarray) else values, dtype))


def empty(shape, dtype=float):
    """Return an array that nobody has written yet."""
    return ndarray(garbage(shape, dtype))


def empty_like(array, dtype=None):
    """Return an array that nobody has written yet."""
    return empty(array.shape, dtype or array.dtype)


def split(array, indices, axis=0):
    """Return parts of an array. The indices at which they begin are on the host."""
    return on_device(numpy.split(array._values, indices, axis))
