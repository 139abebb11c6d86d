"""JAX's GPUs, precision and compilation cache, for every adapter on JAX. Functions take the module `jax` first."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainmark.frameworks.adapter import LIBRARIES_OUT_OF_MEMORY

OUT_OF_MEMORY = {"JaxRuntimeError": ("RESOURCE_EXHAUSTED", *LIBRARIES_OUT_OF_MEMORY)}
"""See `Adapter.out_of_memory_texts`."""


def gpus(jax: Any) -> list:
    """Return the GPUs that JAX sees."""
    return [device for device in jax.devices() if device.platform == "gpu"]


def gpu_name(jax: Any, gpu: Any) -> str:
    """Return the name of a GPU."""
    return str(gpu.device_kind)


def peak_bytes(jax: Any, gpu: Any) -> int | None:
    """Return the peak memory of a GPU; None with XLA_PYTHON_CLIENT_ALLOCATOR=platform."""
    return (gpu.memory_stats() or {}).get("peak_bytes_in_use")


def refuse_tf32(jax: Any) -> None:
    """Let products of float32 be computed in float32 instead of NVIDIA's TensorFloat-32."""
    jax.config.update("jax_default_matmul_precision", "highest")


def open_compilation_cache(jax: Any, folder: Path) -> Mapping[str, int]:
    """See `Adapter.open_compilation_cache`. JAX warns and compiles if it can't read or write an entry."""
    settings = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,  # by default only what takes a second is stored
        "jax_persistent_cache_min_entry_size_bytes": -1,
        # Otherwise a program that is compiled would take its algorithms from what XLA timed in an earlier run.
        "jax_persistent_cache_enable_xla_caches": "none",
        "jax_raise_persistent_cache_errors": False,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
    counts = {"hits": 0, "misses": 0}

    def count(event: str, **details: Any) -> None:
        if event == "/jax/compilation_cache/compile_requests_use_cache":
            counts["misses"] += 1
        elif event == "/jax/compilation_cache/cache_hits":  # after its request
            counts["hits"] += 1
            counts["misses"] -= 1

    jax.monitoring.register_event_listener(count)
    return counts
