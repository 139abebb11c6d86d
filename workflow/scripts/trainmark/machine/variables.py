"""Environment variables: those that a record holds, those that a job does not get, and seconds in them."""

import os
import re
from collections.abc import Mapping, MutableMapping

from trainmark.errors import ConfigError

READ = (
    # the kernels and threads of BLAS, OpenMP, oneDNN and numpy
    "ACCELERATE_", "ATEN_", "BLIS_", "DNNL_", "FBGEMM_", "FLEXIBLAS", "GOMP_", "GOTO_", "KMP_", "LIBOMP",
    "LRU_CACHE_CAPACITY", "MKLDNN_", "MKL_", "NPROC", "NPY_", "NUMBA_", "NUMEXPR_", "NUMPY_", "OMP_", "ONEDNN_",
    "OPENBLAS_", "TBB_", "THP_MEM_ALLOC_ENABLE", "VECLIB_",
    # the decoders of photographs
    "JSIMD_", "OPENCV_",
    # which GPUs are visible, their arithmetic and kernels, and how work is submitted to them
    "CUBLAS", "CUDA_", "CUDNN_", "CUPY_", "CUTENSOR_", "GPU_MAX_HW_QUEUES", "HIP_", "HSA_", "MIOPEN_",
    "NVIDIA_TF32_OVERRIDE", "NVIDIA_VISIBLE_DEVICES", "ROCBLAS_", "ROCR_",
    # the frameworks and their compilers
    "AOT", "AUTOGRAPH_", "CHAINER", "FLAX_", "INDUCTOR_", "JAX_", "KERAS_", "LIBTPU", "MLIR_", "NNX_", "PJRT_",
    "PYTORCH_", "TENSORFLOW_", "TF_", "TORCH", "TPU_", "TRITON_", "XLA_",
    # how workers exchange gradients; not what a launcher sets for each process
    "FI_PROVIDER", "GLOO_", "HCOLL_", "NCCL_", "OMPI_MCA_btl", "OMPI_MCA_coll", "OMPI_MCA_mtl", "OMPI_MCA_pml", "RCCL_",
    "UCX_",
    # the process
    "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "JEMALLOC", "LD_AUDIT", "LD_BIND", "LD_DEBUG", "LD_PRELOAD", "MALLOC_",
    "MIMALLOC_", "PYTHONHASHSEED", "PYTHON_GIL", "PYTHON_JIT", "TCMALLOC_", "TRAINMARK_CHECKPOINT_SECONDS",
    "_RJEM_MALLOC_CONF",
)  # fmt: skip
"""Beginnings of the environment variables that libraries read: they may change what a run computes, or how fast.

A record holds all of them. A list of whole names would miss those that a library adds.
"""

OF_TERRAFORM = (
    "TF_ACC", "TF_APPEND", "TF_BUILD", "TF_CLI_", "TF_CLOUD_", "TF_DATA_DIR", "TF_ENCRYPTION", "TF_HTTP_", "TF_IGNORE",
    "TF_IN", "TF_LOG", "TF_PLUGIN_", "TF_REATTACH", "TF_REGISTRY_", "TF_STATE_", "TF_TOKEN_", "TF_VAR_", "TF_WORKSPACE",
)  # fmt: skip
"""Beginnings of variables of other programs, which begin as TensorFlow's. They often hold secrets."""

THREADS = re.compile(r"(THREADS|THREAD_LIMIT|_DYNAMIC|_HW_SUBSET|_NPROC|_NT)$")
"""Of the variables in READ, those that set or limit a number of threads. trainmark sets it (`gpus.limit_threads`)."""

WITHHELD = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|AUTH|KEY|CONFIG$|^(?!MALLOC_).*_$")
"""Names of variables whose value no record holds: it may be a secret."""

SECRET = re.compile(r"passphrase|passw|secret|token|api.?key", re.IGNORECASE)
"""What a value has that may hold a secret."""

PLACES = re.compile(r"_(DIR|DIRECTORY|FILE|HOME|LIB|PATH|PREFIX|ROOT)$")
"""Names of variables that say where something is."""

HARMLESS = re.compile(
    rf"{PLACES.pattern}|_(ARCH_LIST|BIN|COMPONENT_LIST|INC|INCLUDE|V?LOG_LEVEL|VERSION|VISIBLE_DEVICES|WARNINGS)$"
    "|^(CUDA_DEVICE_ORDER|KMP_DUPLICATE_LIB_OK|NCCL_DEBUG|PYTHONHASHSEED|TRAINMARK_.*)$"
)
"""Names of variables in READ that neither slow down nor change a training; threadpoolctl sets KMP_DUPLICATE_LIB_OK."""

OF_WORKERS = re.compile("(FI|GLOO|HCOLL|NCCL|OMPI_MCA|RCCL|UCX)_")
"""Beginnings of the variables that concern the exchange of several workers alone."""

OF_EVERY_JOB = (
    "MPLBACKEND",  # of a notebook: module://matplotlib_inline.backend_inline, which jobs can't import
    "PYTHONDEVMODE", "PYTHONINSPECT", "PYTHONMALLOC", "PYTHONMALLOCSTATS", "PYTHONOPTIMIZE", "PYTHONPERFSUPPORT",
    "PYTHONPROFILEIMPORTTIME", "PYTHONSAFEPATH", "PYTHONTRACEMALLOC", "PYTHONVERBOSE", "PYTHONWARNINGS",
    "PYTHON_CPU_COUNT",
)  # fmt: skip
"""Variables with which Python or matplotlib would fail, be slow, or hide the exit status of a job."""


def is_read(name: str) -> bool:
    """Return whether libraries read an environment variable of this name, as READ says."""
    return name.startswith(READ) and not name.startswith(OF_TERRAFORM)


def settings_in(variables: Mapping[str, str]) -> dict[str, str]:
    """Return those of these variables that may slow a training down, or change it."""
    return {name: value for name, value in variables.items() if not (HARMLESS.search(name) or THREADS.search(name))}


def unset_settings(environment: MutableMapping[str, str]) -> None:
    """Remove OF_EVERY_JOB, and the numbers of threads of a user, from an environment: no result depends on them."""
    for name in [*environment]:
        if name in OF_EVERY_JOB or (is_read(name) and THREADS.search(name)):
            del environment[name]


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
