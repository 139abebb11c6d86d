"""Lets Chainer 7.8.1 (2022) import and run on today's numpy, Python and CuPy. Import this before chainer.

Everything restored here is a plain alias or an empty module; nothing computes.

Called as a program, it runs another one, unmodified: python chainer_compat.py <script> <arguments>.
"""

import importlib
import os
import runpy
import sys
import types
from typing import Any

import numpy

_NUMPY_ALIASES = {"int": int, "float": float, "bool": bool, "object": object, "complex": complex, "str": str}
"""Names that numpy 1.24 removed; Chainer 7 uses them as dtypes."""

_NUMPY_SCTYPES = {
    "int": [numpy.int8, numpy.int16, numpy.int32, numpy.int64],
    "uint": [numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64],
    "float": [numpy.float16, numpy.float32, numpy.float64],
    "complex": [numpy.complex64, numpy.complex128],
    "others": [bool, object, bytes, str, numpy.void],
}
"""numpy.sctypes as before numpy 2.0; chainer.utils.type_check looks up dtypes in it."""

_CUPY_REMOVED = ("cupy.cuda.cublas",)
"""Modules that CuPy 14 removed. Without them Chainer treats CuPy as missing. Chainer calls nothing in them, because
without cupy.cudnn it uses its own convolutions and batch normalisation."""


def _restore_numpy() -> None:
    for name, value in {**_NUMPY_ALIASES, "sctypes": _NUMPY_SCTYPES}.items():
        if name not in vars(numpy):
            setattr(numpy, name, value)


def _leave_out_environment_check() -> None:
    """Replace a check that only warns, of packages that Chainer may use. It takes a quarter of a second, needs
    pkg_resources, and imports numpy.distutils, which was removed with Python 3.12.
    """
    module: Any = types.ModuleType("chainer._environment_check")
    module.check = lambda: None
    sys.modules.setdefault(module.__name__, module)


def _restore_cupy() -> None:
    try:
        importlib.import_module("cupy")
    except ImportError:
        return
    for name in _CUPY_REMOVED:
        try:
            importlib.import_module(name)
        except ImportError:
            parent, _, child = name.rpartition(".")
            sys.modules[name] = types.ModuleType(name)
            setattr(sys.modules[parent], child, sys.modules[name])


_restore_numpy()
_leave_out_environment_check()
_restore_cupy()

if __name__ == "__main__":
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])  # as for a script that Python runs itself
    runpy.run_path(sys.argv[0], run_name="__main__")
