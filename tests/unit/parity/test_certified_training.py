"""The certified training of a recipe: which samples it trains on."""

import json
from functools import partial

import harness
import numpy as np
import pytest

from trainmark.files.checksums import sha256_of
from trainmark.files.seal import sealed
from trainmark.parity.certified_training import certified_batches, certified_training
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.input_transform import draw_windows
from trainmark.recipes.recipe import InputTransform
from trainmark.recipes.schedules import rmsprop_warmup_rates

FLUX = RECIPES["mnist-mlp-flux"]


def test_small_datasets_continue_with_the_next_epoch_and_skip_short_batches():
    found = certified_batches(partial(epoch_feed, 105, 20, (3, 1)), 10)
    orders = [epoch_feed(105, 20, (3, 1), epoch).order for epoch in (1, 2)]
    assert found.shape == (10, 8)
    starts = [(epoch, start) for epoch in (0, 1) for start in range(0, 100, 20)]
    assert all((found[i] == orders[epoch][start : start + 8]).all() for i, (epoch, start) in enumerate(starts))


@pytest.mark.parametrize(
    ("samples", "batch_size", "size"), [(50, None, 8), (50, 200, 8), (5, None, 5), (100, 4, 4), (20, 8, 8)]
)
def test_a_step_has_as_many_samples_as_in_runs_and_at_most_8(samples, batch_size, size):
    found = certified_batches(partial(epoch_feed, samples, batch_size, (1, 1)), 10)
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
    settings = harness.settings(seed=3, batch_size=7, input={"scale": 0.5, "subtract_mean": True})
    found = certified_training(FLUX, settings, folder, folder / "mean.npy")
    inputs, labels = found.splits["train"]
    order = certified_batches(partial(epoch_feed, 40, 7, (3, 1)), 10)
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


def test_certified_training_has_the_experiments_optimizer_and_the_rates_of_its_epochs(dataset):
    """Steps have the constants of the first epoch, whole epochs those of their own."""
    folder, _ = dataset
    settings = harness.settings(batch_size=10, optimizer={"rule": "rmsprop_warmup", "legacy": True})
    found = certified_training(FLUX, settings, folder, folder / "mean.npy")
    rates = [rmsprop_warmup_rates(0.1 * 10 / 256, epoch, legacy=True) for epoch in range(8)]
    assert [feed.rates for feed in found.epochs.feeds] == rates
    constants = {"momentum": 0.9, "rho": 0.99, "epsilon": 1e-8, **dict(rates[0])}
    assert found.optimizer == found.epochs.optimizer
    assert found.optimizer.as_dict() == {"rule": "rmsprop_warmup", **constants}


def test_a_certified_training_on_streams_sees_the_windows_of_the_runs(dataset):
    """In the steps those of the first epoch, in the whole epochs the stream itself; test images have centre windows."""
    folder, arrays = dataset
    transform = {"scale": 1.0, "crop": [4, 4], "random_crop": True, "random_flip": True}
    found = certified_training(FLUX, harness.settings(batch_size=7, input=transform), folder, folder / "mean.npy")
    windows = draw_windows(40, (6, 6), InputTransform(**transform | {"crop": (4, 4)}), (1, 1, 3, 1))

    def window_of(sample):
        top, left = windows.tops[sample], windows.lefts[sample]
        window = arrays["train_images"][sample, :, top : top + 4, left : left + 4]
        return window[:, :, ::-1] if windows.flips[sample] else window

    order = certified_batches(partial(epoch_feed, 40, 7, (1, 1)), 10)
    inputs, labels = found.splits["train"]
    assert (inputs[found.batches[9]] == [window_of(sample) for sample in order[9]]).all()
    assert (labels[found.batches] == arrays["train_labels"][order]).all()
    stream, _ = found.epochs.splits["train"]
    first = found.epochs.feeds[0]
    assert np.array_equal(next(stream.training_batches(first))[0], [window_of(sample) for sample in first.order[:7]])
    tested, labels = found.epochs.splits["test"]
    centres = arrays["test_images"][:, :, 1:5, 1:5]
    batches = [batch for batch, _ in tested.stored_batches(10)]
    assert np.array_equal(np.concatenate(batches), centres)
    assert np.array_equal(labels, arrays["test_labels"])
    assert np.array_equal(found.splits["test"][0][[0, -1]], centres[[0, -1]])
    stream.close()


@pytest.mark.parametrize(("side", "shape"), [(4, (1, 4, 4)), (6, (1, 6, 6)), (64, (1, 6, 6)), (None, (1, 6, 6))])
def test_images_are_cropped_to_the_certified_side(dataset, side, shape):
    folder, arrays = dataset
    recipe = type(FLUX)(**vars(FLUX) | {"certified_side": side})
    settings = harness.settings(batch_size="full", input={"scale": 1.0})
    found = certified_training(recipe, settings, folder, folder / "mean.npy")
    inputs = found.splits["train"][0]
    assert found.architecture.input_shape == inputs.shape[1:] == shape
    edge = (6 - shape[1]) // 2
    assert (inputs[0] == arrays["train_images"][0, :, edge : edge + shape[1], edge : edge + shape[2]]).all()
    assert found.settings["input_shape"] == list(shape)
    assert found.settings["trained_input_shape"] == [1, 6, 6]


def test_a_certificate_starts_from_the_initial_weights_of_the_runs(dataset):
    """In the certified steps, which see a window of the images, the first layer has another shape and is drawn."""
    folder, _ = dataset
    architecture = FLUX.architecture((1, 6, 6), 3)
    weights = draw_initial_weights(architecture, "he_normal", (9, 9))
    np.savez(folder / "weights.npz", classes=["a"], **weights)
    settings = harness.settings(seed=3, batch_size=7, initial_weights=str(folder / "weights.npz"))
    recipe = type(FLUX)(**vars(FLUX) | {"certified_side": 4})
    drawn = draw_initial_weights(FLUX.architecture((1, 4, 4), 3), FLUX.initializer, (3, 1))
    for of, found in ((FLUX, {}), (recipe, {"dense1.kernel": drawn["dense1.kernel"]})):
        training = certified_training(of, settings, folder, None)
        for name, array in weights.items():
            np.testing.assert_array_equal(training.epochs.weights[name], array)
            np.testing.assert_array_equal(training.weights[name], found.get(name, array))
        assert training.settings["initial_weights_sha256"] == sha256_of(folder / "weights.npz")
    without = certified_training(FLUX, settings | {"initial_weights": None}, folder, None)
    assert without.settings["initial_weights_sha256"] is None
