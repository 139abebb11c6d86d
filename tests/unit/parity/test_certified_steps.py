"""The certified steps: what every trainer does, which samples it trains on, and what its trace stores."""

import json

import numpy as np
import pytest
from fake_trainer import ARCHITECTURE, SHAPE_ERROR, FakeAdapter, failing, fake_training

from trainmark.errors import CertificateError, DeviceError
from trainmark.files.checksums import sha256_of
from trainmark.files.seal import sealed
from trainmark.networks.graph import chain
from trainmark.parity.certified_steps import certified_batches, certified_training, draw_masks, perturbed_weights, trace
from trainmark.parity.compare import compare
from trainmark.parity.trace import read_trace, write_trace
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import resolve_batch_size

NPY = (
    b"\x93NUMPY\x01\x00"
    + bytes([70, 0])
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (), }".ljust(70)
    + bytes(8)
)

FLUX = RECIPES["mnist-mlp-flux"]


# --- the steps ----------------------------------------------------------------------------------------------------


def test_the_network_is_built_for_each_precision_and_rule():
    adapter = FakeAdapter()
    found = trace(adapter, fake_training(), "cpu")
    assert adapter.calls == [
        ("float64", "sgd", 4), ("float64", "momentum_sgd", 4), ("float32", "sgd", 4),
    ]  # fmt: skip
    assert (found.trainer, found.versions, found.settings, found.failure) == (
        "fake on cpu", {"fake": "1"}, {"seed": 1}, None,
    )  # fmt: skip
    assert {name: len(stage.gradients) for name, stage in found.stages.items()} == {
        "network": 10, "steps": 10, "perturbed copy": 10, "masks": 10, "float32": 10, "float32 copy": 10,
    }  # fmt: skip
    assert found.stages["steps"].logits.shape == (6, 4)
    assert found.stages["float32"].final["dense1.kernel"].dtype == np.float32
    assert list(found.stages["steps"].activations.shapes) == ["input", *(node.name for node in ARCHITECTURE.nodes)]


def test_a_network_without_dropout_has_no_stage_with_masks():
    class NoMasks(FakeAdapter):
        def set_masks(self, masks):
            raise AssertionError

    layers = [(node.name, node.op, node.attributes) for node in ARCHITECTURE.nodes if node.name not in ("norm", "drop")]
    architecture = chain("plain", (1, 3, 3), layers)
    weights = draw_initial_weights(architecture, "glorot_uniform", (1, 1))
    found = trace(NoMasks(), fake_training(architecture=architecture, weights=weights), "cpu")
    assert list(found.stages) == ["network", "steps", "perturbed copy", "float32", "float32 copy"]


def test_a_perturbed_copy_starts_from_weights_that_differ_in_their_last_bit():
    weights = {"a": np.array([1.0, -3.0, 0.0, 1e-300]), "b": np.linspace(-1, 1, 101)}
    changed = perturbed_weights(weights, "float64")
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


def test_masks_scale_what_they_keep_and_differ_by_step_and_seed():
    drawn = draw_masks(ARCHITECTURE, 1000, (1, 1), 1)
    assert list(drawn) == ["drop"]
    assert drawn["drop"].shape == (1000, 5)
    assert set(np.unique(drawn["drop"])) == {0.0, 2.0}
    assert np.mean(drawn["drop"]) == pytest.approx(1, abs=0.1)
    others = [draw_masks(ARCHITECTURE, 1000, seed, step)["drop"] for seed, step in (((1, 1), 2), ((2, 1), 1))]
    assert all((drawn["drop"] != other).any() for other in others)
    assert (drawn["drop"] == draw_masks(ARCHITECTURE, 1000, (1, 1), 1)["drop"]).all()


@pytest.mark.parametrize(
    ("error", "kind", "node"), [(SHAPE_ERROR, "shape", "relu"), (MemoryError("full"), "out_of_memory", None)]
)
def test_shape_errors_and_out_of_memory_are_stored_as_failures(error, kind, node):
    found = trace(FakeAdapter(spoil=failing("backward", "dense1.bias", error)), fake_training(), "cpu")
    assert (found.failure.kind, found.failure.stage, found.failure.node) == (kind, "network", node)
    assert found.stages == {}


def test_any_other_error_is_raised():
    with pytest.raises(DeviceError):
        trace(FakeAdapter(spoil=failing("forward", "relu", DeviceError("no gpu"))), fake_training(), "cpu")


def test_arrays_on_another_device_are_an_error():
    with pytest.raises(DeviceError, match="fake was asked for the device gpu but put its arrays on"):
        trace(FakeAdapter(), fake_training(), "gpu")


# --- the file -----------------------------------------------------------------------------------------------------


def test_a_trace_is_read_back_from_its_file_equal_to_the_last_bit(tmp_path):
    found = trace(FakeAdapter(), fake_training(), "cpu")
    write_trace(found, tmp_path / "new" / "trace.npz")
    back = read_trace(tmp_path / "new" / "trace.npz")
    pair = compare(found, back, ARCHITECTURE)
    assert (pair.parity, set(pair.float32.values())) == ("bitwise", {0.0})
    assert (back.trainer, dict(back.versions), back.settings) == ("fake on cpu", {"fake": "1"}, {"seed": 1})
    assert dict(back.stages["masks"].final).keys() == fake_training().weights.keys()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["trace.npz"]


def test_a_failure_is_read_back_from_its_file(tmp_path):
    found = trace(FakeAdapter(spoil=failing("forward", "relu", SHAPE_ERROR)), fake_training(), "cpu")
    write_trace(found, tmp_path / "trace.npz")
    assert read_trace(tmp_path / "trace.npz") == found


