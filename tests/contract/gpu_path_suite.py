"""The GPU path of keras-jax and flax on a machine without a GPU: a second CPU device of XLA takes the place of the GPU.

Run by test_contract.py. XLA computes on this device asynchronously, and its arrays are not those of the first device.
"""

import importlib
import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from contract_suite import OPTIMIZERS, feed, network, samples
from gpu_stand_in.second_device import BACKEND, device_of
from jax.experimental.layout import Format, Layout
from streams import ArrayStream
from test_run import GPU_RUN

from trainmark.errors import MeasurementError
from trainmark.frameworks import jax_platform
from trainmark.frameworks.jax_kernels import compiled
from trainmark.frameworks.registry import create_adapter
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.training.clock_check import ClockCheck

pytest_plugins = ["test_run"]  # for its fixture `train`

CPU, GPU = jax.devices()


@pytest.fixture(scope="module")
def framework(request):
    return request.config.getoption("--framework")


@pytest.fixture
def replaced(framework, monkeypatch):
    """A function that replaces functions of Keras's backend; for Flax, those of `jax_platform`, JAX and its adapter."""

    def replace_in_keras(**functions):
        keras_adapter = importlib.import_module("trainmark.frameworks.keras_adapter")
        monkeypatch.setitem(keras_adapter.BACKENDS, "jax", keras_adapter.BACKENDS["jax"]._replace(**functions))

    def replace_in_flax(data=None, wait=None, **functions):
        flax_adapter = importlib.import_module("trainmark.frameworks.flax_adapter")
        for name, function in functions.items():
            monkeypatch.setattr(jax_platform, name, function)
        if data:
            monkeypatch.setattr(flax_adapter, "to_channels_last", lambda array: data(jax, array))
        if wait:
            monkeypatch.setattr(jax, "block_until_ready", lambda state: wait(jax, jax.tree.leaves(state)))

    return replace_in_flax if framework == "flax" else replace_in_keras


@pytest.fixture(autouse=True)
def second_device(framework, replaced, monkeypatch):
    """JAX puts arrays on the second device, which the adapter finds and describes like a GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    replaced(**BACKEND)
    if framework == "keras-jax":
        monkeypatch.setattr("trainmark.frameworks.keras_adapter._device_of", device_of)
    with jax.default_device(GPU):
        yield


def build(framework, loop="stock", dropout=0.0):
    """An adapter with a small network on the second device."""
    adapter, architecture = create_adapter(framework, 2, loop), network(dropout)
    weights = draw_initial_weights(architecture, "glorot_uniform", (1, 1))
    adapter.build(
        architecture=architecture, weights=weights, optimizer=OPTIMIZERS["sgd"], device="gpu", dtype="float32"
    )
    return adapter


class First:
    """The first weight of an adapter."""

    def __init__(self, adapter):
        self.variable = next(variable for _, variable in adapter._variables())

    @property
    def value(self):
        """The array."""
        return self.variable[...] if hasattr(self.variable, "set_value") else self.variable.value

    def assign(self, array):
        """Put an array in its place."""
        (self.variable.set_value if hasattr(self.variable, "set_value") else self.variable.assign)(array)


# --- whole runs -----------------------------------------------------------------------------------------------------


def test_a_run_on_the_gpu_computes_what_one_on_the_cpu_does(framework, train):
    on_gpu = train(create_adapter(framework, 2), run=GPU_RUN)
    with jax.default_device(CPU):
        on_cpu = train(
            create_adapter(framework, 2), run=replace(GPU_RUN, trainer=GPU_RUN.trainer._replace(device="cpu"))
        )
    assert on_gpu["provenance"]["device"] == {"kind": "gpu", "name": "second CPU device"}
    assert on_cpu["provenance"]["device"] == {"kind": "cpu", "name": "jax"}
    assert on_gpu["memory"]["peak_device_mib"] > 0
    assert on_cpu["memory"]["peak_device_mib"] is None
    for name in ("step_losses", "evaluations"):
        assert on_gpu["curves"][0][name] == on_cpu["curves"][0][name]


def test_a_run_out_of_memory_is_a_result(framework, train, replaced):
    replaced(data=lambda jax, array: jax.numpy.zeros(1 << 50))
    record = train(create_adapter(framework, 2), run=GPU_RUN)
    assert record["out_of_memory"]["message"].startswith("JaxRuntimeError: RESOURCE_EXHAUSTED")
    assert record["memory"]["peak_device_mib"] > 0


# --- compiling ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compilations():
    """The names of the programs that XLA compiled, a list that goes on growing."""
    names = []

    def note(event, seconds, fun_name="a program", **_):
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(note)
    return names


@pytest.mark.parametrize("streamed", [False, True], ids=["resident", "streamed"])
@pytest.mark.parametrize("loop", ["stock", "tuned"])
def test_all_programs_of_the_training_are_compiled_before_it(framework, loop, streamed, compilations):
    """Those of epochs in two parts, as a run compiles them: steps of [4, 4, 4] and of [4, 4, 2] samples."""
    jax.clear_caches()  # other tests may have compiled the same
    adapter = build(framework, loop, dropout=0.2)
    images, labels = samples(22, "float32")
    adapter.load(split="train", inputs=ArrayStream(images, labels) if streamed else images, labels=labels)
    epochs = [epoch_feed(22, 4, (1, 1), epoch, (("learning_rate", 0.1 / epoch),)) for epoch in (1, 2)]
    initial = adapter.state()
    compilations.clear()
    for part in epochs[0].parts(3):
        adapter.compile(part)
    assert any("_stacked" in name for name in compilations) == (streamed if loop == "tuned" else framework == "flax")
    adapter.set_state(initial)
    compilations.clear()
    for epoch in epochs:
        losses = [adapter.train_epoch(part) for part in epoch.parts(3)]
        adapter.synchronize()
    assert compilations == []
    assert [len(part) for part in losses] == [3, 3]
    assert adapter.counted() == {"samples": 10, "batches": 3, "updates": 12}


def test_a_compiled_epoch_knows_its_number_of_steps():
    """Otherwise a GPU would copy the loop's condition to the host before each step, and wait for it."""

    def step(state, inputs, labels):
        return state + inputs.sum(0), labels.sum() + state.sum()

    _, epoch = compiled(step)
    inputs, labels = samples(22, "float32")
    arguments = (np.zeros((4, 5), "float32"), *feed(range(22), 4).whole_batches(), (inputs[:, 0], labels))
    program = epoch(*arguments)
    assert re.findall(r'"known_trip_count":{"n":"(\d+)"}', program.as_text()) == ["5"]
    assert epoch(*arguments) is program
    state, losses = program(*arguments)
    np.testing.assert_allclose(state, inputs[:, 0].sum(0), rtol=1e-5)
    assert losses.shape == (6,)


