"""A validation split: the same training samples on every machine, of each class, and no test sample of the base."""

import numpy as np
import pytest
from PIL import Image
from test_class_subset import folders

from trainmark.datasets.formats.validation_split import draw, read
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays, ImageLists
from trainmark.errors import DataError

NAMES = ["ant", "bee", "cat"]


def entry(share=0.1, seed=1):
    return {"title": "V", "format": "validation_split", "of": "base", "test_share": share, "seed": seed}


@pytest.mark.parametrize(("share", "counts"), [(0.1, [10, 4, 1]), (0.5, [50, 20, 2]), (0.99, [99, 39, 2])])
def test_so_many_samples_of_each_class_are_held_out(share, counts):
    labels = np.repeat([0, 1, 2], [100, 40, 3])
    assert np.bincount(labels[draw(labels, NAMES, entry(share))]).tolist() == counts


def test_the_draw_is_the_same_on_every_machine_and_another_with_another_seed():
    """What changes the first one changes every setting that was chosen by it."""
    labels = np.zeros(30, int)
    assert np.flatnonzero(draw(labels, NAMES, entry())).tolist() == FIRST
    assert np.flatnonzero(draw(labels, NAMES, entry(seed=2))).tolist() != FIRST


FIRST = [1, 16, 24]


def test_a_class_of_one_sample_is_refused():
    with pytest.raises(DataError, match="base has one training sample of cat; each class needs two or more"):
        draw(np.array([0, 0, 1, 1, 2]), NAMES, entry())


def test_arrays_are_the_training_samples_of_the_base_in_their_order(tmp_path):
    images = np.arange(60, dtype=np.uint8).reshape(60, 1, 1, 1)
    labels = np.arange(60, dtype=np.int64) % 3
    base = Arrays({"train": (images, labels), "test": (images + 100, labels)}, NAMES)
    prepare(tmp_path, "base", {"title": "B", "format": "f", "image_shape": [1, 1, 1]}, base, [], 1)
    splits = read(folders(tmp_path), entry(0.2)).splits
    held_out = draw(labels, NAMES, entry(0.2))
    for split, chosen in (("train", ~held_out), ("test", held_out)):
        assert np.array_equal(splits[split][0], images[chosen]) and np.array_equal(splits[split][1], labels[chosen])
    assert len(splits["test"][1]) == 12


def test_lists_of_images_are_those_of_the_base(tmp_path):
    images = [(f"{number}.png", number % 2) for number in range(20)]
    (tmp_path / "unpacked").mkdir()
    for number, (path, _) in enumerate(images):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "unpacked" / path)
    base = ImageLists(tmp_path / "unpacked", {"train": images, "test": images[:2]}, NAMES[:2])
    prepare(tmp_path / "prepared", "base", {"title": "B", "format": "image_folder"}, base, [], 2)
    found = read(folders(tmp_path / "prepared"), entry(0.2))
    assert isinstance(found, ImageLists) and found.root.resolve() == base.root.resolve()
    assert sorted(found.splits["train"] + found.splits["test"]) == sorted(images)
    assert sorted(label for _, label in found.splits["test"]) == [0, 0, 1, 1]
