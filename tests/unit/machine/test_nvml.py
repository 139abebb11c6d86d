"""Values read through NVML, with a fake of the driver's library, and the reasons if it is missing."""

import sys
from types import SimpleNamespace

import pytest

from trainmark.machine import nvml as nvml_module

GPU, OTHER_GPU, INSTANCE = "GPU-0a1b", "GPU-2c3d", "MIG-4e5f"

DESCRIBED = {
    "name": "NVIDIA H200", "uuid": GPU, "driver_version": "580.95.05", "cuda_version": "12.8",
    "compute_capability": "9.0", "memory_mib": 143771, "pci_bus_id": "00000000:0F:00.0",
}  # fmt: skip

STATE = {
    "clocks_mhz": {"sm": 345, "memory": 3201}, "throttle_reasons": ["gpu_idle"], "power_watts": 76.25,
}  # fmt: skip


class NVMLError(Exception):
    """Like the package's: the base class of all errors of its functions."""


class FakeNvml:
    """The package pynvml with two GPUs, and an instance (MIG) of the first. It has the functions named in `answers`.

    A handle is the UUID.
    """

    NVMLError = NVMLError

    def __init__(self):
        self.starts = 0
        self.answers = {  # by function and arguments
            ("nvmlSystemGetDriverVersion",): "580.95.05",
            ("nvmlSystemGetCudaDriverVersion_v2",): 12080,
            ("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", INSTANCE): GPU,
            ("nvmlDeviceGetName", GPU): "NVIDIA H200",
            ("nvmlDeviceGetName", INSTANCE): "NVIDIA H200 MIG 1g.18gb",
            ("nvmlDeviceGetMemoryInfo", GPU): SimpleNamespace(total=143771 * 2**20 + 5),
            ("nvmlDeviceGetMemoryInfo", INSTANCE): SimpleNamespace(total=16384 * 2**20),
            ("nvmlDeviceGetCudaComputeCapability", GPU): [9, 0],
            ("nvmlDeviceGetPciInfo", GPU): SimpleNamespace(busId="00000000:0F:00.0"),
            ("nvmlDeviceGetCurrentClocksEventReasons", GPU): 0x1,
            ("nvmlDeviceGetMigMode", GPU): [0, 0],  # now, after a reset; the other GPU knows no instances
            ("nvmlDeviceGetPowerUsage", GPU): 76250,
            ("nvmlDeviceGetTotalEnergyConsumption", GPU): 1_234_567,
            ("nvmlDeviceGetTotalEnergyConsumption", OTHER_GPU): 99,
            ("nvmlDeviceGetClockInfo", GPU, 1): 345,
            ("nvmlDeviceGetClockInfo", GPU, 2): 3201,
        }

    def nvmlInit(self):
        self.starts += 1

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in (GPU, OTHER_GPU, INSTANCE):
            raise NVMLError("Not Found")
        return uuid

    def __getattr__(self, name):
        if name.startswith("__") or name not in {function for function, *_ in self.answers}:
            raise AttributeError(name)
        return lambda *arguments: self._answer(name, *arguments)

    def _answer(self, *asked):
        if asked not in self.answers:
            raise NVMLError("Not Supported")
        return self.answers[asked]


def install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, "pynvml", package)
    nvml_module._start.cache_clear()
    return package


@pytest.fixture(autouse=True)
def fresh_start():
    """The package is initialized once per process; this makes each test initialize its own."""
    yield
    nvml_module._start.cache_clear()


@pytest.fixture
def nvml(monkeypatch):
    return install(monkeypatch, FakeNvml())


def test_a_gpu_its_state_energy_and_processes_are_read_and_the_library_is_started_once(nvml):
    assert nvml_module.describe(GPU) == DESCRIBED
    assert nvml_module.state(GPU) == STATE
    assert (nvml_module.energy_joules(GPU), nvml_module.energy_joules(OTHER_GPU)) == (1234.567, 0.099)
    assert nvml_module.computing_processes(GPU) is None
    nvml.answers["nvmlDeviceGetComputeRunningProcesses", GPU] = [SimpleNamespace(pid=7), SimpleNamespace(pid=8)]
    assert nvml_module.computing_processes(GPU) == 2
    assert nvml.starts == 1


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0x44, ["hw_thermal_slowdown", "sw_power_cap"]),
        (0x8000_0000_0000_0008, ["hw_slowdown", "unknown_0x8000000000000000"]),
    ],
)
def test_the_reasons_of_a_slowdown_are_named(nvml, bits, names):
    nvml.answers["nvmlDeviceGetCurrentClocksEventReasons", GPU] = bits
    assert nvml_module.state(GPU)["throttle_reasons"] == names


def test_values_that_a_gpu_does_not_report_are_none(nvml):
    nvml.answers = {("nvmlDeviceGetName", "of another"): 1}
    assert nvml_module.describe(GPU) == dict.fromkeys(DESCRIBED) | {"uuid": GPU}
    assert nvml_module.state(GPU) == dict.fromkeys(STATE) | {"clocks_mhz": {"sm": None, "memory": None}}
    assert nvml_module.energy_joules(GPU) is None


def test_an_instance_has_its_own_name_and_memory_and_shares_the_rest_but_power_and_energy(nvml):
    """These are those of the whole GPU, which others may use."""
    own = {"uuid": INSTANCE, "name": "NVIDIA H200 MIG 1g.18gb", "memory_mib": 16384}
    assert nvml_module.describe(INSTANCE) == DESCRIBED | own
    assert nvml_module.state(INSTANCE) == STATE | {"power_watts": None}
    nvml.answers["nvmlDeviceGetTotalEnergyConsumption", INSTANCE] = 5
    assert nvml_module.energy_joules(INSTANCE) is None


def test_power_and_energy_of_a_divided_gpu_are_none(nvml):
    """They are those of all its instances, and a run holds only one."""
    nvml.answers["nvmlDeviceGetMigMode", GPU] = [1, 1]  # [now, after a reset]
    assert nvml_module.state(GPU) == STATE | {"power_watts": None}
    assert nvml_module.energy_joules(GPU) is None


@pytest.mark.parametrize(
    ("uuid", "installed", "starts", "reason"),
    [
        ("GPU-none", True, True, "NVML does not find this GPU (Not Found)"),
        (GPU, False, True, "the package nvidia-ml-py is not installed"),
        (GPU, True, False, "NVML can't be started (Driver Not Loaded)"),
    ],
)
def test_where_nothing_can_be_read_the_reason_is_given(monkeypatch, uuid, installed, starts, reason):
    def fail(self):
        raise NVMLError("Driver Not Loaded")

    if not starts:
        monkeypatch.setattr(FakeNvml, "nvmlInit", fail)
    install(monkeypatch, FakeNvml() if installed else None)
    assert nvml_module.describe(uuid) == nvml_module.state(uuid) == {"uuid": uuid, "reason": reason}
    assert nvml_module.energy_joules(uuid) is nvml_module.computing_processes(uuid) is None


def test_the_package_has_the_functions_and_constants_in_use():
    pynvml = pytest.importorskip("pynvml")
    functions = {"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetComputeRunningProcesses"}
    functions |= {function for function, *_ in FakeNvml().answers}
    assert {name for name in functions if not callable(getattr(pynvml, name, None))} == set()
    assert nvml_module.CLOCKS == {"sm": pynvml.NVML_CLOCK_SM, "memory": pynvml.NVML_CLOCK_MEM}
    assert pynvml.NVML_DEVICE_MIG_ENABLE == nvml_module.MIG_ENABLED