def test_a_missing_trace_is_refused_with_advice(tmp_path):
    with pytest.raises(CertificateError, match="there is no such trace; give files that trace"):
        read_trace(tmp_path / "trace.npz")


def test_a_trace_of_another_version_is_refused(tmp_path, monkeypatch):
    write_trace(trace(FakeAdapter(), fake_training(), "cpu"), tmp_path / "trace.npz")
    monkeypatch.setattr("trainmark.parity.trace.FORMAT", "another")
    with pytest.raises(CertificateError, match="not a trace of this version of trainmark"):
        read_trace(tmp_path / "trace.npz")


@pytest.mark.parametrize("content", [b"", b"PK no zip", b"\x93NUMPY", NPY])
def test_an_invalid_trace_file_is_refused_with_a_sentence(tmp_path, content):
    path = tmp_path / "trace.npz"
    path.write_bytes(content)
    with pytest.raises(CertificateError, match="is damaged or not a trace of this version of trainmark"):
        read_trace(path)


# --- the training of a recipe -------------------------------------------------------------------------------------


def test_certified_batches_are_the_beginnings_of_the_runs_first_batches():
    found = certified_batches(1000, 100, (3, 1))
    order = epoch_feed(1000, 100, (3, 1), 1).order
    assert found.shape == (10, 8)
    assert all((found[i] == order[100 * i : 100 * i + 8]).all() for i in range(10))


def test_small_datasets_continue_with_the_next_epoch_and_skip_short_batches():
    found = certified_batches(105, 20, (3, 1))
    orders = [epoch_feed(105, 20, (3, 1), epoch).order for epoch in (1, 2)]
    assert found.shape == (10, 8)
    starts = [(epoch, start) for epoch in (0, 1) for start in range(0, 100, 20)]
    assert all((found[i] == orders[epoch][start : start + 8]).all() for i, (epoch, start) in enumerate(starts))


@pytest.mark.parametrize(
    ("samples", "batch_size", "size"), [(50, None, 8), (50, 200, 8), (5, None, 5), (100, 4, 4), (20, 8, 8)]
)
def test_a_step_has_as_many_samples_as_in_runs_and_at_most_8(samples, batch_size, size):
    found = certified_batches(samples, batch_size, (1, 1))
    assert found.shape == (10, size)
    assert found.max() < samples
    if batch_size is None:
        assert (found == np.arange(size)).all()


@pytest.fixture
def dataset(tmp_path):
    """A prepared dataset of 40 and 25 images of 6 x 6, and its mean image."""
    generator = np.random.default_rng(5)
    arrays = {}
    for split, samples in (("train", 40), ("test", 25)):
        arrays[f"{split}_images"] = generator.integers(0, 256, (samples, 1, 6, 6), np.uint8)
        arrays[f"{split}_labels"] = generator.integers(0, 3, samples)
    described = {}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        described[name] = {"file": f"{name}.npy", "sha256": sha256_of(tmp_path / f"{name}.npy")}
    manifest = {
        "kind": "images", "sample_shape": [1, 6, 6], "classes": 3, "samples": {"train": 40, "test": 25},
        "content_sha256": "0" * 64, "arrays": described,
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(sealed(manifest)))
    np.save(tmp_path / "mean.npy", arrays["train_images"].mean(axis=0))
    return tmp_path, arrays


def test_certified_training_contains_the_samples_as_the_network_sees_them(dataset):
    folder, arrays = dataset
    settings = {"seed": 3, "batch_size": 7, "input": {"scale": 0.5, "subtract_mean": True}}
    found = certified_training(FLUX, settings, folder, folder / "mean.npy")
    inputs, labels = found.splits["train"]
    order = certified_batches(40, 7, (3, 1))
    mean = np.load(folder / "mean.npy")
    assert inputs.dtype == np.float64
    assert (inputs[found.batches[9]] == (arrays["train_images"][order[9]] - mean) * 0.5).all()
    assert (labels[found.batches] == arrays["train_labels"][order]).all()
    assert len(found.splits["test"][0]) == 8
    assert (found.splits["test"][1][[0, -1]] == arrays["test_labels"][[0, -1]]).all()
    assert found.settings["input_shape"] == found.settings["trained_input_shape"] == [1, 6, 6]
    assert (found.settings["batch_size"], found.settings["evaluation_samples"]) == (7, 8)
    assert found.weights["dense1.kernel"].dtype == np.float64
    json.dumps(found.settings)


@pytest.mark.parametrize(("side", "shape"), [(4, (1, 4, 4)), (6, (1, 6, 6)), (64, (1, 6, 6)), (None, (1, 6, 6))])
def test_images_are_cropped_to_the_certified_side(dataset, side, shape):
    folder, arrays = dataset
    recipe = type(FLUX)(**vars(FLUX) | {"certified_side": side})
    settings = {"seed": 1, "batch_size": "full", "input": {"scale": 1.0}}
    found = certified_training(recipe, settings, folder, folder / "mean.npy")
    inputs = found.splits["train"][0]
    assert found.architecture.input_shape == inputs.shape[1:] == shape
    edge = (6 - shape[1]) // 2
    assert (inputs[0] == arrays["train_images"][0, :, edge : edge + shape[1], edge : edge + shape[2]]).all()
    assert found.settings["input_shape"] == list(shape)
    assert found.settings["trained_input_shape"] == [1, 6, 6]


@pytest.mark.parametrize(("setting", "size"), [("recipe", 100), ("full", None), ("7", 7)])
def test_resolve_batch_size(setting, size):
    assert resolve_batch_size(RECIPES["mnist-mlp-chainer"], setting) == size
