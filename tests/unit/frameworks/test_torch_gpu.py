"""torch's adapter on a GPU, tested with stand-ins for parts of torch, because there is no GPU here."""

from unittest import mock

import pytest

from trainmark.errors import DeviceError
from trainmark.frameworks.registry import create_adapter

torch = pytest.importorskip("torch")


def test_arrays_on_a_gpu_are_reported_with_its_name_and_peak_memory_in_mib():
    adapter = create_adapter("torch", threads=2)
    adapter._device = torch.device("cuda", 0)
    adapter._network = mock.Mock(parameters=lambda: iter([mock.Mock(device=adapter._device)]))
    with (
        mock.patch.object(torch.cuda, "get_device_name", lambda gpu: ["NVIDIA H100"][gpu]),
        mock.patch.object(torch.cuda, "max_memory_allocated", lambda: 2**30),
    ):
        assert adapter.describe_device() == {"kind": "gpu", "name": "NVIDIA H100"}
        assert adapter.device_memory_mib() == 1024


def test_gpus_that_torch_counts_but_can_not_use_are_refused():
    """It counts them with NVML, also if the driver is too old for its CUDA."""
    assert not torch.cuda.is_available()
    with (
        mock.patch.object(torch.cuda, "device_count", lambda: 1),
        pytest.raises(DeviceError, match="torch sees no GPU"),
    ):
        create_adapter("torch", threads=2).build(
            architecture=None, weights={}, optimizer=None, device="gpu", dtype="float32"
        )
