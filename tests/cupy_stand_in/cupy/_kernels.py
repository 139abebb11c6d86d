"""Kernels: Chainer's own code in CUDA C++, compiled by g++ as a loop on the host."""

import ctypes
import functools
import hashlib
import math
import os
import random
import subprocess
import tempfile
from pathlib import Path

import numpy

from cupy._array import SCALARS, ndarray
from cupy.cuda.stream import enqueue, garbage

PRELUDE = """
typedef long ptrdiff_t;
template <class T> T sqrt(T x) { return sizeof(T) == 4 ? __builtin_sqrtf(x) : __builtin_sqrt(x); }
template <class T> T pow(T x, T y) { return sizeof(T) == 4 ? __builtin_powf(x, y) : __builtin_pow(x, y); }
template <class T> T erf(T x) { return sizeof(T) == 4 ? __builtin_erff(x) : __builtin_erf(x); }
template <class T> T exp(T x) { return sizeof(T) == 4 ? __builtin_expf(x) : __builtin_exp(x); }
template <class T> T tanh(T x) { return sizeof(T) == 4 ? __builtin_tanhf(x) : __builtin_tanh(x); }
template <class T> T max(T x, T y) { return x > y ? x : y; }
template <class T> T min(T x, T y) { return x < y ? x : y; }
template <class T> void atomicAdd(T* sum, T x) { *sum += x; }
template <class T> struct CArray {
  T* values;
  const ptrdiff_t* shape;
  T& operator[](ptrdiff_t i) const { return values[i]; }
  template <int N> T& operator[](const ptrdiff_t (&index)[N]) const {
    ptrdiff_t i = 0;
    for (int axis = 0; axis < N; ++axis) i = i * shape[axis] + index[axis];
    return values[i];
  }
};
extern "C" void kernel(ptrdiff_t _size, ptrdiff_t _first, void** _arrays, ptrdiff_t** _shapes) {
"""
"""What the code of kernels uses, without a header: g++ takes three times as long with <cmath>."""

C_TYPES = {"bool": "bool", "int32": "int", "int64": "long", "float32": "float", "float64": "double"}

_cache = os.environ.get("CUPY_CACHE_DIR") or tempfile.mkdtemp(prefix="cupy-stand-in-")


@functools.cache
def compiled(code):
    """Return the function of C++ code. The compiled code is kept in the folder CUPY_CACHE_DIR."""
    library = Path(_cache, f"{hashlib.sha256(code.encode()).hexdigest()}.so")
    if not library.exists():
        temporary = library.with_suffix(f".{os.getpid()}")
        command = ["g++", "-x", "c++", "-O1", "-w", "-shared", "-fPIC", "-o", temporary, "-"]
        subprocess.run(command, input=code, text=True, check=True)
        temporary.rename(library)
    return ctypes.CDLL(library).kernel


class Parameter:
    """A parameter of a kernel, such as "raw T x".

    whole: the kernel uses the argument as a whole, and not its element at each index.
    """

    def __init__(self, text, whole=False):
        *words, self.type, self.name = text.split()
        self.raw = "raw" in words
        self.whole = self.raw or whole

    def declaration(self, position, argument, index):
        """Return the C++ declaration of the argument at a position of the list, or of its element at an index."""
        values = f"(({self.type}*)_arrays[{position}])"
        if self.raw:
            return f"CArray<{self.type}> {self.name} = {{{values}, _shapes[{position}]}};\n"
        return f"{self.type}& {self.name} = {values}[{index if is_spread(self, argument) else 0}];\n"

    def contiguous(self, argument, dtype, shape):
        """Return the argument as a contiguous numpy array of a dtype, broadcast to the shape of the loop."""
        if not isinstance(argument, ndarray):
            return numpy.array(argument, dtype)
        values = argument._values if self.whole else numpy.broadcast_to(argument._values, shape)
        return argument._values if values.flags.c_contiguous and values.shape == argument.shape else values.copy()


def is_spread(parameter, argument):
    """Whether a kernel gets the argument's elements one by one."""
    return isinstance(argument, ndarray) and not parameter.whole


