"""Environment variables: seconds in them, those that a job does not get, and those that a record holds."""

import os

import pytest

from trainmark.errors import ConfigError
from trainmark.frameworks.registry import known_frameworks, settings_of_user, unset_settings_of_frameworks
from trainmark.machine.gpus import THREAD_VARIABLES
from trainmark.machine.provenance import variables
from trainmark.machine.variables import is_read, seconds_in, unset_settings
from trainmark.trainer import Trainer


def test_seconds(monkeypatch):
    for text, seconds in [("0", 0), ("2.5", 2.5), ("", 5), (" ", 5)]:
        monkeypatch.setenv("WAIT", text)
        assert seconds_in("WAIT", 5) == seconds
    for text in ("5s", "-1", "nan", "five"):
        monkeypatch.setenv("WAIT", text)
        with pytest.raises(ConfigError, match=f"WAIT in the environment is '{text}'; allowed: a number of seconds"):
            seconds_in("WAIT", 5)
    monkeypatch.delenv("WAIT")
    assert seconds_in("WAIT", 5) == 5


PLAIN, MIXED = Trainer("torch", "cpu"), "--xla_a=1 --xla_dump_to=s3://me:p=w@host/d?sig=pw --xla_b=2"

# What becomes of a variable: its value in a record, and whether the report warns of it; None: no job has or records it.
FATES = {
    # kernels and threads
    "DNNL_MAX_CPU_ISA=SSE41": ("SSE41", True),
    "ONEDNN_MAX_CPU_ISA=SSE41": ("SSE41", True),
    "MKLDNN_MAX_CPU_ISA=SSE41": ("SSE41", True),
    "JSIMD_FORCENONE=1": ("1", True),
    "ATEN_CPU_CAPABILITY=default": ("default", True),
    "OPENBLAS_CORETYPE=NEHALEM": ("NEHALEM", True),
    "MKL_ENABLE_INSTRUCTIONS=SSE4_2": ("SSE4_2", True),
    "NPY_DISABLE_CPU_FEATURES=AVX2 FMA3": ("AVX2 FMA3", True),
    "NUMPY_MADVISE_HUGEPAGE=0": ("0", True),
    "LRU_CACHE_CAPACITY=1": ("1", True),
    "GOMP_SPINCOUNT=0": ("0", True),
    "OMP_PROC_BIND=true": ("true", True),
    **dict.fromkeys(
        ("OMP_THREAD_LIMIT=1", "KMP_DEVICE_THREAD_LIMIT=1", "KMP_ALL_THREADS=1", "OMP_DYNAMIC=true", "KMP_HW_SUBSET=1c",
         "MKL_DOMAIN_NUM_THREADS=MKL_BLAS=1", "GOTO_NUM_THREADS=1", "BLIS_JC_NT=1", "NUMEXPR_MAX_THREADS=1",
         "VECLIB_MAXIMUM_THREADS=1", "PJRT_NPROC=1", "OMP_NUM_THREADS=64"),
    ),
    # frameworks
    "TF_ENABLE_ONEDNN_OPTS=0": ("0", True),
    "XLA_FLAGS=\udcff": ("\udcff", True),
    "TF_XLA_FLAGS=" + "x" * 301: ("x" * 300 + "... (SHA-256 e4c11e4f)", True),
    f"XLA_FLAGS={MIXED}": ("--xla_a=1 host/d --xla_b=2", True),
    "XLA_FLAGS=--xla_dump_to=/home/me/d --xla_gpu_x=true": ("--xla_dump_to=d --xla_gpu_x=true", True),
    "CHAINER_DTYPE=mixed16": ("mixed16", Trainer("chainer", "cpu")),
    "JAX_PLATFORMS=cpu": ("cpu", False),
    "JAX_COMPILATION_CACHE_DIR=gs://bucket/pw": ("(a folder)", False),
    **dict.fromkeys(
        ("TORCHDYNAMO_DISABLE=1", "TORCHINDUCTOR_FREEZING=1", "TORCH_COMPILE_DISABLE=1", "TORCH_LOGS=all",
         "PYTORCH_JIT=0", "JAX_DISABLE_JIT=1", "JAX_DEBUG_NANS=1", "JAX_NUM_CPU_DEVICES=4", "KERAS_MAX_EPOCHS=1",
         "KERAS_HOME=/h", "CHAINER_SEED=1", "CHAINERX_DEVICE=x", "NNX_GRAPH_MODE=1", "PYTHONWARNINGS=x"),
    ),
    "XLA_FLAGS=": ("", False),
    "XLA_PYTHON_CLIENT_PREALLOCATE=true": ("true", False),  # flax sets it, and torch does not read it
    # GPUs and the exchange of gradients
    "CUDA_VISIBLE_DEVICES=MIG-GPU-8f0c/1/0,GPU-2": ("MIG-GPU-8f0c/1/0,GPU-2", False),
    "CUDA_LAUNCH_BLOCKING=1": ("1", True),
    "CUDA_HOME=/usr/local/cuda": ("(a folder)", False),
    "NVIDIA_TF32_OVERRIDE=0": ("0", False),
    "NVIDIA_TF32_OVERRIDE=1": ("1", True),
    "NCCL_P2P_DISABLE=1": ("1", Trainer("torch", "cpu", workers=2)),
    "GLOO_SOCKET_IFNAME=lo": ("lo", False),
    "OMPI_MCA_btl=tcp,self": ("tcp,self", Trainer("torch", "cpu", workers=2)),
    "OMPI_MCA_num_procs=2": None,
    # the process
    "LD_PRELOAD= /opt/a.so.2:me/b.so  ../c.so": ("a.so.2:b.so:c.so", True),
    "MALLOC_TRIM_THRESHOLD_=0": ("0", True),
    "PYTHON_GIL=0": ("0", True),
    # secrets
    "CUDA_X={passphrase = pw}": ("(withheld)", True),
    "CUDA_VISIBLE_DEVICES_=pw": ("(withheld)", True),
    "TF_CONFIG=pw": ("(withheld)", True),
    "NCCL_TOKEN=pw": ("(withheld)", Trainer("torch", "cpu", workers=2)),
    **dict.fromkeys(("NVIDIA_API_KEY=pw", "HF_TOKEN=pw", "TF_VAR_db=pw", "TF_ENCRYPTION=pw", "https_proxy=http://me:pw@host")),
}  # fmt: skip


