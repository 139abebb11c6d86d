"""Faults planted in the GPU path of Chainer's adapter, and the tests of the contract suite that must find them.

As a script, with tests/cupy_stand_in on the PYTHONPATH, it runs these tests with each fault and prints the messages of
those that fail, as JSON: {fault: {test: message}}.
"""

import json
import os
from contextlib import redirect_stdout
from pathlib import Path

import pytest

SUITE = Path(__file__).with_name("contract_suite.py")
WEIGHTS = "test_weights_are_returned_as_set[float32]"
PREDICTION = "test_same_weights_give_the_reference_logits[float32]"
READING = "test_what_is_read_at_once_equals_what_is_read_after_synchronizing"
WAITING = "test_synchronize_waits_for_the_device"
TESTS = (WEIGHTS, PREDICTION, READING, WAITING)

HOST_ARRAY = "non-scalar numpy.ndarray cannot be used for fill"
OTHER_VALUES = "Arrays are not equal"

FAULTS = {
    "none": ("chainer_adapter", "", "", {}),
    "weights left on the host": (
        "chainer_adapter",
        "self._device.send(outputs_first(parameter, weights[parameter.name]).astype(array.dtype))",
        "outputs_first(parameter, weights[parameter.name]).astype(array.dtype)",
        dict.fromkeys(TESTS, HOST_ARRAY),
    ),
    "batch left on the host": (
        "chainer_adapter",
        "self._device.send(np.ascontiguousarray(inputs))",
        "np.ascontiguousarray(inputs)",
        {PREDICTION: "incompatible array types are mixed"},
    ),
    "predictions left on the device": (
        "chainer_adapter",
        "to_cpu(self._network(batch)[0].array)",
        "self._network(batch)[0].array",
        {PREDICTION: "Implicit conversion to a NumPy array is not allowed"},
    ),
    "synchronize does nothing": (
        "chainer_adapter",
        "chainer.backends.cuda.Stream.null.synchronize()",
        "pass",
        {WAITING: "the device was still working when the clock stopped"},
    ),
    "weights read too early": (
        "chainer_adapter",
        "to_cpu(array_of(self._network, parameter))",
        "array_of(self._network, parameter).get(blocking=False)",
        {WEIGHTS: OTHER_VALUES, READING: OTHER_VALUES},
    ),
    "state read too early": (
        "chainer_adapter",
        "return {name: np.array(value) for name, value in serializer.target.items()}",
        "early = {f'network{path}': one.array.get(blocking=False) for path, one in self._network.namedparams()}\n"
        "        return {name: np.array(value) for name, value in (serializer.target | early).items()}",
        {PREDICTION: "Not equal to tolerance", READING: OTHER_VALUES},
    ),
}
"""By name: (module of the adapter, its code, the faulty code, the message of each test that must fail)."""

KERNEL_SECONDS = 0.008
"""Time of an operation on a slow device, on which the clock check sees what is left of setting the weights."""

ON_A_SLOW_DEVICE = ("none", "synchronize does nothing")


class Failures:
    """A plug-in of pytest that collects the messages of failing tests."""

    def __init__(self):
        self.messages = {}

    def pytest_runtest_logreport(self, report):
        """Collect one."""
        if report.failed:
            self.messages[report.nodeid.partition("::")[2]] = str(report.longrepr)


def plant(module_name, old, new):
    """Replace code of a module of the adapter, in this process; nothing if it is empty."""
    for module in (chainer_layers, chainer_adapter):  # the second imports names from the first
        source = Path(module.__file__).read_text()
        if old and module.__name__.endswith(module_name):
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        exec(compile(source, module.__file__, "exec"), vars(module))


def failures(fault):
    """Run the tests with a fault; return the messages of those that fail."""
    plant(*FAULTS[fault][:3])
    stream.kernel_seconds = KERNEL_SECONDS if fault in ON_A_SLOW_DEVICE else 0
    failures = Failures()
    options = ["--framework", "chainer", "--device", "gpu", "-q", "-p", "no:cacheprovider"]
    code = pytest.main([*options, *(f"{SUITE}::{test}" for test in TESTS)], plugins=[failures])
    assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), "the tests did not run"
    return failures.messages


if __name__ == "__main__":
    from cupy.cuda import stream

    from trainmark.frameworks import chainer_adapter, chainer_layers

    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        found = {fault: failures(fault) for fault in FAULTS}
    print(json.dumps(found))
