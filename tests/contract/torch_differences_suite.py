"""Shows where torch's own layers and optimizers differ from the graph's definitions; docs/frameworks.md lists them.

Run: pytest tests/contract/torch_differences_suite.py --framework torch. Where a newer torch no longer differs, its test
fails here, and the adapter's own part can go.
"""

import itertools
import os
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from contract_suite import OPTIMIZERS as OPTIMIZER_OF
from contract_suite import RATES
from streams import ArrayStream
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trainmark.frameworks import torch_graph, torch_tuned
from trainmark.frameworks.registry import create_adapter
from trainmark.frameworks.torch_layers import LAYERS
from trainmark.frameworks.torch_optimizers import OPTIMIZERS, create_optimizer, set_rates
from trainmark.networks.graph import Graph
from trainmark.networks.ops import Node
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import draw_initial_weights


def array(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def layer(op, *shape, table=LAYERS, **attributes):
    """A layer of ours for inputs of a shape, in float64."""
    return table[op](Node(op, op, ("input",), attributes), shape).double()


def weight(value=0.0, dtype=torch.float64):
    return torch.nn.Parameter(torch.full((1,), value, dtype=dtype))


def updated(optimizer, one, gradients, rates=()):
    """A weight after steps of an optimizer with these gradients, each with a learning rate if there are any."""
    for step, gradient in enumerate(gradients):
        if rates:
            set_rates(optimizer, (("learning_rate", rates[step]),))
        one.grad = torch.full_like(one, gradient)
        optimizer.step()
    return one.item()


def ours(rule, one, table=OPTIMIZERS, **constants):
    first = one.item()
    optimizer = create_optimizer(table, [one], rule, **constants)
    one.data.fill_(first)
    return optimizer


# --- layers ---------------------------------------------------------------------------------------------------------


def test_torchs_batch_norm_has_another_epsilon_and_names_the_share_of_the_new_value():
    theirs = torch.nn.BatchNorm2d(3)
    assert (theirs.momentum, theirs.eps) == (0.1, 1e-5)
    norm = layer("BatchNorm", 3, 4, 4)
    assert (norm.momentum, norm.eps) == (pytest.approx(0.1, rel=1e-15), 2e-5)


@pytest.mark.parametrize("shape", [(3,), (3, 1, 1)])
def test_batch_norm_refuses_one_value_per_channel(shape):
    """Its variance is 0, so the output is the offset, and no gradient reaches the input; running statistics go on."""
    kind = torch.nn.BatchNorm1d if len(shape) == 1 else torch.nn.BatchNorm2d
    x = array(1, *shape).requires_grad_()
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        kind(3).double()(x)
    norm = layer("BatchNorm", *shape)
    torch.nn.init.constant_(norm.bias, 0.5)
    y = norm(x)
    (y * array(*y.shape, seed=1)).sum().backward()
    assert y.tolist() == torch.full_like(y, 0.5).tolist()
    assert not x.grad.any()
    assert not norm.weight.grad.any()
    np.testing.assert_allclose(norm.running_mean, 0.1 * x.detach().flatten())
    np.testing.assert_allclose(norm.running_var, np.full(3, 0.9))


def test_torchs_pooling_omits_the_remainder_by_default():
    x = array(1, 2, 6, 6)
    assert torch.nn.MaxPool2d(3, 2)(x).shape == (1, 2, 2, 2)
    pooled = layer("MaxPool2D", 2, 6, 6, size=3, stride=2)(x)
    np.testing.assert_array_equal(pooled[0, :, 2, 2], x[0, :, 4:, 4:].amax((1, 2)))


def test_ceil_mode_omits_a_window_of_padding_alone():
    """5 rows, padded to 7, have 3 windows of size 2 and stride 3 if the last one, of padding and beyond, counts."""
    x = array(1, 1, 5, 4)
    assert torch.nn.MaxPool2d(2, 3, 1, ceil_mode=True)(x).shape == (1, 1, 2, 2)
    pooled = layer("MaxPool2D", 1, 5, 4, size=2, stride=3, padding=1)(x)
    assert pooled.shape == (1, 1, 3, 3)
    assert pooled[0, 0, 0, 0] == x[0, 0, 0, 0]
    assert (pooled[0, 0, 2] == -torch.inf).all()


@pytest.mark.parametrize("op", ["MaxPool2D", "AvgPool2D"])
def test_poolings_refuse_more_padding_than_half_a_window(op):
    x = array(1, 1, 4, 4).requires_grad_()
    kind = {"MaxPool2D": torch.nn.MaxPool2d, "AvgPool2D": torch.nn.AvgPool2d}[op]
    with pytest.raises(RuntimeError, match="pad should be at most half"):
        kind(3, 1, 2)(x)
    pooled = layer(op, 1, 4, 4, size=3, padding=2)(x)
    assert pooled.shape == (1, 1, 6, 6)
    assert pooled[0, 0, 0, 0].item() == pytest.approx(x[0, 0, 0, 0].item() / (9 if op == "AvgPool2D" else 1))


def test_local_response_norm_divides_alpha_by_n():
    x = array(2, 6, 3, 3)
    constants = {"n": 5, "k": 2.0, "alpha": 0.3, "beta": 0.75}
    theirs = torch.nn.LocalResponseNorm(5, alpha=0.3, beta=0.75, k=2.0)(x)
    sums = torch.stack([x[:, max(0, i - 2) : i + 3].square().sum(1) for i in range(6)], 1)
    np.testing.assert_allclose(theirs, x / (2 + 0.3 / 5 * sums) ** 0.75)
    np.testing.assert_allclose(layer("LRN", 6, 3, 3, **constants)(x), x / (2 + 0.3 * sums) ** 0.75, rtol=1e-12)


# --- update rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fused", [False, True])
def test_torchs_adam_has_epsilon_beside_the_corrected_root(fused):
    """With gradient 1 and epsilon .1 the first step is 1 / (1 + .1 / sqrt(.001)); in the other form 1 / 1.1."""
    constants = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 0.1, "learning_rate": 1.0}
    table = {**OPTIMIZERS, **(torch_tuned.FUSED if fused else {})}
    one = weight()
    theirs = updated(torch.optim.Adam([one], lr=1.0, betas=(0.9, 0.999), eps=0.1, fused=fused), one, [1.0])
    assert theirs == pytest.approx(-1 / 1.1, rel=1e-12)
    one, other = weight(), weight()
    assert updated(ours("adam_algorithm_1", one, table, **constants), one, [1.0]) == theirs
    uncorrected = -1 / (1 + 0.1 / np.sqrt(0.001))
    assert updated(ours("adam", other, table, **constants), other, [1.0]) == pytest.approx(uncorrected, rel=1e-12)


