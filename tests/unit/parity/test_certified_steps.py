"""The certified steps: what every trainer does, which samples it trains on, and what its trace stores."""

from dataclasses import replace

import numpy as np
import pytest
from fake_trainer import ARCHITECTURE, MOMENTUM, SHAPE_ERROR, FakeAdapter, failing, fake_training, trace

from trainmark.errors import CertificateError, DeviceError
from trainmark.networks.graph import chain
from trainmark.parity.adapter_check import check_adapter
from trainmark.parity.certified_steps import perturbed_weights
from trainmark.parity.compare import compare
from trainmark.parity.trace import read_trace, write_trace
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.trainer import Trainer

NPY = (
    b"\x93NUMPY\x01\x00"
    + bytes([70, 0])
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (), }".ljust(70)
    + bytes(8)
)

FLUX = RECIPES["mnist-mlp-flux"]


# --- the steps ----------------------------------------------------------------------------------------------------


def test_the_network_is_built_for_the_steps_and_for_each_precision():
    adapter = FakeAdapter()
    found = trace(adapter, fake_training(), "cpu")
    assert adapter.calls == [
        ("float64", "momentum_sgd", 4), ("float64", "momentum_sgd", 12), ("float32", "sgd", None),
    ]  # fmt: skip
    assert (found.trainer, found.versions, found.settings, found.failure) == (
        Trainer("fake", "cpu"), {"fake": "1"}, {"seed": 1}, None,
    )  # fmt: skip
    assert {name: len(stage.gradients) for name, stage in found.stages.items()} == {
        "network": 3, "steps": 10, "perturbed copy": 10, "masks": 10,
    }  # fmt: skip
    assert found.stages["steps"].logits.shape == (6, 4)
    assert [one.what for one in found.precision] == ["loss", "backward"]
    assert list(found.stages["steps"].activations.shapes) == ["input", *(node.name for node in ARCHITECTURE.nodes)]


def test_a_network_without_dropout_has_no_stage_with_masks():
    class NoMasks(FakeAdapter):
        def set_masks(self, masks):
            raise AssertionError

    layers = [(node.name, node.op, node.attributes) for node in ARCHITECTURE.nodes if node.name not in ("norm", "drop")]
    architecture = chain("plain", (1, 3, 3), layers)
    weights = draw_initial_weights(architecture, "glorot_uniform", (1, 1))
    found = trace(NoMasks(), fake_training(architecture=architecture, weights=weights), "cpu")
    assert list(found.stages) == ["steps", "perturbed copy", "network"]


def test_a_perturbed_copy_starts_from_weights_that_differ_in_their_last_bit():
    weights = {"a": np.array([1.0, -3.0, 0.0, 1e-300]), "b": np.linspace(-1, 1, 101)}
    changed = perturbed_weights(weights)
    for name, array in weights.items():
        same = array == 0
        assert (changed[name][same] == 0).all()
        steps = changed[name][~same].view(np.int64) - array[~same].view(np.int64)
        assert set(np.unique(np.abs(steps))) == {1}
    assert {"a", "b"} == set(changed)
    assert (changed["b"] > weights["b"]).any()
    assert (changed["b"] < weights["b"]).any()
    copy = trace(FakeAdapter(), fake_training(), "cpu").stages["perturbed copy"]
    assert (copy.final, len(copy.losses)) == ({}, 10)


def test_a_restarted_optimizer_is_certified():
    """Its updates follow the rule, and an adapter that keeps the optimizer's state is found at its first step."""

    class Keeping(FakeAdapter):
        def restart_optimizer(self, built):
            pass

    training = replace(fake_training(), restarts=True)
    restarted, never = trace(FakeAdapter(), training, "cpu"), trace(FakeAdapter(), fake_training(), "cpu")
    assert max(restarted.stages["steps"].update_errors) < 1e-12
    assert list(restarted.stages["steps"].losses[:6]) == list(never.stages["steps"].losses[:6])
    kept = trace(Keeping(), training, "cpu")
    assert [error > 0.01 for error in kept.stages["steps"].update_errors[:6]] == [False] * 5 + [True]
    pair = compare(restarted, kept, ARCHITECTURE)
    assert (pair.parity, pair.location.step) == ("different", 6)


@pytest.mark.parametrize(
    ("error", "kind", "node"), [(SHAPE_ERROR, "shape", "relu"), (MemoryError("full"), "out_of_memory", None)]
)
def test_shape_errors_and_out_of_memory_are_stored_as_failures(error, kind, node):
    found = trace(FakeAdapter(spoil=failing("backward", "dense1.bias", error)), fake_training(), "cpu")
    assert (found.failure.kind, found.failure.stage, found.failure.node) == (kind, "steps", node)
    assert found.stages == {}


def test_any_other_error_is_raised():
    with pytest.raises(DeviceError):
        trace(FakeAdapter(spoil=failing("forward", "relu", DeviceError("no gpu"))), fake_training(), "cpu")


# --- the file -----------------------------------------------------------------------------------------------------


def test_a_trace_is_read_back_from_its_file_equal_to_the_last_bit(tmp_path):
    found = trace(FakeAdapter(), fake_training(), "cpu")
    write_trace(found, tmp_path / "new" / "trace.npz")
    back = read_trace(tmp_path / "new" / "trace.npz")
    pair = compare(found, back, ARCHITECTURE)
    assert (pair.parity, back.precision) == ("bitwise", found.precision)
    assert (back.trainer, dict(back.versions), back.settings) == (Trainer("fake", "cpu"), {"fake": "1"}, {"seed": 1})
    assert dict(back.stages["masks"].final).keys() == fake_training().weights.keys()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["trace.npz"]


def test_a_failure_is_read_back_from_its_file(tmp_path):
    found = trace(FakeAdapter(spoil=failing("forward", "relu", SHAPE_ERROR)), fake_training(), "cpu")
    write_trace(found, tmp_path / "trace.npz")
    assert read_trace(tmp_path / "trace.npz") == found


@pytest.mark.parametrize("content", [None, b"", b"PK no zip", b"\x93NUMPY", NPY])
def test_an_invalid_trace_file_is_refused_with_a_sentence(tmp_path, content):
    path = tmp_path / "trace.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CertificateError, match=r"there is no such trace|is damaged or not a trace of this version"):
        read_trace(path)


@pytest.mark.parametrize("ignored", [False, True])
def test_an_adapter_that_ignores_rates_is_found_out(ignored):
    """By the check of the order, whose epochs have learning rates of their own."""

    class Ignoring(FakeAdapter):
        def train_epoch(self, feed):
            return super().train_epoch(replace(feed, rates=() if ignored else feed.rates))

    plain = chain("plain", (1, 3, 3), [("flatten", "Flatten", {})])
    wrong = check_adapter(Ignoring(), plain, MOMENTUM, (1, 1), "cpu")["order"]
    assert wrong.startswith("has the loss ") if ignored else wrong is None
    assert not ignored or "in epoch 2, step 2 of 5; numpy has " in wrong
