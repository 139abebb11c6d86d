"""The check of the GPU, tried on the CPU: it passes for a right adapter and fails for each kind of wrong one."""

import numpy as np
import pytest

from trainmark.errors import PrecisionError
from trainmark.frameworks.chainer_adapter import ChainerAdapter
from trainmark.training.gpu_check import MAX_DIFFERENCE, check_computing


class Pretending(ChainerAdapter):
    """Chainer on the CPU, which says that it is on a GPU."""

    place = "gpu"
    used_mib = 1.0

    def __init__(self):
        super().__init__("pretending", 1)

    def build(self, *, device, **arguments):
        super().build(device="cpu", **arguments)

    def describe_device(self):
        return {"kind": self.place, "name": "Fake"}

    def device_memory_mib(self):
        return self.used_mib


class InTensorFloat32(Pretending):
    """It rounds what it multiplies to 10 bits of fraction."""

    def build(self, *, weights, **arguments):
        super().build(weights={name: rounded(array) for name, array in weights.items()}, **arguments)

    def load(self, *, split, inputs, labels):
        super().load(split=split, inputs=rounded(inputs), labels=labels)


def rounded(array):
    """float32 with 10 bits of fraction."""
    bits = array.view(np.uint32)
    return ((bits + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)


def test_a_right_adapter_passes_with_a_difference_far_below_the_limit():
    seen = check_computing(Pretending(), "gpu")
    assert seen["device"] == {"kind": "gpu", "name": "Fake"}
    assert 0 < seen["difference"] < MAX_DIFFERENCE / 10


def test_tensor_float_32_and_results_that_are_no_numbers_fail():
    with pytest.raises(PrecisionError, match=r"differs from numpy by [3-7]\.\de-04 of the largest logit"):
        check_computing(InTensorFloat32(), "gpu")
    adapter = Pretending()
    adapter.predict = lambda split: np.full((64, 10), np.nan)
    with pytest.raises(PrecisionError, match="by nan of the largest logit"):
        check_computing(adapter, "gpu")