class Kernel:
    """What both kinds of kernels have in common.

    index: name of the loop's index.
    loop: code of the loop, with `{elements}` where the elements at an index are declared.
    """

    def __init__(self, inputs, outputs, index, loop):
        self.inputs, self.outputs, self.index, self.loop = inputs, outputs, index, loop

    def __call__(self, *arguments, size=None):
        parameters = self.inputs + self.outputs
        types = self._types(list(zip(parameters[: len(arguments)], arguments, strict=True)))
        spread = [pair[1].shape for pair in zip(parameters, arguments, strict=False) if is_spread(*pair)]
        shape = numpy.broadcast_shapes(*spread) if size is None else (size,)
        new = (ndarray(garbage(() if one.whole else shape, types[one.type])) for one in parameters[len(arguments) :])
        arguments += tuple(new)
        self._run(list(zip(parameters, arguments, strict=True)), types, shape)
        outputs = arguments[len(self.inputs) :]
        return outputs[0] if len(outputs) == 1 else outputs

    def _types(self, pairs):
        """Return the dtype of each type in the parameters. Raises TypeError if arrays do not have it."""
        types = {}
        for parameter, argument in pairs:
            if len(parameter.type) > 1:
                types[parameter.type] = numpy.dtype(parameter.type)
            if isinstance(argument, ndarray):
                if types.setdefault(parameter.type, argument.dtype) != argument.dtype:
                    raise TypeError(f"Type is mismatched. {parameter.name} {argument.dtype} {types[parameter.type]}")
            elif not isinstance(argument, SCALARS):
                raise TypeError(f"Unsupported type {type(argument)}")
        return types

    def _run(self, pairs, types, shape):
        """Run the loop over all indices of a shape. It starts anywhere, because threads have no order."""
        enqueue()
        declarations = {True: "", False: ""}
        for position, (parameter, argument) in enumerate(pairs):
            declarations[parameter.whole] += parameter.declaration(position, argument, self.index)
        typedefs = "".join(f"typedef {C_TYPES[dtype.name]} {name};\n" for name, dtype in types.items())
        code = PRELUDE + typedefs + declarations[True] + self.loop.replace("{elements}", declarations[False]) + "}"
        arrays = [parameter.contiguous(one, types[parameter.type], shape) for parameter, one in pairs]
        shapes = [numpy.array(array.shape, numpy.int64) for array in arrays]
        addresses = [(ctypes.c_void_p * len(pairs))(*(one.ctypes.data for one in many)) for many in (arrays, shapes)]
        size = math.prod(shape)
        compiled(code)(ctypes.c_ssize_t(size), ctypes.c_ssize_t(random.randrange(size or 1)), *addresses)
        for (parameter, argument), array in zip(pairs, arrays, strict=True):
            if parameter in self.outputs and array is not argument._values:
                argument._values[...] = array


def parameters_of(text, whole=False):
    """Return the parameters in a list such as "T x, raw T y"."""
    return [Parameter(one, whole) for one in text.split(",")]


class ElementwiseKernel(Kernel):
    """An operation at each index `i`."""

    def __init__(self, in_params, out_params, operation, name="kernel"):
        steps = f"ptrdiff_t i = (_first + _k) % _size; {{elements}} {operation};"
        loop = f"for (ptrdiff_t _k = 0; _k < _size; ++_k) {{ {steps} }}"
        super().__init__(parameters_of(in_params), parameters_of(out_params), "i", loop)


class ReductionKernel(Kernel):
    """A reduction of all elements to one, or of those along some axes (a tuple)."""

    def __init__(self, in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name="reduce_kernel"):
        dtype = out_params.split()[-2]
        steps = f"{{elements}} {dtype} b = {map_expr}; a = {reduce_expr};"
        loop = f"{dtype} a = {identity}; for (ptrdiff_t _j = 0; _j < _size; ++_j) {{ {steps} }} {post_map_expr};"
        super().__init__(parameters_of(in_params), parameters_of(out_params, whole=True), "_j", loop)

    def __call__(self, *arguments, axis=None):
        if axis is None:
            return super().__call__(*arguments)
        last = range(-len(axis), 0)
        moved = [numpy.moveaxis(one._values, axis, last) for one in arguments]
        kept = moved[0].shape[: -len(axis)]
        parts = ([ndarray(one[index].copy()) for one in moved] for index in numpy.ndindex(*kept))
        reduced = [super(ReductionKernel, self).__call__(*part).get() for part in parts]
        return ndarray(numpy.array(reduced).reshape(kept))
