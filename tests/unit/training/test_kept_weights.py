"""Trained weights beside a record: what was written comes back, and nothing else is taken for it."""

import io
import pickle

import numpy as np
import pytest
from records_for_tests import record

from trainmark.errors import RecordError
from trainmark.files.checksums import sha256_of
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.training.kept_weights import read_weights, remove_weights, write_weights

RECIPE = RECIPES["mnist-mlp-flux"]
ARCHITECTURE = RECIPE.architecture((1, 28, 28), 10)
WEIGHTS = draw_initial_weights(ARCHITECTURE, RECIPE.initializer, (1, 1))
TRAINED = {"classes": ["zero", "dvě", "3 "], "recipe": "mnist-mlp-flux", "dataset": "digits"}


@pytest.fixture
def kept(tmp_path):
    """(the record's path, the record of a run whose weights lie beside it)."""
    weights = write_weights(tmp_path / "weights.npz", WEIGHTS, TRAINED)
    return tmp_path / "record.json", record(changes={"weights": weights})


def message_of(path, found, architecture=ARCHITECTURE):
    with pytest.raises(RecordError) as caught:
        read_weights(path, found, architecture)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def again(path):
    return f"delete {path} and run snakemake again"


def test_what_was_written_comes_back_in_float32_and_says_without_its_record_what_was_trained(kept):
    weights = read_weights(*kept, ARCHITECTURE)
    assert list(weights) == list(WEIGHTS) == ["dense1.kernel", "dense1.bias", "dense2.kernel", "dense2.bias"]
    for name, array in weights.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, WEIGHTS[name].astype(np.float32))
    with np.load(kept[0].with_name("weights.npz"), allow_pickle=False) as file:
        assert file["classes"].tolist() == TRAINED["classes"]
        assert (str(file["recipe"]), str(file["dataset"])) == ("mnist-mlp-flux", "digits")


def test_removing_takes_a_partial_file_and_the_evaluation_of_removed_weights_too(tmp_path):
    for name in ("weights.npz", "weights.npz.part", "evaluation.json", "record.json"):
        (tmp_path / name).write_bytes(b"x")
    remove_weights(tmp_path / "weights.npz")
    remove_weights(tmp_path / "weights.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_weights_that_are_missing_or_damaged_or_of_another_network_are_refused(kept):
    path, found = kept
    file = path.with_name("weights.npz")
    other = RECIPE.architecture((1, 28, 28), 9)
    assert message_of(path, found, other) == f"{file} is of another network than today's mlp-32; {again(path)}"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert f"{file} is damaged or of another run: its SHA-256 is not the record's" in message_of(path, found)
    file.unlink()
    assert message_of(path, found) == f"{file}, the trained weights of the run, is missing; {again(path)}"


def planted_object():
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=True, **{"dense1.kernel": np.array([None, {}], object)})
    return stream.getvalue()


@pytest.mark.parametrize("content", [planted_object(), pickle.dumps([1]), b""], ids=["object", "pickle", "empty"])
def test_nothing_is_unpickled_even_where_the_record_was_changed_to_fit(kept, content):
    path, found = kept
    file = path.with_name("weights.npz")
    file.write_bytes(content)
    found["weights"]["sha256"] = sha256_of(file)
    message = message_of(path, found)
    assert message.startswith(f"{file} holds no arrays of numbers (") and message.endswith(again(path))
