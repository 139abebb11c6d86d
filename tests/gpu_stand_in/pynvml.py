"""NVML of a machine with one GPU: what trainmark asks for, with values of an H100."""

from types import SimpleNamespace


class NVMLError(Exception):
    """What is not supported."""


VALUES = {
    "nvmlInit": None,
    "nvmlSystemGetDriverVersion": "580.159.04",
    "nvmlSystemGetCudaDriverVersion_v2": 13000,
    "nvmlDeviceGetHandleByUUID": "GPU-0a",
    "nvmlDeviceGetName": "pretended GPU",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=81559 * 2**20, free=81559 * 2**20),
    "nvmlDeviceGetCudaComputeCapability": [9, 0],
    "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:0F:00.0"),
    "nvmlDeviceGetCurrentClocksEventReasons": 0,
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetPowerUsage": 70_000,
    "nvmlDeviceGetTotalEnergyConsumption": 1_000_000,
    "nvmlDeviceGetClockInfo": 1980,
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetTemperature": 31,
    "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace()],
}


def __getattr__(name):
    """Return a function that returns its value."""
    if name not in VALUES:
        raise AttributeError(name)
    return lambda *arguments: VALUES[name]