def test_torchs_momentum_has_the_rate_outside_the_velocity():
    """The same as long as the rate is: after a change, the steps before count with the rate that they had."""
    gradients, rates = [0.3, -0.7, 0.2, 0.9], [0.1, 0.1, 0.0, 0.05]
    velocity, expected = 0.0, 1.0
    for gradient, rate in zip(gradients, rates, strict=True):
        velocity = 0.9 * velocity - rate * gradient
        expected += velocity
    one, other = weight(1.0), weight(1.0)
    found = updated(ours("momentum_sgd", one, learning_rate=0.1, momentum=0.9), one, gradients, rates)
    assert found == pytest.approx(expected, rel=1e-14)
    theirs = updated(torch.optim.SGD([other], lr=0.1, momentum=0.9), other, gradients, rates)
    assert abs(theirs - expected) > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_rmsprop_is_torchs_rmsprop(dtype):
    """Also after a gradient that is 1e12 times the next one, and in the first steps, which Adam would correct."""
    constants = {"learning_rate": 0.01, "rho": 0.9, "epsilon": 1e-3}
    gradients = [3.0, -0.7, 1e4, 1e-8, 0.2]
    one, other = weight(1.0, dtype), weight(1.0, dtype)
    theirs = updated(torch.optim.RMSprop([other], lr=0.01, alpha=0.9, eps=1e-3), other, gradients)
    fused = updated(ours("rmsprop", one, torch_tuned.FUSED, **constants), one, gradients)
    assert fused == pytest.approx(theirs, rel=1e-14 if dtype == torch.float64 else 2e-7)


