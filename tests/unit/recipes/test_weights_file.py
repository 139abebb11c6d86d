"""Starting from a file of weights: what fits is taken as it is, and each misfit is one phrase."""

import zipfile

import numpy as np
import pytest

from trainmark.errors import DataError
from trainmark.networks.graph import chain
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights, initial_weights_of
from trainmark.recipes.weights_file import stored_shapes, why_unfit

RECIPE = RECIPES["mnist-mlp-flux"]
ARCHITECTURE = RECIPE.architecture((1, 28, 28), 10)
SEED = (1, 1)
NETWORK = chain(
    "small",
    (1, 8, 8),
    [
        ("conv", "Conv2D", {"filters": 3, "size": 3}),
        ("norm", "BatchNorm", {"decay": 0.9, "epsilon": 1e-3}),
        ("flat", "Flatten", {}),
        ("dense", "Dense", {"units": 5}),
    ],
)


def written(path, arrays=None, architecture=ARCHITECTURE, **others):
    """Write trained weights (other numbers than a run would draw) with a list of classes; return them."""
    weights = draw_initial_weights(architecture, "he_normal", (9, 9)) if arrays is None else arrays
    np.savez(path, classes=["a", "b"], **({name: array.astype(np.float32) for name, array in weights.items()} | others))
    return weights


def start(path, architecture=ARCHITECTURE, **options):
    return initial_weights_of({"initial_weights": str(path)}, architecture, "glorot_uniform", SEED, **options)


def test_a_run_starts_from_the_arrays_of_the_file(tmp_path):
    weights = written(tmp_path / "weights.npz")
    found = start(tmp_path / "weights.npz")
    assert list(found) == list(weights)
    for name, array in found.items():
        assert array.dtype == np.float64
        np.testing.assert_array_equal(array, weights[name].astype(np.float32))
    assert stored_shapes(tmp_path / "weights.npz") == {name: array.shape for name, array in weights.items()}


def test_at_another_input_size_only_arrays_of_another_shape_are_drawn(tmp_path):
    weights = written(tmp_path / "weights.npz", architecture=NETWORK)
    smaller = type(NETWORK)(NETWORK.name, (1, 6, 6), NETWORK.nodes)
    found = start(tmp_path / "weights.npz", smaller, resized=True)
    drawn = draw_initial_weights(smaller, "glorot_uniform", SEED)
    for name, array in found.items():
        expected = drawn[name] if name == "dense.kernel" else weights[name].astype(np.float32)
        np.testing.assert_array_equal(array, expected, err_msg=name)
    assert found["dense.kernel"].shape != weights["dense.kernel"].shape
    with pytest.raises(DataError, match=r"dense.kernel is 108 x 5 in it, and 48 x 5 here"):
        start(tmp_path / "weights.npz", smaller)


def with_text(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("dense1.kernel.npy", "no array")


def one_array(path):
    with open(path, "wb") as stream:  # np.save would add .npy to the name
        np.save(stream, np.zeros(3))


WEIGHTS = draw_initial_weights(ARCHITECTURE, "he_normal", SEED)


def with_bias(array):
    return lambda path: np.savez(path, **(WEIGHTS | {"dense1.bias": array}))


def of_recipe(name, shape, classes):
    return lambda path: written(path, architecture=RECIPES[name].architecture(shape, classes))


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b"PK"), "is damaged, or holds no weights (File is not a zip file)"),
        (one_array, "is damaged, or holds no weights (File is not a zip file)"),
        (with_text, "is damaged, or holds no weights (an array without a header)"),
        (with_bias(np.zeros(32, int)), "is damaged, or holds no weights (dense1.bias holds no floating-point numbers)"),
        (
            lambda path: written(path, {name: WEIGHTS[name] for name in WEIGHTS if name != "dense2.bias"}),
            "is of another network than mlp-32: it lacks dense2.bias",
        ),
        (
            lambda path: written(path, WEIGHTS | {"dense3.kernel": np.zeros((2, 2))}),
            "is of another network than mlp-32, which has no dense3.kernel",
        ),
        (
            of_recipe(RECIPE.name, (1, 28, 28), 7),
            "is of another network: dense2.kernel is 32 x 7 in it, and 32 x 10 here",
        ),
        (
            of_recipe(RECIPE.name, (3, 32, 32), 10),
            "is of another network: dense1.kernel is 3072 x 32 in it, and 784 x 32 here",
        ),
        (with_bias(np.zeros((2, 2))), "is of another network: dense1.bias is 2 x 2 in it, and 32 here"),
    ],
)
def test_a_file_that_does_not_fit_is_named_with_its_reason(tmp_path, write, why):
    path = tmp_path / "weights.npz"
    write(path)
    assert why_unfit(path, ARCHITECTURE) == why
    with pytest.raises(DataError) as caught:
        start(path)
    assert str(caught.value) == (
        f"initial_weights: {path} {why}; give weights.npz of a run of the same network and number of classes"
    )


@pytest.mark.parametrize(("number", "resized"), [(np.nan, False), (np.inf, True)])
def test_numbers_that_are_not_finite_are_found_when_the_run_starts(tmp_path, number, resized):
    path = tmp_path / "weights.npz"
    kernel = WEIGHTS["dense2.kernel"].copy()
    kernel[3, 3] = number
    written(path, WEIGHTS | {"dense2.kernel": kernel})
    assert why_unfit(path, ARCHITECTURE) is None
    with pytest.raises(DataError, match=r"has NaN or infinity in dense2\.kernel: its training diverged; give"):
        start(path, resized=resized)


def test_a_changed_value_is_found_by_the_archive_itself(tmp_path):
    path = tmp_path / "weights.npz"
    written(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert why_unfit(path, ARCHITECTURE) is None
    with pytest.raises(DataError, match=r"is damaged \(Bad CRC-32 for file 'dense1.kernel.npy'\); give"):
        start(path)
