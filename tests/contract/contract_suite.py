"""Tests that every adapter must pass. For one: pytest tests/contract/contract_suite.py --framework chainer.

On a GPU: --device gpu. Of the tuned loop: --loop tuned. Of an adapter that has some layers alone: --may-lack-layers.
"""

import itertools
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import reference_ops
from networks import NETWORKS
from streams import ArrayStream
from warm_up_by_hand import trained_by_hand

from trainmark.errors import ConfigError, DataError, DeviceError
from trainmark.frameworks.adapter import EVALUATION_BATCH_SIZE
from trainmark.frameworks.registry import create_adapter, known_frameworks
from trainmark.networks.graph import chain
from trainmark.networks.ops import OPS
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.outputs import cross_entropy_and_accuracy
from trainmark.recipes.recipe import Optimizer, merged_optimizer
from trainmark.recipes.reference import Reference
from trainmark.recipes.schedules import epoch_rates, rmsprop_warmup_rates
from trainmark.recipes.update_rules import UPDATE_RULES
from trainmark.training.checkpoints import Checkpoint, newest_checkpoint, write_checkpoint
from trainmark.training.clock_check import CHECKED_SINGLY, ClockCheck
from trainmark.training.peak import fastest_seconds

INPUT_SHAPE, CLASSES = (1, 4, 5), 3
OPTIMIZERS = {
    "sgd": Optimizer("sgd", 0.1),
    "momentum_sgd": Optimizer("momentum_sgd", 0.1, (("momentum", 0.9),)),
    "adam": Optimizer("adam", 1e-2, (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", 1e-8))),
    "adam_algorithm_1": Optimizer("adam_algorithm_1", 1e-2, (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", 1e-3))),
    "rmsprop": Optimizer("rmsprop", 1e-2, (("rho", 0.9), ("epsilon", 1e-8))),
    "rmsprop_warmup": Optimizer(
        "rmsprop_warmup",
        0.1,
        (("momentum", 0.9), ("rho", 0.99), ("epsilon", 1e-8), ("sgd_share", 0.3), ("rmsprop_share", 0.01)),
    ),
}
TOLERANCE = {"float64": {"rtol": 1e-12, "atol": 1e-13}, "float32": {"rtol": 2e-5, "atol": 2e-6}}
"""In float64 only rounding is allowed; a framework that computes anything in float32 exceeds this by five digits."""


FLOAT32_OPS = {("chainer", "gpu"): ("LRN",), ("keras-torch", "cpu"): ("Dense",), ("keras-torch", "gpu"): ("Dense",)}
"""Ops that a framework computes in float32 in a float64 network, by framework and device; the adapter declares them."""


IMPORTS_ITSELF = {"keras-torch": {"jax"}}
"""`import keras` imports jax if it is installed, for a checkpoint format; that counts as part of the import phase."""


OUT_OF_MEMORY = {
    "keras": [
        ("ResourceExhaustedError", "{{function_node __wrapped__MatMul}} failed to allocate memory [Op:MatMul]"),
        ("InternalError", "Failed to create cuBLAS handle: CUBLAS_STATUS_ALLOC_FAILED"),
        ("InternalError", "Failed copying input tensor from CPU:0 to GPU:0: Dst tensor is not initialized."),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 400000000000 bytes."),
        ("JaxRuntimeError", "INTERNAL: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 372.53 GiB."),
        ("AcceleratorError", "CUDA error: out of memory"),
        ("RuntimeError", "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        ("RuntimeError", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
    "torch": [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 372.53 GiB."),
        ("AcceleratorError", "CUDA error: out of memory"),
        ("RuntimeError", "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        ("RuntimeError", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
    "chainer": [
        ("OutOfMemoryError", "Out of memory allocating 400,000,000,000 bytes (allocated so far: 512 bytes)."),
        ("CUDARuntimeError", "cudaErrorMemoryAllocation: out of memory"),
        ("CUDADriverError", "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        ("CUBLASError", "CUBLAS_STATUS_ALLOC_FAILED"),
        ("CuDNNError", "CUDNN_STATUS_ALLOC_FAILED: CUDNN_STATUS_ALLOC_FAILED"),
        ("CURANDError", "CURAND_STATUS_ALLOCATION_FAILED"),
    ],
    "flax": [
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 400000000000 bytes."),
        ("JaxRuntimeError", "INTERNAL: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
}
"""Class names and messages of the frameworks' out-of-memory exceptions; all backends of Keras share a table."""

OTHER_ERRORS = [
    ("ValueError", "RESOURCE_EXHAUSTED"),
    ("JaxRuntimeError", "INVALID_ARGUMENT: shapes do not match"),
    ("InternalError", "CUDNN_STATUS_EXECUTION_FAILED"),
    ("AcceleratorError", "CUDA error: an illegal memory access was encountered"),
    ("RuntimeError", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied"),
    ("CUDARuntimeError", "cudaErrorIllegalAddress: an illegal memory access was encountered"),
    ("CUBLASError", "CUBLAS_STATUS_EXECUTION_FAILED"),
]


def network(dropout=0.0):
    """A network of two hidden layers, with dropout between them if the rate is not 0."""
    middle = [("dropout1", "Dropout", {"rate": dropout})] if dropout else []
    layers = [
        ("flatten", "Flatten", {}),
        ("dense1", "Dense", {"units": 7}),
        ("relu1", "ReLU", {}),
        *middle,
        ("dense2", "Dense", {"units": 6}),
        ("relu2", "ReLU", {}),
        ("dense3", "Dense", {"units": CLASSES}),
    ]
    return chain("small", INPUT_SHAPE, layers)


def samples(count, dtype, seed=0):
    """Images and labels, drawn from a seed."""
    generator = np.random.default_rng(seed)
    return generator.random((count, *INPUT_SHAPE)).astype(dtype), generator.integers(0, CLASSES, count)


def feed(order, batch_size, dropout_seed=1):
    """A feed with this order of indices."""
    return EpochFeed(np.asarray(order), batch_size, len(order), dropout_seed)


def pytest_generate_tests(metafunc):
    """Test with every rule; in the tuned loops of Keras and Flax, which update as the stock loops do, with two."""
    if "rule" in metafunc.fixturenames:
        option = metafunc.config.getoption
        shared = option("--framework").startswith(("keras-", "flax")) and option("--loop") == "tuned"
        metafunc.parametrize("rule", ["adam", "rmsprop_warmup"] if shared else OPTIMIZERS)


@pytest.fixture(scope="session")
def framework(request):
    return request.config.getoption("--framework")


@pytest.fixture(scope="session")
def device(request):
    return request.config.getoption("--device")


@pytest.fixture(scope="session")
def unbuilt(framework, request):
    """A function that returns an adapter that is not built yet."""
    return lambda: create_adapter(framework, threads=2, loop=request.config.getoption("--loop"))


@pytest.fixture(scope="session")
def create(unbuilt, device, request):
    """A function that returns an adapter built with these arguments."""

    def build(**arguments):
        adapter = unbuilt()
        try:
            adapter.build(device=device, **arguments)
        except ConfigError as error:
            if not request.config.getoption("--may-lack-layers"):
                raise
            pytest.skip(f"the adapter lacks a layer: {error}")
        return adapter

    return build


def tolerances(adapter, dtype, architecture=None):
    """The tolerances for a dtype; those of float32 if the network has an op that the adapter computes in float32."""
    nodes = (architecture or network()).nodes
    in_float32 = any(node.op in adapter.float32_ops for node in nodes)
    return TOLERANCE["float32" if in_float32 else dtype]


def assert_same_training(actual, expected, adapter, dtype):
    """Losses, or weights, of two trainings are the same: to the last bit, but on a GPU up to rounding.

    There, the order of atomic additions is not fixed, and each program has the algorithms of its libraries that were
    fastest when it was compiled. The tolerance is that of other tests. In 16 steps of float32, the most that a test
    takes, two last bits of all weights that change at random before each epoch change losses by 3e-6 of themselves and
    weights by 1.3e-6, the most of all rules (Chainer on the CPU).
    """
    exact = adapter.describe_device()["kind"] == "cpu"
    tolerance = {"rtol": 0} if exact else tolerances(adapter, dtype)
    np.testing.assert_allclose(actual, expected, **tolerance)


@pytest.fixture(scope="session")
def in_initial_state(create):
    """A function that returns an adapter built with these arguments, in its initial state.

    Adapters of earlier tests are reused, because compiling networks takes most of the suite's time. `fresh` builds a
    new one, for tests of building itself.
    """
    adapters = {}

    def build(fresh=False, **arguments):
        key = repr({name: value for name, value in arguments.items() if name != "weights"})
        if fresh or key not in adapters:
            adapter = create(**arguments)
            if fresh:
                return adapter
            adapters[key] = adapter, adapter.state()
        else:  # the frameworks use the dtype of the last build for all networks
            one = chain("one", (1,), [("dense", "Dense", {"units": 1})])
            create(
                architecture=one, weights=draw_initial_weights(one, "glorot_uniform", (1, 1)),
                optimizer=OPTIMIZERS["sgd"], dtype=arguments["dtype"],
            )  # fmt: skip
        adapter, initial_state = adapters[key]
        adapter.set_state(initial_state)
        return adapter

    return build


@pytest.fixture
def built(in_initial_state):
    """A function that returns (adapter with a loaded training split, initial weights, reference, images, labels)."""

    def build(dtype="float64", rule="adam", architecture=None, fresh=False):
        architecture = architecture or network()
        weights = draw_initial_weights(architecture, "glorot_uniform", (1, 1))
        adapter = in_initial_state(
            fresh, architecture=architecture, weights=weights, optimizer=OPTIMIZERS[rule], dtype=dtype
        )
        images, labels = samples(10, dtype)
        adapter.load(split="train", inputs=images, labels=labels)
        return adapter, weights, Reference(architecture, weights, OPTIMIZERS[rule]), images, labels

    return build


both_dtypes = pytest.mark.parametrize("dtype", ["float64", "float32"])


@both_dtypes
def test_weights_are_returned_as_set(built, dtype):
    adapter, weights, *_ = built(dtype, fresh=True)
    out = adapter.weights()
    assert out.keys() == weights.keys()
    for name, array in weights.items():
        assert out[name].dtype == dtype
        np.testing.assert_array_equal(out[name], array.astype(dtype))


def test_weights_are_a_copy_that_training_does_not_change(built):
    adapter, weights, *_ = built()
    before = adapter.weights()
    adapter.train_epoch(feed(range(10), 5))
    np.testing.assert_array_equal(before["dense1.kernel"], weights["dense1.kernel"])
    assert np.abs(adapter.weights()["dense1.kernel"] - before["dense1.kernel"]).max() > 1e-4


@both_dtypes
def test_same_weights_give_the_reference_logits(built, dtype):
    adapter, _, reference, images, _ = built(dtype)
    np.testing.assert_allclose(adapter.predict("train"), reference.logits(images), **tolerances(adapter, dtype))


@both_dtypes
def test_evaluation_equals_numpy(built, dtype):
    """Over several evaluation batches, with a shorter last one."""
    adapter, _, reference, *_ = built(dtype)
    images, labels = samples(2 * EVALUATION_BATCH_SIZE + 7, dtype, seed=5)
    adapter.load(split="test", inputs=images, labels=labels)
    loss, accuracy = cross_entropy_and_accuracy(adapter.predict("test"), labels)
    expected_loss, expected_accuracy = reference.loss(images, labels)
    np.testing.assert_allclose(loss, expected_loss, **tolerances(adapter, dtype))
    assert accuracy == expected_accuracy


@both_dtypes
def test_losses_and_weights_after_steps_equal_the_reference(built, dtype, rule):
    """Three steps of unequal size, in an order other than the stored one."""
    adapter, _, reference, images, labels = built(dtype, rule)
    order = [7, 2, 9, 0, 4, 1, 8, 3, 6, 5]
    losses = adapter.train_epoch(feed(order, 4))
    expected = [reference.train_step(images[batch], labels[batch]) for batch in (order[:4], order[4:8], order[8:])]
    assert losses.dtype == np.float64
    np.testing.assert_allclose(losses, expected, **tolerances(adapter, dtype))
    for name, array in adapter.weights().items():
        exact = tolerances(adapter, dtype) == TOLERANCE["float64"]
        near = TOLERANCE["float64"] if exact else {"rtol": 1e-3, "atol": 1e-4}
        np.testing.assert_allclose(array, reference.weights()[name], err_msg=name, **near)


def test_the_optimizers_arrays_cross_to_the_reference_and_back(built, rule):
    """Two epochs in the adapter, two in the reference, two in the adapter again, of which each goes on where it was."""
    adapter, _, reference, images, labels = built(rule=rule)
    reference.load(split="train", inputs=images, labels=labels)
    expected = reference.train_epoch(feed(range(10), 4))
    np.testing.assert_allclose(adapter.train_epoch(feed(range(10), 4)), expected, **tolerances(adapter, "float64"))
    slots = adapter.slots()
    assert slots.keys() == reference.slots().keys()
    for name, array in reference.slots().items():
        np.testing.assert_allclose(slots[name], array, err_msg=name, **tolerances(adapter, "float64"))
    reference.set_weights(adapter.weights())
    reference.set_slots(slots, 3)
    reference.train_epoch(feed(range(10), 3))
    adapter.set_weights(reference.weights())
    adapter.set_slots(reference.slots(), 7)
    assert adapter.counted()["updates"] == 7
    expected = reference.train_epoch(feed(range(10), 3))
    np.testing.assert_allclose(adapter.train_epoch(feed(range(10), 3)), expected, **tolerances(adapter, "float64"))


def test_many_epochs_match_the_reference(built):
    """Optimizer state carries over from epoch to epoch, and from one epoch length to another."""
    adapter, _, reference, images, labels = built()
    for epoch in range(12):
        order = np.random.default_rng(epoch).permutation(10)
        batch_size = 5 if epoch < 8 else 3
        losses = adapter.train_epoch(feed(order, batch_size))
        batches = [order[start : start + batch_size] for start in range(0, 10, batch_size)]
        expected = [reference.train_step(images[batch], labels[batch]) for batch in batches]
        np.testing.assert_allclose(losses, expected, **tolerances(adapter, "float64"))


def test_each_step_of_the_tuning_trains_the_same(framework, device, request):
    """From the first step alone, on which the others build, to all of them."""
    if request.config.getoption("--loop") != "tuned":
        pytest.skip("in the tuned loop alone")
    images, labels = samples(10, "float64")
    weights = draw_initial_weights(network(), "glorot_uniform", (1, 1))
    reference, order = Reference(network(), weights, OPTIMIZERS["adam"]), [7, 2, 9, 0, 4, 1, 8, 3, 6, 5]
    expected = [reference.train_step(images[batch], labels[batch]) for batch in (order[:4], order[4:8], order[8:])]
    steps = [step.name for step in known_frameworks()[framework].tuning]
    for count in range(1, len(steps) + 1):
        adapter = create_adapter(framework, 2, "tuned", steps[:count])
        adapter.build(
            architecture=network(), weights=weights, optimizer=OPTIMIZERS["adam"], device=device, dtype="float64"
        )
        adapter.load(split="train", inputs=images, labels=labels)
        losses = adapter.train_epoch(feed(order, 4))
        np.testing.assert_allclose(losses, expected, err_msg=steps[count - 1], **TOLERANCE["float64"])


@both_dtypes
def test_a_stream_trains_as_its_batches_do_from_memory(built, dtype):
    """Over three batches with a shorter last one, and three times, the last time in two parts."""
    epochs = [feed(np.random.default_rng(epoch).permutation(10), 4, dropout_seed=epoch) for epoch in range(3)]
    network_with_dropout = network(dropout=0.5)
    adapter, *_ = built(dtype, architecture=network_with_dropout)
    expected = [
        adapter.train_epoch(part) for epoch in epochs for part in epoch.parts(2 if epoch is epochs[2] else None)
    ]
    weights = adapter.weights()
    adapter, _, _, images, labels = built(dtype, architecture=network_with_dropout)
    stream = ArrayStream(images, labels)
    adapter.load(split="train", inputs=stream, labels=labels)
    initial = adapter.state()
    adapter.compile(epochs[0])
    adapter.set_state(initial)
    stream.sizes.clear()
    for epoch, losses in zip([*epochs[:2], *epochs[2].parts(2)], expected, strict=True):
        assert_same_training(adapter.train_epoch(epoch), losses, adapter, dtype)
        assert adapter.counted()["samples"] == epoch.samples
    assert adapter.counted() == {"samples": 2, "batches": 1, "updates": 9}
    assert stream.sizes == [4, 4, 2] * 3  # each batch once
    for name, array in adapter.weights().items():
        assert_same_training(array, weights[name], adapter, dtype)


def test_a_stream_is_evaluated_in_its_stored_order(built):
    adapter, *_ = built()
    images, labels = samples(23, "float64", seed=5)
    adapter.load(split="test", inputs=images, labels=labels)
    expected = adapter.predict("test")
    stream = ArrayStream(images, labels, evaluation_batch_size=10)
    adapter.load(split="test", inputs=stream, labels=labels)
    np.testing.assert_allclose(adapter.predict("test"), expected, **tolerances(adapter, "float64"))
    assert stream.sizes == [10, 10, 3]


def test_an_error_of_a_stream_is_raised_as_it_is(built):
    class Failing(ArrayStream):
        def _batches(self, order, batch_size):
            yield from itertools.islice(super()._batches(order, batch_size), 1)
            raise DataError("a photograph is gone")

    adapter, _, _, images, labels = built()
    stream = Failing(images, labels, evaluation_batch_size=4)
    for split in ("train", "test"):
        adapter.load(split=split, inputs=stream, labels=labels)
    for act in (lambda: adapter.train_epoch(feed(range(10), 4)), lambda: adapter.predict("test")):
        with pytest.raises(DataError, match=r"^a photograph is gone$"):
            act()


@pytest.mark.parametrize("batch_size", [5, 10])
def test_without_an_order_samples_are_used_as_stored(built, batch_size):
    adapter, _, reference, images, labels = built()
    losses = adapter.train_epoch(EpochFeed(None, batch_size, 10, 1))
    batches = [slice(start, start + batch_size) for start in range(0, 10, batch_size)]
    expected = [reference.train_step(images[batch], labels[batch]) for batch in batches]
    np.testing.assert_allclose(losses, expected, **tolerances(adapter, "float64"))


def test_dropout_is_seeded_by_the_feed(built):
    losses = []
    for dropout_seed in (1, 1, 2):
        adapter = built(architecture=network(dropout=0.5))[0]
        losses.append(adapter.train_epoch(feed(range(10), 5, dropout_seed)))
    assert_same_training(losses[0], losses[1], adapter, "float64")
    assert np.abs(losses[0] - losses[2]).max() > 1e-6


def test_dropout_is_off_in_evaluation(built):
    adapter, _, reference, images, _ = built(architecture=network(dropout=0.5))
    np.testing.assert_allclose(adapter.predict("train"), reference.logits(images), **tolerances(adapter, "float64"))


def test_dropout_scales_the_kept_values(create):
    """Inverted dropout: the mean of many inputs of 1 stays near 1, which the loss shows."""
    inputs = 40_000
    architecture = chain(
        "dropped",
        (1, 200, 200),
        [("f", "Flatten", {}), ("drop", "Dropout", {"rate": 0.5}), ("d", "Dense", {"units": 2})],
    )
    kernel = np.zeros((inputs, 2))
    kernel[:, 0] = 1 / inputs
    adapter = create(
        architecture=architecture, weights={"d.kernel": kernel, "d.bias": np.zeros(2)}, optimizer=OPTIMIZERS["sgd"],
        dtype="float64",
    )  # fmt: skip
    adapter.load(split="train", inputs=np.ones((1, 1, 200, 200)), labels=np.zeros(1, int))
    loss = adapter.train_epoch(feed([0], 1))[0]
    mean_of_kept = -np.log(np.expm1(loss))  # loss = log(1 + exp(-s)) for logits (s, 0) and label 0
    assert mean_of_kept == pytest.approx(1, abs=0.03)
    assert mean_of_kept != 1


def test_dropout_drops_the_share_of_its_rate(create):
    """A fifth of 40,000 inputs: the gradient of a kept input is half its scaled value, that of a dropped one 0."""
    inputs, rate = 40_000, 0.2
    layers = [("f", "Flatten", {}), ("drop", "Dropout", {"rate": rate}), ("d", "Dense", {"units": 2})]
    adapter = create(
        architecture=chain("dropped", (1, 200, 200), layers),
        weights={"d.kernel": np.zeros((inputs, 2)), "d.bias": np.zeros(2)}, optimizer=Optimizer("sgd", 1.0),
        dtype="float64",
    )  # fmt: skip
    adapter.load(split="train", inputs=np.ones((1, 1, 200, 200)), labels=np.zeros(1, int))
    adapter.train_epoch(feed([0], 1))
    moved = adapter.weights()["d.kernel"][:, 0]
    assert np.mean(moved == 0) == pytest.approx(rate, abs=0.01)
    np.testing.assert_allclose(moved[moved != 0], 0.5 / (1 - rate), rtol=1e-6)


def test_dropout_layers_draw_masks_of_their_own(create):
    """Of two layers in a row, a sixteenth of the inputs is kept by all four masks of two steps.

    If the second layer had the mask of the first in the next step, it would be an eighth.
    """
    layers = [("f", "Flatten", {}), ("one", "Dropout", {"rate": 0.5}), ("two", "Dropout", {"rate": 0.5})]
    adapter = create(
        architecture=chain("twice", (1, 200, 200), [*layers, ("d", "Dense", {"units": 2})]),
        weights={"d.kernel": np.zeros((40_000, 2)), "d.bias": np.zeros(2)}, optimizer=Optimizer("sgd", 1e-7),
        dtype="float64",
    )  # fmt: skip
    adapter.load(split="train", inputs=np.ones((2, 1, 200, 200)), labels=np.zeros(2, int))
    adapter.train_epoch(feed([0, 1], 1))
    moved = adapter.weights()["d.kernel"][:, 0]
    assert np.mean(moved > 0.75 * moved.max()) == pytest.approx(1 / 16, abs=0.01)


RATES = {rule: [(("learning_rate", rate),) for rate in (0.02, 0.005)] for rule in OPTIMIZERS} | {
    "rmsprop_warmup": [
        rmsprop_warmup_rates(0.2, completed=5, legacy=False),
        rmsprop_warmup_rates(0.2, completed=12, legacy=True),  # a share above 1 and a negative one
    ]
}
"""Rates of two epochs, by rule."""


def test_the_rates_of_a_feed_are_the_constants_of_its_epoch(built, rule):
    """The training is that of numpy with the same constants in each epoch."""
    adapter, _, reference, images, labels = built("float64", rule)
    for epoch, rates in enumerate(RATES[rule]):
        order = np.random.default_rng(epoch).permutation(10)
        reference.constants |= dict(rates)
        losses = adapter.train_epoch(replace(feed(order, 5), rates=rates))
        expected = [reference.train_step(images[batch], labels[batch]) for batch in (order[:5], order[5:])]
        np.testing.assert_allclose(losses, expected, **tolerances(adapter, "float64"))
    for name, array in adapter.weights().items():
        exact = tolerances(adapter, "float64") == TOLERANCE["float64"]
        near = {"rtol": 1e-11, "atol": 1e-12} if exact else {"rtol": 1e-3, "atol": 1e-4}
        np.testing.assert_allclose(array, reference.weights()[name], err_msg=name, **near)
    constants = OPTIMIZERS[rule].as_dict()  # for the tests after this one, since rates may not be part of the state
    adapter.train_epoch(replace(feed(range(10), 5), rates=tuple((key, constants[key]) for key, _ in RATES[rule][0])))


def test_rates_equal_to_the_constants_change_nothing(built, rule):
    """Neither the state nor the compiled step is another one."""
    constants = OPTIMIZERS[rule].as_dict()
    rates = tuple((name, constants[name]) for name, _ in RATES[rule][0])
    found = []
    for given in ((), rates):
        adapter = built("float32", rule)[0]
        found.append([adapter.train_epoch(replace(feed(range(10), 3), rates=given)) for _ in range(2)])
        found[-1] += list(adapter.weights().values())
    for first, second in zip(*found, strict=True):
        assert_same_training(first, second, adapter, "float32")


@pytest.mark.parametrize("legacy", [False, True])
def test_rmsprop_warmup_equals_100_epochs_by_hand(create, legacy):
    """With the continuous slope and the published one; the constants of each epoch come with its feed."""
    architecture = chain("regression", (1, 1, 4), [("f", "Flatten", {}), ("d", "Dense", {"units": 3})])
    generator = np.random.default_rng(0)
    inputs, labels, kernel = generator.normal(size=(10, 4)), np.arange(10) % 3, generator.normal(size=(4, 3))
    orders = [generator.permutation(10) for _ in range(100)]
    with_bias = np.c_[inputs, np.ones(10)], labels, np.r_[kernel, np.zeros((1, 3))]
    expected, _ = trained_by_hand(*with_bias, orders, 5, 5.0, 2 / 5 if legacy else 1 / 5)
    settings = {"optimizer": {"rule": "rmsprop_warmup", "learning_rate": 5.0, "legacy": legacy}}
    optimizer = merged_optimizer(RECIPES["imagenet-resnet50"], settings)
    rates = [epoch_rates(optimizer, {}, 5, epoch) for epoch in range(1, 101)]
    adapter = create(
        architecture=architecture, weights={"d.kernel": kernel, "d.bias": np.zeros(3)},
        optimizer=optimizer.with_rates(rates[0]), dtype="float64",
    )  # fmt: skip
    adapter.load(split="train", inputs=inputs.reshape(10, 1, 1, 4), labels=labels)
    losses = []
    for order, of_epoch in zip(orders, rates, strict=True):
        losses += adapter.train_epoch(replace(feed(order, 5), rates=of_epoch)).tolist()
    exact = tolerances(adapter, "float64", architecture) == TOLERANCE["float64"]
    np.testing.assert_allclose(losses, expected, rtol=1e-10 if exact else 1e-3)


def test_training_is_deterministic_and_resumes(built, rule, tmp_path):
    """Also after compiling, with dropout, and whatever rates an adapter had before: what matters is in the state."""
    order = np.random.default_rng(3).permutation(10)
    feeds = [replace(feed(order, 3, epoch), rates=RATES[rule][epoch % 2]) for epoch in range(4)]
    compiled, other = (built("float32", rule, network(dropout=0.2), fresh=True)[0] for _ in range(2))
    initial = compiled.state()
    assert all(np.array_equal(initial[name], array) for name, array in other.state().items())
    compiled.compile(feeds[1])
    assert any(not np.array_equal(initial[name], array) for name, array in compiled.state().items())
    compiled.set_state(initial)
    losses = [compiled.train_epoch(feeds[0])]
    write_checkpoint(tmp_path, "run", Checkpoint(1, compiled.state(), {}))
    losses += [compiled.train_epoch(one) for one in feeds[1:]]
    weights = compiled.weights()
    resumed = newest_checkpoint(tmp_path, "run").state
    for adapter, state, first in ((other, resumed, 1), (other, initial, 0), (compiled, resumed, 1)):
        adapter.set_state(state)
        assert_same_training([adapter.train_epoch(one) for one in feeds[first:]], losses[first:], adapter, "float32")
        for name, array in adapter.weights().items():
            assert_same_training(array, weights[name], adapter, "float32")


def test_a_restarted_optimizer_is_a_new_one(built, rule):
    """The training goes on as that of an adapter that never took a step and was given the weights."""
    feeds = [feed(np.random.default_rng(3).permutation(10), 3, epoch) for epoch in range(2)]
    restarted, other = (built("float32", rule, network(), fresh=True)[0] for _ in range(2))
    initial = restarted.state()
    restarted.train_epoch(feeds[0])
    other.set_weights(restarted.weights())
    restarted.restart_optimizer(initial)
    assert_same_training(restarted.train_epoch(feeds[1]), other.train_epoch(feeds[1]), restarted, "float32")
    assert restarted.counted() == other.counted()
    for name, array in other.weights().items():
        assert_same_training(restarted.weights()[name], array, restarted, "float32")


def test_a_state_is_a_copy(built):
    adapter = built("float32")[0]
    state = adapter.state()
    kept = {name: array.copy() for name, array in state.items()}
    adapter.train_epoch(feed(range(10), 3))
    for name, array in state.items():
        np.testing.assert_array_equal(array, kept[name])


def test_what_is_read_at_once_equals_what_is_read_after_synchronizing(built):
    """Reads wait for the training that the device has still to do."""
    adapter = built("float32")[0]
    adapter.train_epoch(feed(range(10), 10))
    at_once = [adapter.state(), adapter.weights()]
    adapter.synchronize()
    for early, late in zip(at_once, [adapter.state(), adapter.weights()], strict=True):
        for name, array in late.items():
            np.testing.assert_array_equal(early[name], array)


def test_synchronize_waits_for_the_device(built):
    """The clock check finds no work left. Here weights are set: after an epoch, reading its losses may have waited."""
    adapter, weights, *_ = built("float32")
    check = ClockCheck(adapter)
    for _ in range(CHECKED_SINGLY):
        begin = time.monotonic()
        adapter.set_weights(weights)
        adapter.synchronize()
        check.after(time.monotonic() - begin)


def test_gpu_memory_is_reported_on_the_gpu_alone(built, device):
    adapter = built("float32")[0]
    adapter.train_epoch(feed(range(10), 3))
    memory_mib = adapter.device_memory_mib()
    assert memory_mib is None if device == "cpu" else memory_mib > 0


def test_thread_pools_have_the_given_number_of_threads(built):
    """Every pool that the framework reports."""
    adapter = built("float32")[0]
    adapter.train_epoch(feed(range(10), 3))
    assert {pool["threads"] for pool in adapter.thread_pools()} <= {2}


@pytest.mark.parametrize("operation", ["matmul", "add"])
def test_matrix_operations_give_a_finite_peak(built, device, operation):
    """Whatever the dtype of the network. An adapter may have none on the GPU."""
    adapter, *_ = built()
    state = adapter.state()
    work = adapter.matrix_operation(operation, 64, 2)
    assert work is not None or device == "gpu"
    if work is not None:
        assert 0 < 1 / fastest_seconds(work) < float("inf")
    for name, value in adapter.state().items():
        np.testing.assert_array_equal(value, state[name])


def test_out_of_memory_is_distinguished_from_other_errors(framework, unbuilt):
    """With errors of the same class names and messages: real ones would need a GPU or exhaust the memory."""

    def recognised(errors):
        return [(name, text) for name, text in errors if adapter.is_out_of_memory(type(name, (Exception,), {})(text))]

    adapter = unbuilt()
    assert adapter.is_out_of_memory(MemoryError())
    ran_out = OUT_OF_MEMORY.get(framework.partition("-")[0], [])
    assert recognised(ran_out) == ran_out
    assert recognised(OTHER_ERRORS) == []


def test_a_diverging_training_returns_its_losses(create):
    """NaN and infinity are results: neither training nor evaluation raises."""
    architecture = network()
    weights = draw_initial_weights(architecture, "glorot_uniform", (1, 1))
    adapter = create(architecture=architecture, weights=weights, optimizer=Optimizer("sgd", 1e200), dtype="float64")
    adapter.load(split="train", inputs=samples(10, "float64")[0], labels=samples(10, "float64")[1])
    losses = adapter.train_epoch(feed(range(10), 2))
    assert np.isfinite(losses[0])
    assert not np.isfinite(losses).all()
    assert not np.isfinite(cross_entropy_and_accuracy(adapter.predict("train"), samples(10, "float64")[1])[0])


def test_chainers_max_pooling_ignores_nan_on_the_gpu(create, framework, device):
    if framework != "chainer":
        pytest.skip("on Chainer alone")
    layers = [("pool", "MaxPool2D", {"size": 2, "stride": 2}), ("f", "Flatten", {}), ("d", "Dense", {"units": 2})]
    architecture = chain("pooled", (1, 2, 2), layers)
    adapter = create(
        architecture=architecture, weights=draw_initial_weights(architecture, "glorot_uniform", (1, 1)),
        optimizer=OPTIMIZERS["sgd"], dtype="float32",
    )  # fmt: skip
    adapter.load(split="train", inputs=np.array([[[[1, np.nan], [3, 2]]]], "float32"), labels=np.zeros(1, int))
    pooled = adapter.activations("train", [0], training=False)["pool"]
    np.testing.assert_array_equal(pooled, [[[[3 if device == "gpu" else np.nan]]]])


def test_device_is_described_from_the_arrays(built, device):
    adapter = built()[0]
    adapter.train_epoch(feed(range(10), 3))
    adapter.synchronize()
    described = adapter.describe_device()
    assert described["kind"] == device
    assert described["name"]


def test_a_missing_gpu_is_refused(unbuilt, device):
    if device == "gpu":
        pytest.skip("on the CPU alone")
    adapter = unbuilt()
    architecture = network()
    with pytest.raises(DeviceError, match="sees no GPU"):
        adapter.build(
            architecture=architecture, weights=draw_initial_weights(architecture, "glorot_uniform", (1, 1)),
            optimizer=OPTIMIZERS["sgd"], device="gpu", dtype="float32",
        )  # fmt: skip


def test_no_other_framework_is_imported(built, framework):
    """Importing another framework takes seconds, which would count as this one's time."""
    adapter = built("float32", architecture=network(dropout=0.2))[0]
    adapter.train_epoch(feed(range(10), 5))
    adapter.predict("train")
    packages = {entry.packages[0] for entry in known_frameworks().values()} - {
        known_frameworks()[framework].packages[0]
    }
    assert packages & set(sys.modules) <= IMPORTS_ITSELF.get(framework, set())


def test_versions_name_the_frameworks_packages(framework, unbuilt, built):
    versions = unbuilt().versions()
    assert versions == built()[0].versions(), "a certificate's versions are compared with those of runs"
    for package in known_frameworks()[framework].packages:
        assert versions[package][0].isdigit()


# --- every layer type, and the methods for certificates -----------------------------------------------------------


def observed_inputs(architecture, seed=0):
    """Inputs and labels of ten samples, weights that differ from initial ones, and masks for five samples."""
    generator = np.random.default_rng(seed)
    if architecture.takes_tokens:
        inputs = generator.integers(0, 11, (10, *architecture.input_shape)).astype(np.int32)
        inputs[:, :4] = 0  # padding: equal windows, and words that occur several times
    else:
        inputs = generator.normal(size=(10, *architecture.input_shape))
    weights = {
        name: array + (0.5 if "variance" in name else 1.0) * generator.random(array.shape) - 0.3
        for name, array in draw_initial_weights(architecture, "he_normal", (1, 1)).items()
    }
    shapes = architecture.shapes()
    dropouts = [node for node in architecture.nodes if node.op == "Dropout"]
    masks = {node.name: (generator.random((5, *shapes[node.name])) > 0.25) / 0.75 for node in dropouts}
    return inputs, generator.integers(0, 2, 10), weights, masks


@pytest.fixture
def build_observed(in_initial_state):
    """A function that returns an adapter with an `observed_batch` of 5, its network, data, weights and masks."""

    def build(architecture, rule="sgd", masked=True):
        inputs, labels, weights, masks = observed_inputs(architecture)
        adapter = in_initial_state(
            fresh=not masked,  # masks are not part of the state
            architecture=architecture, weights=weights, optimizer=OPTIMIZERS[rule], dtype="float64", observed_batch=5,
        )  # fmt: skip
        adapter.load(split="train", inputs=inputs, labels=labels)
        if masked:
            adapter.set_masks(masks)
        return adapter, architecture, inputs, labels, weights, masks

    return build


@pytest.fixture(params=("images", "tokens"))
def observed(request, build_observed):
    """`build_observed` of a network, for what adapters do with any of them."""
    return partial(build_observed, NETWORKS[request.param])


@pytest.fixture(params=NETWORKS)
def of_every_layer(request, build_observed):
    """`build_observed` of a network, for what each layer does. The tuned loop has the layers of the stock one."""
    if request.param == "attention" and request.config.getoption("--loop") == "tuned":
        pytest.skip("in the stock loop alone")
    return partial(build_observed, NETWORKS[request.param])


def test_the_networks_contain_every_layer_type_and_each_attribute_away_from_its_default():
    nodes = [node for network in NETWORKS.values() for node in network.nodes]
    varied = {
        (node.op, name)
        for node in nodes
        for name in node.attributes
        if node.attributes[name] != OPS[node.op].attributes[name].default
    }
    assert {node.op for node in nodes} == set(OPS)
    assert varied == {(op, name) for op in OPS for name in OPS[op].attributes}


def test_every_layer_computes_its_definition(of_every_layer):
    adapter, architecture, inputs, _, weights, masks = of_every_layer()
    indices = [3, 9, 0, 4, 4]
    found = adapter.activations("train", indices, training=True)
    expected = reference_ops.activations(architecture, inputs[indices], weights, masks)
    assert list(found) == ["input", *(node.name for node in architecture.nodes)]
    shapes = architecture.shapes()
    for name, array in found.items():
        assert array.shape == (5, *shapes[name])
        np.testing.assert_allclose(array, expected[name], err_msg=name, **tolerances(adapter, "float64", architecture))


def test_float32_ops_are_the_first_that_differ_in_float64(of_every_layer, framework, device):
    """An adapter declares the ops of FLOAT32_OPS alone, which loosen tolerances, and they do compute in float32."""
    adapter, architecture, inputs, _, weights, masks = of_every_layer()
    found = adapter.activations("train", range(5), training=True)
    expected = reference_ops.activations(architecture, inputs[:5], weights, masks)
    differing = [
        node.op for node in architecture.nodes
        if not np.allclose(found[node.name], expected[node.name], **TOLERANCE["float64"])
    ]  # fmt: skip
    declared = [node.op for node in architecture.nodes if node.op in adapter.float32_ops]
    assert adapter.float32_ops == FLOAT32_OPS.get((framework, device), ())
    assert differing[:1] == declared[:1]


def test_a_steps_loss_and_gradients_match_their_definitions(of_every_layer):
    """Gradients along random directions are compared with central differences of the loss by its definition."""
    adapter, architecture, inputs, labels, weights, masks = of_every_layer()
    batch = [3, 9, 0, 4, 1]
    expected = reference_ops.loss(architecture, inputs[batch], labels[batch], weights, masks)
    np.testing.assert_allclose(
        adapter.train_epoch(feed(batch, 5)), [expected], **tolerances(adapter, "float64", architecture)
    )
    gradients = adapter.gradients()
    assert list(gradients) == [parameter.name for parameter in architecture.parameters()]
    generator = np.random.default_rng(1)
    for name, gradient in gradients.items():
        assert gradient.shape == weights[name].shape
        direction = generator.normal(size=gradient.shape)
        sides = [weights | {name: weights[name] + step * direction} for step in (1e-6, -1e-6)]
        high, low = (reference_ops.loss(architecture, inputs[batch], labels[batch], side, masks) for side in sides)
        found = float((gradient * direction).sum())
        np.testing.assert_allclose(found, (high - low) / 2e-6, rtol=1e-4, atol=1e-7, err_msg=name)


def test_updates_follow_the_rule(observed, rule, framework, request):
    """Over three steps, with the adapter's own gradients."""
    if framework.startswith("keras-") and request.node.callspec.params["observed"] == "images" and rule != "adam":
        pytest.skip("Keras's rules know no layers, so the network of images is trained with adam alone")
    adapter, architecture, _, _, weights, _ = observed(rule)
    constants = OPTIMIZERS[rule].as_dict()
    update, states = UPDATE_RULES[constants.pop("rule")], {name: {} for name in weights}
    expected = dict(weights)
    for step in (1, 2, 3):
        adapter.train_epoch(feed(np.arange(5) + step, 5))
        for name, gradient in adapter.gradients().items():
            expected[name] = update(expected[name], gradient, states[name], step, **constants)
    found = adapter.weights()
    for parameter in architecture.parameters():
        np.testing.assert_allclose(
            found[parameter.name],
            expected[parameter.name],
            err_msg=parameter.name,
            **tolerances(adapter, "float64", architecture),
        )


def test_running_statistics_are_chainers(observed):
    """With the unbiased variance of the batch and the decay of the graph."""
    adapter, architecture, *_, weights, _ = observed()
    found = adapter.activations("train", range(5), training=True)
    adapter.train_epoch(feed(range(5), 5))
    after = adapter.weights()
    for node in (node for node in architecture.nodes if node.op == "BatchNorm"):
        x = np.moveaxis(found[node.inputs[0]], 1, 0).reshape(found[node.inputs[0]].shape[1], -1)
        decay = node.attributes["decay"]
        for role, batch in (("moving_mean", x.mean(axis=1)), ("moving_variance", x.var(axis=1, ddof=1))):
            name = f"{node.name}.{role}"
            expected = decay * weights[name] + (1 - decay) * batch
            np.testing.assert_allclose(
                after[name], expected, err_msg=name, **tolerances(adapter, "float64", architecture)
            )


def test_evaluation_uses_running_statistics_without_dropout_and_auxiliary_heads(of_every_layer):
    adapter, architecture, _, _, weights, _ = of_every_layer()
    found = adapter.activations("train", range(10), training=False)
    assert list(found) == ["input", *(node.name for node in architecture.inference_nodes())]
    np.testing.assert_allclose(
        adapter.predict("train"), found[architecture.output], **tolerances(adapter, "float64", architecture)
    )
    for node in architecture.inference_nodes():
        before, after = found[node.inputs[0]], found[node.name]
        if node.op == "Dropout":
            np.testing.assert_array_equal(after, before)
        elif node.op == "BatchNorm":
            shape = (1, -1) + (1,) * (before.ndim - 2)
            mean, variance, gamma, beta = (
                weights[f"{node.name}.{role}"].reshape(shape)
                for role in ("moving_mean", "moving_variance", "gamma", "beta")
            )
            expected = gamma * (before - mean) / np.sqrt(variance + node.attributes["epsilon"]) + beta
            np.testing.assert_allclose(after, expected, **tolerances(adapter, "float64", architecture))


def test_activations_do_not_change_the_state(observed):
    adapter, *_ = observed("adam")
    adapter.train_epoch(feed(range(5), 5))
    before = adapter.state()
    for training in (True, False):
        adapter.activations("train", range(5), training=training)
    after = adapter.state()
    assert after.keys() == before.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_without_masks_an_observed_network_drops_nothing(observed):
    adapter, architecture, *_ = observed(masked=False)
    found = adapter.activations("train", range(5), training=True)
    dropouts = [node for node in architecture.nodes if node.op == "Dropout"]
    assert dropouts
    for node in dropouts:
        np.testing.assert_array_equal(found[node.name], found[node.inputs[0]])


def test_an_observed_training_equals_an_unobserved_one(observed, create):
    """Without dropout, a network trains the same with and without `observed_batch`."""
    _, architecture, inputs, labels, weights, _ = observed()
    nodes = tuple(
        replace(node, op="ReLU", attributes={}) if node.op == "Dropout" else node for node in architecture.nodes
    )
    plain = replace(architecture, nodes=nodes)
    losses = []
    for observed_batch in (5, None):
        adapter = create(
            architecture=plain, weights=weights, optimizer=OPTIMIZERS["adam"], dtype="float32",
            observed_batch=observed_batch,
        )  # fmt: skip
        adapter.load(split="train", inputs=inputs if plain.takes_tokens else inputs.astype("float32"), labels=labels)
        losses.append([adapter.train_epoch(feed(range(5), 5)), adapter.train_epoch(feed(range(5, 10), 5))])
    assert_same_training(*losses, adapter, "float32")


def test_equal_values_in_a_pooling_share_one_gradient(create):
    """Windows of the same words have the same maximum; its gradient counts once, whichever of them gets it."""
    architecture = NETWORKS["tokens"]
    inputs = np.full((5, 7), 3, np.int32)
    weights = draw_initial_weights(architecture, "he_normal", (1, 1))
    adapter = create(
        architecture=architecture, weights=weights, optimizer=OPTIMIZERS["sgd"], dtype="float64",
        observed_batch=5,
    )  # fmt: skip
    adapter.load(split="train", inputs=inputs, labels=np.zeros(5, int))
    adapter.train_epoch(feed(range(5), 5))
    gradient = adapter.gradients()["embedding.embeddings"]
    step = np.zeros_like(gradient)
    step[3] = 1e-6
    sides = [weights | {"embedding.embeddings": weights["embedding.embeddings"] + sign * step} for sign in (1, -1)]
    masks = {"dropout": 1.0}
    high, low = (reference_ops.loss(architecture, inputs, np.zeros(5, int), side, masks) for side in sides)
    np.testing.assert_allclose(gradient[3].sum(), (high - low) / 2e-6, rtol=1e-4)
    assert np.abs(np.delete(gradient, 3, axis=0)).max() == 0
