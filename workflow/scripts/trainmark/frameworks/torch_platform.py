"""torch's GPUs, precision and threads, for every adapter on torch. Functions take the module `torch` first."""

from typing import Any

from trainmark.frameworks.adapter import LIBRARIES_OUT_OF_MEMORY

OUT_OF_MEMORY = {
    "OutOfMemoryError": ("",),
    "AcceleratorError": ("CUDA error: out of memory",),
    "RuntimeError": ("DefaultCPUAllocator: can't allocate memory", *LIBRARIES_OUT_OF_MEMORY),
}
"""See `Adapter.out_of_memory_texts`."""


def gpus(torch: Any) -> list:
    """Return the indices of the GPUs that torch can use. With a driver that is too old, it counts others too."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []


def gpu_name(torch: Any, gpu: int) -> str:
    """Return the name of a GPU."""
    return str(torch.cuda.get_device_name(gpu))


def peak_bytes(torch: Any, gpu: int) -> int:
    """Return the peak memory of torch's arrays on the GPU that it uses."""
    return int(torch.cuda.max_memory_allocated())


def refuse_tf32(torch: Any) -> None:
    """Let products of float32 be computed in float32 instead of NVIDIA's TensorFloat-32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def synchronize(torch: Any) -> None:
    """Wait until the GPU, if there is one, has finished all its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
