"""Some classes of another dataset: the same on every machine, nested, and numbered anew in the base's order."""

from itertools import pairwise

import numpy as np
import pytest
from messages import message_of
from PIL import Image

from trainmark.datasets.formats.class_subset import choose, read
from trainmark.datasets.prepare import prepare
from trainmark.datasets.prepared import image_root, read_manifest
from trainmark.datasets.samples import Arrays, Folders, ImageLists
from trainmark.datasets.tokens import Vocabulary

WNIDS = [f"n{number:08}" for number in range(1000)]
NAMES = ["ant", "bee", "cat", "dog", "elk", "fox"]


def entry(classes, seed=1, of="base") -> dict:
    return {"title": "Some", "format": "class_subset", "of": of, "classes": classes, "seed": seed}


def folders(base) -> Folders:
    return Folders(base / "raw", base / "unpacked", base)


@pytest.mark.parametrize("seed", [0, 1, 2, 2**40])
def test_a_smaller_choice_lies_within_a_larger_one(seed):
    choices = [choose(WNIDS, classes, seed, "base") for classes in (2, 8, 16, 32, 999, 1000)]
    assert [len(choice) for choice in choices] == [2, 8, 16, 32, 999, 1000]
    for smaller, larger in pairwise(choices):
        assert set(smaller) < set(larger)
    assert all(choice == sorted(choice) for choice in choices), "in the base's order"


def test_the_choice_is_the_same_on_every_machine():
    """What changes these changes every result that was measured on mini-ImageNet."""
    assert choose(WNIDS, 8, 1, "ilsvrc2012") == [
        "n00000031", "n00000115", "n00000179", "n00000210", "n00000227", "n00000418", "n00000521", "n00000635",
    ]  # fmt: skip
    assert choose(NAMES, 3, 8, "base") == ["bee", "cat", "elk"]


@pytest.fixture
def arrays(tmp_path):
    """A prepared dataset whose images hold their label and their number."""
    splits = {}
    for split, samples in (("train", 30), ("test", 12)):
        labels = np.arange(samples) % 6
        splits[split] = (np.stack([labels, np.arange(samples)], axis=1).astype(np.uint8).reshape(-1, 2, 1, 1), labels)
    base = tmp_path / "base" / "prepared"
    prepare(base, "base", {"title": "B", "format": "f", "image_shape": [2, 1, 1]}, Arrays(splits, NAMES), [], 1)
    return base


def test_arrays_keep_their_samples_of_the_chosen_classes(arrays):
    chosen = choose(NAMES, 3, 8, "base")
    dataset = read(folders(arrays), entry(3, 8))
    assert (dataset.kind, dataset.class_names) == ("images", chosen)
    for split, samples in (("train", 15), ("test", 6)):
        images, labels = dataset.splits[split]
        assert images.shape == (samples, 2, 1, 1) and images.dtype == np.uint8 and labels.dtype == np.int64
        assert sorted(set(labels.tolist())) == [0, 1, 2]
        assert [NAMES[old] for old in images[:, 0, 0, 0]] == [chosen[new] for new in labels]
        assert images[:, 1, 0, 0].tolist() == sorted(images[:, 1, 0, 0].tolist()), "in the base's order"


def test_token_ids_stay_token_ids(tmp_path):
    part = (np.arange(8, dtype=np.int32).reshape(4, 2), np.array([0, 1, 2, 1]))
    vocabulary = Vocabulary({"the": 1}, 5)
    texts = Arrays({"train": part, "test": part}, ["x", "y", "z"], "tokens", vocabulary)
    prepare(tmp_path / "prepared", "base", {"title": "T", "format": "f", "sequence_length": 2}, texts, [], 1)
    dataset = read(folders(tmp_path / "prepared"), entry(3))
    assert dataset.kind == "tokens" and np.array_equal(dataset.splits["train"][0], part[0])
    assert dataset.vocabulary == vocabulary


def test_all_classes_are_the_dataset_itself_and_there_are_no_more(arrays, tmp_path):
    manifest = prepare(tmp_path / "all", "all", entry(6), read(folders(arrays), entry(6)), [], 1)
    assert manifest["content_sha256"] == read_manifest(arrays)["content_sha256"]
    message = message_of(read, folders(arrays), entry(7))
    assert message == "found `classes: 7`; allowed: at most the 6 classes of base"


@pytest.fixture
def lists(tmp_path):
    """A prepared dataset of three images a class, below its unpacked folder."""
    unpacked = tmp_path / "datasets" / "base" / "unpacked"
    entries = [(f"{name}/{number}.png", label) for label, name in enumerate(NAMES) for number in range(3)]
    for number, (path, _) in enumerate(entries):
        (unpacked / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(unpacked / path)
    base = unpacked.parent / "prepared"
    splits = {"train": entries, "test": entries[::3]}
    prepare(base, "base", {"title": "B", "format": "image_folder"}, ImageLists(unpacked, splits, NAMES), [], 2)
    return base


def test_lists_keep_their_images_of_the_chosen_classes_and_the_files_of_their_base(lists):
    chosen = choose(NAMES, 2, 5, "base")
    dataset = read(folders(lists), entry(2, 5))
    assert dataset.class_names == chosen
    expected = [(f"{name}/{number}.png", label) for label, name in enumerate(chosen) for number in range(3)]
    assert dataset.splits == {"train": expected, "test": expected[::3]}
    own = lists.parent.parent / "some" / "prepared"
    own.parent.mkdir()
    manifest = prepare(own, "some", entry(2, 5), dataset, [], 2)
    assert manifest["root"] == "../../base/unpacked" and manifest["samples"] == {"train": 6, "test": 2}
    assert image_root(own, manifest).resolve() == (lists.parent / "unpacked").resolve()