# --- float32 --------------------------------------------------------------------------------------------------------


def test_products_of_float32_may_be_tensor_float_32():
    """Checks the settings only, for which no GPU is needed."""
    torch.backends.cudnn.allow_tf32 = True  # torch's default, for convolutions
    create_adapter("torch", threads=2)
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "0"


def test_values_below_the_least_normal_one_are_kept():
    least = torch.full((8,), float(np.finfo(np.float32).smallest_normal))
    assert (least * 0.5 > 0).all()


# --- the tuned loop -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.75, 0.6])
def test_tuned_local_response_norm_is_torchs(beta):
    found = []
    for table in (LAYERS, {"LRN": torch_tuned.REPLACED["sums"][1]}):
        x = array(2, 6, 3, 4).requires_grad_()
        y = layer("LRN", 6, 3, 4, table=table, n=5, alpha=0.3, beta=beta)(x)
        (y * array(*y.shape, seed=1)).sum().backward()
        found.append((y.detach(), x.grad))
    for theirs, tuned in zip(*found, strict=True):
        np.testing.assert_allclose(tuned, theirs, rtol=1e-12, atol=1e-14)


def test_tuned_masks_keep_the_layout_and_differ_between_steps():
    """Drawn in the order in which the values lie in memory, whatever axis that is."""
    dropout = torch_tuned.Dropout(0.25).train()
    dropout.bits = np.random.SFC64(1)
    x = torch.ones(8, 50, 40).transpose(1, 2)
    first, second = dropout(x), dropout(x)
    assert first.stride() == x.stride()
    assert set(first.unique().tolist()) == {0.0, np.float32(1 / 0.75)}
    assert (first == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert ((first == 0) & (second == 0)).float().mean().item() == pytest.approx(0.25**2, abs=0.01)


class Recorded(TorchDispatchMode):
    """A stand-in for a CUDA graph, without a GPU: records torch's operations, and repeats them on the same memory.

    As a graph, it repeats the numbers that the host gave, and refuses work that needs a number from the device.
    """

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function is not torch.ops.aten._local_scalar_dense.default, "the host reads an array"
        result = function(*args, **kwargs or {})
        self.calls.append((function, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def replay(self):
        for function, args, kwargs, result in self.calls:
            for old, new in zip(tree_leaves(result), tree_leaves(function(*args, **kwargs)), strict=True):
                if isinstance(new, torch.Tensor) and new is not old:
                    old.copy_(new)


def capture_with(captures):
    """A stand-in for `torch_graph.captured`. captures: a list to which it adds each."""

    def captured(warm_up, work):
        for _ in range(3):
            warm_up()
        with Recorded() as recorded:
            work()
        captures.append(recorded)
        return recorded.replay

    return captured


def graph_network():
    graph = Graph((1, 6, 6))
    graph.add("conv", "Conv2D", filters=4, size=3, bias=0)  # its gradient would be rounding alone, which Adam enlarges
    graph.add("norm", "BatchNorm")
    graph.add("relu", "ReLU")
    graph.add("flatten", "Flatten")
    graph.add("dense", "Dense", units=3)
    return graph.architecture("small")


def built(steps, rule="adam"):
    """A tuned adapter with these steps on the CPU, whatever device they are for."""
    adapter, architecture = torch_tuned.create("torch", 2, lambda ops, device: steps), graph_network()
    weights = draw_initial_weights(architecture, "he_normal", (1, 1))
    adapter.build(
        architecture=architecture, weights=weights, optimizer=OPTIMIZER_OF[rule], device="cpu", dtype="float64"
    )
    return adapter


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("rule", OPTIMIZER_OF)
def test_a_graph_trains_as_steps_do(rule, streamed):
    """Two epochs with a smaller last batch, other rates, parts of an epoch, other batch sizes, and a state that is set.

    Capturing a graph itself needs a GPU, and has not run on one.
    """
    inputs, labels = array(26, 1, 6, 6).numpy(), np.arange(26) % 3
    order = np.random.default_rng(0).permutation(26)
    one = EpochFeed(order, 4, 26, 1)  # 6 batches and a smaller one: a graph of four steps, and two of one
    other = replace(one, order=order[::-1], rates=RATES[rule][0])
    feeds = [one, one, other, *one.parts(5), EpochFeed(order, 7, 26, 3), replace(other, rates=RATES[rule][1])]
    feeds += [] if streamed else [EpochFeed(None, 26, 26, 4)] * 2 + [EpochFeed(None, 13, 26, 5)]
    found, captures = {}, []
    with (
        mock.patch.object(torch_graph, "captured", capture_with(captures)),
        mock.patch.object(torch_tuned, "GRAPH_STEPS", 4),
    ):
        for steps in ((), ("fused", "graph")):
            adapter = built(steps, rule)
            adapter.load(split="train", inputs=ArrayStream(inputs, labels) if streamed else inputs, labels=labels)
            adapter.load(split="test", inputs=inputs, labels=labels)
            initial = adapter.state()
            adapter.compile(one)
            adapter.set_state(initial)
            compiled = len(captures)
            losses = [adapter.train_epoch(feed) for feed in feeds[:2]]
            assert len(captures) == compiled, "an epoch captures what was to be compiled"
            saved = adapter.state()
            losses += [adapter.train_epoch(feed) for feed in feeds[2:]]
            assert adapter.counted()["updates"] == sum(feed.steps for feed in feeds)
            assert adapter.counted()["samples"] == feeds[-1].samples
            assert adapter.counted()["batches"] == feeds[-1].steps
            adapter.set_state(saved)
            losses.append(adapter.train_epoch(other))
            assert adapter.counted()["updates"] == 21
            found[steps] = [*losses, adapter.predict("test"), *adapter.weights().values()]
    assert captures
    for stepwise, by_graph in zip(*found.values(), strict=True):
        np.testing.assert_allclose(by_graph, stepwise, rtol=1e-11, atol=1e-13)


class PretendedGpu:
    """A stand-in for streams and events of `torch.cuda`, which notes for which steps the host waits."""

    def __init__(self):
        self.notes, self.steps = [], itertools.count()

    def current_stream(self):
        return mock.Mock(record_event=lambda event: event)

    def event(self, blocking):
        assert blocking
        step = next(self.steps)
        return mock.Mock(synchronize=lambda: self.notes.append(f"end of {step}"))

    def patched(self):
        return mock.patch.multiple(
            torch.cuda, current_stream=self.current_stream, Stream=mock.Mock, stream=mock.MagicMock(), Event=self.event
        )


def test_a_batch_is_taken_and_sent_while_the_step_before_is_computed():
    """The host waits for no step but the one before that, and the training is that of a stream without the step."""
    inputs, labels, feed = array(14, 1, 6, 6).numpy(), np.arange(14) % 3, EpochFeed(np.arange(14)[::-1], 4, 14, 1)
    gpu, losses = PretendedGpu(), []

    class Noted(ArrayStream):
        def _batches(self, order, batch_size):
            for place, batch in enumerate(super()._batches(order, batch_size)):
                gpu.notes.append(f"batch {place}")
                yield batch

    for steps in ((), ("ahead",)):
        gpu.notes.clear()
        with (
            gpu.patched(),
            mock.patch.object(torch.Tensor, "pin_memory", torch.Tensor.clone),
            mock.patch.object(torch.Tensor, "record_stream", lambda tensor, stream: None),
        ):
            adapter = built(steps)
            adapter.load(split="train", inputs=Noted(inputs, labels), labels=labels)
            losses.append(adapter.train_epoch(feed))
        assert adapter.counted() == {"samples": 14, "batches": 4, "updates": 4}
    assert gpu.notes == ["batch 0", "batch 1", "end of 0", "batch 2", "end of 1", "batch 3", "end of 2"]
    np.testing.assert_array_equal(*losses)