@pytest.mark.parametrize("setting", FATES)
def test_what_libraries_read_is_recorded_or_removed(monkeypatch, setting):
    name, _, value = setting.partition("=")
    environment = {name: value, "PATH": "/bin"}
    monkeypatch.setattr(os, "environ", environment)
    unset_settings(environment)
    unset_settings_of_frameworks(environment)
    recorded, warned = FATES[setting] or (None, False)
    assert variables().get(name) == recorded
    if isinstance(warned, Trainer):  # and for no other one
        assert {*settings_of_user(warned, variables())} == {name}
    assert {*settings_of_user(PLAIN, variables())} == ({name} if warned is True else set())


def test_flags_of_xla_in_a_file_are_recorded(tmp_path, monkeypatch):
    (tmp_path / "flags").write_text("--xla_a=1\n--xla_dump_to=/home/me/d\n")
    monkeypatch.setenv("XLA_FLAGS", str(tmp_path / "flags"))
    assert variables()["XLA_FLAGS"] == "--xla_a=1 --xla_dump_to=d"


def test_what_trainmark_sets_itself_is_recorded_and_no_setting_of_the_user():
    for framework in known_frameworks().values():
        own = framework.environment | framework.cpu_environment | dict.fromkeys(THREAD_VARIABLES, "2")
        for step in framework.tuning:
            own |= step.avx512_environment
        assert all(map(is_read, own))
        assert settings_of_user(Trainer(framework.name, "cpu", "tuned"), own) == {}
