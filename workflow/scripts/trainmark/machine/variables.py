"""Environment variables: those that a record holds, those that a job does not get, and seconds in them."""

import os
from collections.abc import MutableMapping

from trainmark.errors import ConfigError

VARIABLES = (
    # visible GPUs, their arithmetic, and how work is submitted to them
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION",
    "CUBLAS_EMULATION_STRATEGY", "CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT",
    # threads of BLAS and OpenMP; choice of kernels in BLAS, oneDNN and numpy
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "OMP_DYNAMIC", "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY", "KMP_BLOCKTIME", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "MKL_NUM_THREADS", "MKL_CBWR",
    "NUMEXPR_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "NPY_DISABLE_CPU_FEATURES",
    # TensorFlow and XLA
    "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_ENABLE_ONEDNN_OPTS", "TF_XLA_FLAGS",
    "TF_DETERMINISTIC_OPS", "TF_CUDNN_USE_AUTOTUNE", "TF_GPU_ALLOCATOR", "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT", "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    # JAX; its cache of compiled programs shortens compilation
    "JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE",
    # Keras and torch
    "KERAS_BACKEND", "KERAS_HOME", "KERAS_TORCH_DEVICE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
    # Chainer and CuPy
    "CHAINER_DTYPE", "CHAINER_CUDNN", "CHAINER_USE_CUDNN", "CHAINER_CUDNN_FAST_BATCH_NORMALIZATION",
    "CHAINER_USE_IDEEP", "CHAINER_KEEP_GRAPH_ON_REPORT",
    "CHAINER_LAZY_GRAD_SUM", "CUPY_ACCELERATORS", "CUPY_TF32", "CUPY_GPU_MEMORY_LIMIT",
    # the process
    "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD", "PYTHONHASHSEED", "TRAINMARK_CHECKPOINT_SECONDS",
)  # fmt: skip
"""The environment variables that a record holds: those that change what a framework computes, or how.

This is an allow-list because records are published, and an environment may hold keys and passwords under any name.
"""

OF_EVERY_JOB = (
    "MPLBACKEND",  # of a notebook: module://matplotlib_inline.backend_inline, which jobs can't import
    "PYTHONDEVMODE", "PYTHONINSPECT", "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONPROFILEIMPORTTIME", "PYTHONSAFEPATH",
    "PYTHONTRACEMALLOC", "PYTHONVERBOSE", "PYTHONWARNINGS",
)  # fmt: skip
"""Variables with which Python or matplotlib would fail, be slow, or hide the exit status of a job."""


def unset_settings(environment: MutableMapping[str, str]) -> None:
    """Remove OF_EVERY_JOB from an environment: a result does not depend on them, and a record does not hold them."""
    for name in OF_EVERY_JOB:
        environment.pop(name, None)


def seconds_in(variable: str, default: float) -> float:
    """Return the seconds in one of our own variables. Raises ConfigError if it holds anything but a number from 0."""
    text = os.environ.get(variable, "").strip() or str(default)
    try:
        if (seconds := float(text)) >= 0:
            return seconds
    except ValueError:
        pass
    raise ConfigError(
        f"{variable} in the environment is {text!r}; allowed: a number of seconds, 0 or more; or unset it"
    )