# --- waiting --------------------------------------------------------------------------------------------------------


@jax.jit
def slowly(array):
    """The array, after some tenths of a second: of many small products, which more CPUs do not make faster."""
    size = 64
    product = jax.lax.fori_loop(0, 15_000, lambda _, x: x @ x / size, jax.numpy.ones((size, size)))
    return array + 0 * product[0, 0]


def check_clock(adapter):
    """Check the clock as a run does, after each of two intervals in which the device computes the first weight."""
    check = ClockCheck(adapter)
    first = First(adapter)
    for _ in range(2):
        first.assign(slowly(first.value))
        assert not first.value.is_ready()
        adapter.synchronize()
        check.after(0.1)


def test_synchronize_waits_for_every_weight(framework):
    check_clock(build(framework))


@pytest.mark.parametrize(
    "wait", [lambda jax, arrays: None, lambda jax, arrays: arrays[-1].block_until_ready()], ids=["none", "the last"]
)
def test_a_synchronize_that_does_not_wait_for_every_weight_is_found(framework, replaced, wait):
    replaced(wait=wait)
    with pytest.raises(MeasurementError, match="still working when the clock stopped"):
        check_clock(build(framework))


def test_sending_arrays_waits_for_them(framework, monkeypatch):
    """The tuned loop sends its arrays once; what the device has still to do would count in the next phase."""
    adapter = build(framework, "tuned")
    put = jax.device_put
    monkeypatch.setattr(jax, "device_put", lambda arrays: [slowly(put(array)) for array in arrays])
    images, labels = samples(10, "float32")
    adapter.load(split="train", inputs=images, labels=labels)
    assert all(array.is_ready() for array in adapter._arrays)


def test_weights_are_read_from_the_device_each_time(framework):
    """JAX keeps what it copied to the host: the second read of ClockCheck would copy nothing."""
    adapter = build(framework)
    first = First(adapter)
    columns_first = Format(Layout((1, 0)), first.value.sharding)  # on the CPU, JAX copies no other layout
    first.assign(jax.device_put(first.value, columns_first))
    adapter.weights()
    assert first.value._npy_value is None
    np.array(first.value)
    assert first.value._npy_value is not None
