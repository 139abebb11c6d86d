"""What an NVIDIA GPU tells about itself through NVML, the library of its driver (package nvidia-ml-py).

A GPU is named by its UUID: "GPU-...", or "MIG-..." for an instance, a part of a GPU (MIG: Multi-Instance GPU). Nothing
here raises: a run does not fail for a figure that can't be read.
"""

from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

SLOWDOWN_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Why a GPU's clocks are not at their highest: nvmlClocksEventReason* and nvmlClocksThrottleReason* of nvml.h."""

REASON_FUNCTIONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The same answer: the second is its name in older drivers and packages."""

CUDA_VERSION_FUNCTIONS = ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion")

TEMPERATURE_FUNCTIONS = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")
"""The first goes with CUDA 14."""

CLOCK_SM, CLOCK_MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
TEMPERATURE_GPU = 0  # NVML_TEMPERATURE_GPU
MIG_ENABLED = 1  # NVML_DEVICE_MIG_ENABLE


def is_instance(uuid: str) -> bool:
    """Whether the UUID is that of an instance (MIG): a part of a GPU."""
    return uuid.startswith("MIG-")


def describe(uuid: str) -> dict:
    """What does not change: name, driver_version, cuda_version (the highest that the driver runs), compute_capability,
    memory_mib, pci_bus_id.

    A figure that the GPU does not tell is None. Where nothing can be read: {"uuid", "reason"}. Of an instance, name and
    memory are its own.
    """
    gpu = _find(uuid)
    if isinstance(gpu, str):
        return {"uuid": uuid, "reason": gpu}
    cuda = gpu.ask(CUDA_VERSION_FUNCTIONS)
    capability = gpu.ask("nvmlDeviceGetCudaComputeCapability", gpu.whole)
    memory = gpu.ask("nvmlDeviceGetMemoryInfo", gpu.handle)
    pci = gpu.ask("nvmlDeviceGetPciInfo", gpu.whole)
    return {
        "name": _text(gpu.ask("nvmlDeviceGetName", gpu.handle)),
        "uuid": uuid,
        "driver_version": _text(gpu.ask("nvmlSystemGetDriverVersion")),
        "cuda_version": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        "compute_capability": capability and f"{capability[0]}.{capability[1]}",
        "memory_mib": memory and memory.total // 2**20,
        "pci_bus_id": pci and _text(pci.busId),
    }


def state(uuid: str) -> dict:
    """How the GPU is right now: clocks_mhz, max_clocks_mhz, throttle_reasons (sorted names), temperature_celsius,
    power_watts.

    A figure that the GPU does not tell is None. Where nothing can be read: {"uuid", "reason"}. Of an instance, clocks,
    reasons and temperature are the whole GPU's, which it shares. The power of an instance, and of a GPU that is divided
    into some, is None: it is that of all instances.
    """
    gpu = _find(uuid)
    if isinstance(gpu, str):
        return {"uuid": uuid, "reason": gpu}
    milliwatts = None if gpu.is_divided() else gpu.ask("nvmlDeviceGetPowerUsage", gpu.whole)
    return {
        "clocks_mhz": _clocks(gpu, "nvmlDeviceGetClockInfo"),
        "max_clocks_mhz": _clocks(gpu, "nvmlDeviceGetMaxClockInfo"),
        "throttle_reasons": _reasons(gpu.ask(REASON_FUNCTIONS, gpu.whole)),
        "temperature_celsius": gpu.ask(TEMPERATURE_FUNCTIONS, gpu.whole, TEMPERATURE_GPU),
        "power_watts": None if milliwatts is None else milliwatts / 1000,
    }


def energy_joules(uuid: str) -> float | None:
    """Joules that this one GPU took since its driver was loaded (Volta and later); None where it does not tell.

    None too for an instance, and for a GPU that is divided into some: the counter counts the work of all instances.
    """
    gpu = _find(uuid)
    if isinstance(gpu, str) or gpu.is_divided():
        return None
    millijoules = gpu.ask("nvmlDeviceGetTotalEnergyConsumption", gpu.whole)
    return None if millijoules is None else millijoules / 1000


def computing_processes(uuid: str) -> int | None:
    """How many processes compute on the GPU, or on the instance, this one among them; None where it does not tell."""
    gpu = _find(uuid)
    processes = None if isinstance(gpu, str) else gpu.ask("nvmlDeviceGetComputeRunningProcesses", gpu.handle)
    return None if processes is None else len(processes)


@dataclass(frozen=True)
class _Gpu:
    """uuid: as it was asked for. handle: what it names. whole: the GPU that this is, or is a part of."""

    nvml: ModuleType
    uuid: str
    handle: Any
    whole: Any

    def ask(self, functions: str | tuple[str, ...], *arguments: Any) -> Any:
        """What the first of the NVML functions that works answers; None where none does."""
        return _ask(self.nvml, functions, *arguments)

    def is_divided(self) -> bool:
        """Whether it is divided into instances (MIG), or is one; a GPU that knows no instances does not answer."""
        mode = self.ask("nvmlDeviceGetMigMode", self.whole)  # [what it is now, what it will be after a reset]
        return is_instance(self.uuid) or (mode is not None and mode[0] == MIG_ENABLED)


def _ask(nvml: ModuleType, functions: str | tuple[str, ...], *arguments: Any) -> Any:
    for function in (functions,) if isinstance(functions, str) else functions:
        try:
            return getattr(nvml, function)(*arguments)
        except (AttributeError, nvml.NVMLError):  # not in this version of the package, or not told by this GPU
            continue
    return None


@cache
def _start() -> ModuleType | str:
    """The package, its library started once a process; or why it can't be had."""
    try:
        import pynvml
    except ImportError:
        return "the package nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"NVML can't be started ({error})"
    package: ModuleType = pynvml
    return package


def _find(uuid: str) -> _Gpu | str:
    """The GPU, or why it can't be read."""
    nvml = _start()
    if isinstance(nvml, str):
        return nvml
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid.encode())  # bytes: older versions take no text
    except nvml.NVMLError as error:
        return f"NVML does not find this GPU ({error})"
    whole = _ask(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) if is_instance(uuid) else handle
    return _Gpu(nvml, uuid, handle, handle if whole is None else whole)


def _clocks(gpu: _Gpu, function: str) -> dict:
    return {
        "sm": gpu.ask(function, gpu.whole, CLOCK_SM),
        "memory": gpu.ask(function, gpu.whole, CLOCK_MEMORY),
    }


def _reasons(bits: int | None) -> list[str] | None:
    """Names of the bits that are set; one without a name by its value."""
    if bits is None:
        return None
    values = [1 << place for place in range(bits.bit_length()) if bits >> place & 1]
    return sorted(SLOWDOWN_REASONS.get(value, f"unknown_{value:#x}") for value in values)


def _text(value: str | bytes | None) -> str | None:
    """Older versions of the package answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
