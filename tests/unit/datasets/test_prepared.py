"""Reading prepared datasets: what was written comes back, memory-mapped, and nothing else is taken for it."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from messages import message_of
from PIL import Image
from test_own_arrays import Gadget

from trainmark.datasets import prepared
from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays, ImageLists
from trainmark.datasets.tokens import Vocabulary
from trainmark.files.checksums import sha256_of
from trainmark.files.seal import sealed

ENTRY = {"title": "Small", "format": "idx", "classes": 3, "image_shape": [2, 4, 5]}


def again(folder) -> str:
    return f"delete {folder} and run snakemake again"


@pytest.fixture
def splits() -> dict:
    generator = np.random.default_rng(0)
    return {
        split: (generator.integers(0, 256, (samples, 2, 4, 5), dtype=np.uint8), np.arange(samples) % 3)
        for split, samples in (("train", 6), ("test", 3))
    }


@pytest.fixture
def folder(tmp_path, splits) -> Path:
    prepare(tmp_path / "prepared", "small", ENTRY, Arrays(splits, ["a", "b", "c"]), [], 1)
    return tmp_path / "prepared"


@pytest.mark.parametrize("split", ["train", "test"])
def test_what_was_written_comes_back(folder, splits, split):
    images, labels = prepared.read_split(folder, split)
    assert isinstance(images, np.memmap) and not images.flags.writeable
    assert images.dtype == np.uint8 and labels.dtype == np.int64
    assert np.array_equal(images, splits[split][0]) and np.array_equal(labels, splits[split][1])
    found = prepared.read_splits(folder)
    assert list(found) == list(splits) and all(map(np.array_equal, found[split], splits[split]))


def digest_into_manifest(folder: Path, name: str) -> None:
    """Put the SHA-256 of an array that was replaced into the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["arrays"][name]["sha256"] = sha256_of(folder / f"{name}.npy")
    (folder / "manifest.json").write_text(json.dumps(sealed(manifest)))


@pytest.mark.parametrize("edit", [lambda x: 255 - x, lambda x: x.view(np.int8), lambda x: x[:4]])
def test_an_array_that_was_edited_along_with_its_digest_is_refused(folder, splits, edit):
    np.save(folder / "train_images.npy", edit(splits["train"][0]))
    digest_into_manifest(folder, "train_images")
    assert " the arrays" in message_of(prepared.read_splits, folder)


VOCABULARY = Vocabulary({"rare": 9, "the": 1, "déjà": 2, "last": 6, "beyond": 7}, 10)


@pytest.fixture
def texts(tmp_path) -> Path:
    """A prepared dataset of texts that keeps its vocabulary."""
    split = (np.arange(12, dtype=np.int32).reshape(3, 4), np.array([0, 1, 0]))
    entry = {"title": "Texts", "format": "reviews", "sequence_length": 4}
    arrays = Arrays(dict.fromkeys(SPLITS, split), ["n", "p"], "tokens", VOCABULARY)
    prepare(tmp_path / "texts", "texts", entry, arrays, [], 1)
    return tmp_path / "texts"


def test_a_vocabulary_comes_back_with_the_words_in_use(texts):
    """Of ten ids, the ranks 1 to 6 are words of their own: 4 to 9."""
    found = prepared.read_vocabulary(texts)
    assert found == Vocabulary({"the": 1, "déjà": 2, "last": 6}, 10)
    assert list(found.word_ranks) == ["the", "déjà", "last"], "the commonest first"
    text = "the last déjà vu, beyond rare"
    assert found.encode(text, 9).tolist() == VOCABULARY.encode(text, 9).tolist() == [0, 0, 1, 4, 9, 5, 2, 2, 2]
    ids, _ = prepared.read_split(texts, "test")
    assert ids.dtype == np.int32 and ids.tolist() == np.arange(12).reshape(3, 4).tolist()
    described = prepared.read_manifest(texts)["vocabulary"]
    assert described == {"file": "vocabulary.json", "sha256": sha256_of(texts / "vocabulary.json")}


@pytest.mark.parametrize("name", ["test_images.npy", "test_labels.npy"])
@pytest.mark.parametrize("place", [3, 100, -1, None], ids=["magic", "header", "last value", "cut off"])
def test_an_array_with_another_byte_cut_off_or_missing_is_refused(folder, name, place):
    content = bytearray((folder / name).read_bytes())
    if place is None:
        content.pop()
    else:
        content[place] ^= 1
    (folder / name).write_bytes(content)
    assert message_of(prepared.read_split, folder, "test") == f"{folder / name} is damaged; {again(folder)}"
    assert str(folder) in message_of(prepared.read_splits, folder)
    (folder / name).unlink()
    assert message_of(prepared.read_split, folder, "test") == f"{folder / name} is missing; {again(folder)}"
    assert len(prepared.read_split(folder, "train")[1]) == 6


@pytest.mark.parametrize("bare", [False, True])
def test_a_planted_pickle_is_refused_even_where_the_manifest_was_changed_to_fit(folder, tmp_path, monkeypatch, bare):
    monkeypatch.chdir(tmp_path)
    path = folder / "train_labels.npy"
    gadget = Gadget(os.mkdir, "trap")
    np.save(path, np.array([gadget, None], object), allow_pickle=True)
    if bare:
        path.write_bytes(pickle.dumps(gadget))
    assert message_of(prepared.read_split, folder, "train") == f"{path} is damaged; {again(folder)}"
    digest_into_manifest(folder, "train_labels")
    assert message_of(prepared.read_split, folder, "train").startswith(f"{path} is damaged or missing (")
    assert not (tmp_path / "trap").exists()


@pytest.fixture
def listed(tmp_path) -> Path:
    """The prepared folder of a dataset of two image files."""
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    dataset = ImageLists(tmp_path, {"train": [("a.png", 0), ("b.png", 0)], "test": [("a.png", 0)]}, ["a"])
    prepare(tmp_path / "lists" / "prepared", "mine", {"title": "M", "format": "image_folder"}, dataset, [], 1)
    return tmp_path / "lists" / "prepared"


def test_a_list_is_read_as_it_was_written_or_refused(listed):
    path = listed / "train.txt"
    assert prepared.checked_list(listed, "train").read_text() == "a.png 0\nb.png 0\n"
    path.write_text("a.png 0\n")
    assert message_of(prepared.checked_list, listed, "train") == f"{path} is damaged; {again(listed)}"
    assert prepared.checked_list(listed, "test") == listed / "test.txt"
    path.unlink()
    assert message_of(prepared.checked_list, listed, "train") == f"{path} is missing; {again(listed)}"
    message = message_of(prepared.read_split, listed, "train")
    assert message == f"{listed} holds lists of image files; only a dataset of arrays can be read here"
    manifest = prepared.read_manifest(listed)
    del manifest["lists"]
    (listed / "manifest.json").write_text(json.dumps(sealed(manifest)))
    assert message_of(prepared.checked_list, listed, "test") == f"{listed / 'test.txt'} is damaged; {again(listed)}"


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"[]", b'{"dataset": "mnist", "image_shape": [1, 28, 28]}'])
def test_a_folder_without_a_manifest_or_with_another(tmp_path, content):
    """Nobody is told to delete a folder of his own, which a typing error may have named."""
    if content is not None:
        (tmp_path / "manifest.json").write_bytes(content)
    message = message_of(prepared.read_manifest, tmp_path)
    assert message.startswith(str(tmp_path)) and (again(tmp_path) in message) == (
        content in (b"[]", b'{"dataset": "mnist", "image_shape": [1, 28, 28]}')
    )
