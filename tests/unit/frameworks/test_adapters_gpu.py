"""The Keras adapter on a GPU, tested with stand-ins for Keras and its backends, because there is no GPU here.

tests/contract/gpu_path_suite.py trains with JAX itself.
"""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.errors import DeviceError
from trainmark.frameworks import adapter as adapter_module

GIB = 2**30


class OnGpu:
    """A number on a GPU; using it as an index makes the host wait."""

    def __sub__(self, other):
        return self

    def __mod__(self, other):
        return self

    def __index__(self):
        raise AssertionError("the host waits for the GPU")


class FakeMetric:
    """Like keras.metrics.Metric, with scalars on the GPU and arrays that are read by index."""

    def __init__(self, name):
        self.name = name

    def add_variable(self, shape, **_):
        return [0.0] * shape[0] if shape else OnGpu()


def tensorflow_with_a_gpu(answer):
    """The module tensorflow with one GPU, whose memory info is `answer()`."""
    gpu = SimpleNamespace(name="/physical_device:GPU:0")
    details = {"device_name": "NVIDIA H200"}
    experimental = SimpleNamespace(
        get_device_details=lambda gpu: details, get_memory_info=answer,
        enable_tensor_float_32_execution=lambda enabled: None,
    )  # fmt: skip
    setters = ("set_intra_op_parallelism_threads", "set_inter_op_parallelism_threads")
    threading = SimpleNamespace(**dict.fromkeys(setters, lambda threads: None))
    config = SimpleNamespace(list_physical_devices=lambda kind: [gpu], experimental=experimental, threading=threading)
    return SimpleNamespace(config=config)


def jax_with_a_gpu(stats):
    """The module jax with one GPU that reports these statistics."""
    gpu = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200", memory_stats=lambda: stats)
    return SimpleNamespace(devices=lambda: [gpu], config=SimpleNamespace(update=lambda name, value: None))


def torch_with_gpus(count=1, peak=None, driver_fits=True):
    """The module torch with `count` NVIDIA GPUs."""
    cuda = SimpleNamespace(
        device_count=lambda: count, get_device_name=lambda gpu: "NVIDIA H200", max_memory_allocated=lambda: peak,
        is_available=lambda: driver_fits,
    )  # fmt: skip
    backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace()), cudnn=SimpleNamespace())
    return SimpleNamespace(cuda=cuda, backends=backends, set_num_threads=lambda threads: None)


@pytest.fixture
def keras_adapter(monkeypatch):
    """A function that imports the adapter's module anew with a stand-in for Keras with this backend."""

    def load(backend="torch", module=None):
        keras = SimpleNamespace(
            optimizers=SimpleNamespace(SGD=object, Adam=object, RMSprop=object, Optimizer=object),
            layers=SimpleNamespace(Layer=object),
            losses=SimpleNamespace(Loss=object),
            metrics=SimpleNamespace(Metric=FakeMetric),
            config=SimpleNamespace(floatx=lambda: "float32"),
            backend=SimpleNamespace(backend=lambda: backend),
            Model=object,
            ops=None,
        )
        monkeypatch.setitem(sys.modules, "keras", keras)
        monkeypatch.setitem(sys.modules, backend, module or torch_with_gpus())
        path = Path(adapter_module.__file__).with_name("keras_adapter.py")
        spec = importlib.util.spec_from_file_location("keras_adapter_on_stand_ins", path)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    yield load
    for part in ("layers", "losses", "optimizers"):  # they were imported on the stand-in too
        sys.modules.pop(f"trainmark.frameworks.keras_{part}", None)


@pytest.fixture
def adapter_on(keras_adapter):
    """A function that returns an adapter whose first array is on the device with this name."""

    def build(backend, module, place):
        adapter = keras_adapter(backend, module).create(f"keras-{backend}", threads=1)
        array = SimpleNamespace(device=place)
        adapter._model = SimpleNamespace(trainable_variables=[SimpleNamespace(value=array)])
        return adapter

    return build


def test_losses_are_reported_without_waiting_for_the_gpu(keras_adapter):
    metric = keras_adapter().StepLosses(3, ())
    metric.losses = [0.5, 0.25, 0.125]
    assert metric.result() == 0.125


FAKES = {
    "tensorflow": (tensorflow_with_a_gpu(lambda device: {"peak": GIB}), "/job:localhost/replica:0/task:0/device:GPU:0"),
    "jax": (jax_with_a_gpu({"peak_bytes_in_use": GIB}), "rocm:0"),
    "torch": (torch_with_gpus(peak=GIB), "cuda:0"),
}


@pytest.mark.parametrize("backend", FAKES)
def test_arrays_on_a_gpu_are_reported_with_its_name_and_peak_memory_in_mib(adapter_on, backend):
    adapter = adapter_on(backend, *FAKES[backend])
    assert adapter.describe_device() == {"kind": "gpu", "name": "NVIDIA H200"}
    assert adapter.device_memory_mib() == 1024


@pytest.mark.parametrize("place", ["cpu", "/job:localhost/replica:0/task:0/device:CPU:0", "TFRT_CPU_0"])
def test_arrays_on_the_cpu_are_reported_even_if_there_is_a_gpu(adapter_on, place):
    assert adapter_on("torch", torch_with_gpus(), place).describe_device() == {"kind": "cpu", "name": "torch"}


@pytest.mark.parametrize("place", ["mps:0", "meta"])
def test_arrays_on_another_device_are_not_on_the_cpu(adapter_on, place):
    """Neither an NVIDIA GPU nor the CPU: a CPU run with its arrays there fails."""
    adapter = adapter_on("torch", torch_with_gpus(count=0), place)
    assert adapter.describe_device()["kind"] == place
    assert adapter.device_memory_mib() is None


def test_gpus_that_torch_counts_but_can_not_use_are_refused(keras_adapter):
    """It counts them with NVML, also if the driver is too old for its CUDA."""
    adapter = keras_adapter("torch", torch_with_gpus(driver_fits=False)).create("keras-torch", threads=1)
    with pytest.raises(DeviceError, match="keras-torch sees no GPU: it needs a driver and the GPU build of torch"):
        adapter.build(architecture=None, weights={}, optimizer=None, device="gpu", dtype="float32")


@pytest.mark.parametrize("stats", [None, {}], ids=["no statistics", "statistics without the peak"])
def test_memory_that_jax_does_not_report_is_none(adapter_on, stats):
    """With XLA_PYTHON_CLIENT_ALLOCATOR=platform."""
    assert adapter_on("jax", jax_with_a_gpu(stats), "cuda:0").device_memory_mib() is None


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_memory_that_tensorflow_does_not_report_is_none(adapter_on, error):
    """With TF_GPU_ALLOCATOR=cuda_malloc_async."""

    def refuse(device):
        raise error("Allocator stats not available")

    assert adapter_on("tensorflow", tensorflow_with_a_gpu(refuse), "device:GPU:0").device_memory_mib() is None
