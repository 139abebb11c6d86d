"""Properties, state and counters of NVIDIA GPUs, read through NVML, a library of the driver (package nvidia-ml-py).

A GPU is given by its UUID: "GPU-...", or "MIG-..." for an instance, a part of a GPU (MIG: Multi-Instance GPU). No
function here raises, so that a run does not fail because of a value that can't be read.
"""

from dataclasses import dataclass, replace
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
"""Why a GPU's clocks are below their maximum: nvmlClocksEventReason* and nvmlClocksThrottleReason* of nvml.h."""

CLOCKS = {"sm": 1, "memory": 2}  # NVML_CLOCK_SM, NVML_CLOCK_MEM
MIG_ENABLED = 1  # NVML_DEVICE_MIG_ENABLE


def is_instance(uuid: str) -> bool:
    """Whether the UUID belongs to a MIG instance, a part of a GPU."""
    return uuid.startswith("MIG-")


def describe(uuid: str) -> dict:
    """Return the fixed properties of a GPU: name, uuid, driver_version, cuda_version (the highest that the driver
    supports), compute_capability, memory_mib, pci_bus_id.

    Values that the GPU does not report are None. If nothing can be read: {"uuid", "reason"}. The name and memory of a
    MIG instance are its own; the other values are those of its GPU.
    """
    gpu = _find(uuid)
    if isinstance(gpu, str):
        return {"uuid": uuid, "reason": gpu}
    cuda = gpu.query("nvmlSystemGetCudaDriverVersion_v2")
    capability = gpu.query("nvmlDeviceGetCudaComputeCapability", gpu.board)
    memory = gpu.query("nvmlDeviceGetMemoryInfo", gpu.handle)
    pci = gpu.query("nvmlDeviceGetPciInfo", gpu.board)
    return {
        "name": gpu.query("nvmlDeviceGetName", gpu.handle),
        "uuid": uuid,
        "driver_version": gpu.query("nvmlSystemGetDriverVersion"),
        "cuda_version": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        "compute_capability": capability and f"{capability[0]}.{capability[1]}",
        "memory_mib": memory and memory.total // 2**20,
        "pci_bus_id": pci and pci.busId,
    }


def state(uuid: str) -> dict:
    """Return the current state of a GPU: clocks_mhz, throttle_reasons (sorted names), power_watts.

    Values that the GPU does not report are None. If nothing can be read: {"uuid", "reason"}. Clocks and throttle
    reasons of a MIG instance are those of its GPU. power_watts is None for an instance and for a GPU with instances,
    because it covers the work of all of them.
    """
    gpu = _find(uuid)
    if isinstance(gpu, str):
        return {"uuid": uuid, "reason": gpu}
    milliwatts = None if gpu.is_divided() else gpu.query("nvmlDeviceGetPowerUsage", gpu.board)
    return {
        "clocks_mhz": {name: gpu.query("nvmlDeviceGetClockInfo", gpu.board, kind) for name, kind in CLOCKS.items()},
        "throttle_reasons": _reasons(gpu.query("nvmlDeviceGetCurrentClocksEventReasons", gpu.board)),
        "power_watts": None if milliwatts is None else milliwatts / 1000,
    }


def energy_joules(uuid: str) -> float | None:
    """Return the joules that the GPU used since its driver was loaded (Volta and later); None if not reported.

    Also None for a MIG instance and for a GPU with instances: the counter covers the work of all of them.
    """
    gpu = _find(uuid)
    if isinstance(gpu, str) or gpu.is_divided():
        return None
    millijoules = gpu.query("nvmlDeviceGetTotalEnergyConsumption", gpu.board)
    return None if millijoules is None else millijoules / 1000


def computing_processes(uuid: str) -> int | None:
    """Return how many processes compute on the GPU or MIG instance, this one included; None if not reported."""
    gpu = _find(uuid)
    processes = None if isinstance(gpu, str) else gpu.query("nvmlDeviceGetComputeRunningProcesses", gpu.handle)
    return None if processes is None else len(processes)


@dataclass(frozen=True)
class _Gpu:
    """A GPU or a MIG instance.

    handle: NVML's handle of it.
    board: NVML's handle of the physical GPU: the same handle, or for an instance that of its GPU.
    """

    nvml: ModuleType
    uuid: str
    handle: Any
    board: Any

    def query(self, function: str, *arguments: Any) -> Any:
        """Return the result of an NVML function; None if it is missing in the driver, or not for this GPU."""
        try:
            return getattr(self.nvml, function)(*arguments)
        except (AttributeError, self.nvml.NVMLError):
            return None

    def is_divided(self) -> bool:
        """Whether it is divided into MIG instances, or is one. A GPU without MIG support reports no mode."""
        mode = self.query("nvmlDeviceGetMigMode", self.board)  # [current mode, mode after the next reset]
        return is_instance(self.uuid) or (mode is not None and mode[0] == MIG_ENABLED)


@cache
def _start() -> ModuleType | str:
    """Import the package and initialize NVML, once per process. Returns the package, or why that failed."""
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
    """Return the GPU, or why it can't be read."""
    nvml = _start()
    if isinstance(nvml, str):
        return nvml
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError as error:
        return f"NVML does not find this GPU ({error})"
    gpu = _Gpu(nvml, uuid, handle, handle)
    board = gpu.query("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) if is_instance(uuid) else None
    return gpu if board is None else replace(gpu, board=board)


def _reasons(bits: int | None) -> list[str] | None:
    """Return the names of the bits that are set; a bit without a name gives its value."""
    if bits is None:
        return None
    values = [1 << position for position in range(bits.bit_length()) if bits >> position & 1]
    return sorted(SLOWDOWN_REASONS.get(value, f"unknown_{value:#x}") for value in values)
