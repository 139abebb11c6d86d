"""What the workflow makes of each dataset, and which part of an entry makes it stale."""

import json

import pytest

from trainmark.config.load import REPOSITORY, read_yaml
from trainmark.plan.products import (
    base_folder,
    entry_to_fetch,
    entry_to_prepare,
    packed_to_train,
    products,
)

CATALOGUE = read_yaml(REPOSITORY / "config" / "datasets.yaml") | {
    "own": {"title": "T", "format": "image_folder", "folder": "f", "packed": True, "unreadable_share": 0.1},
    "few": {"title": "F", "format": "class_subset", "of": "own", "classes": 2, "seed": 1},
}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("digits", ["prepared", "mean.npy", "mean.png"]),
        ("imdb", ["prepared"]),
        ("own", ["prepared", "mean.npy", "mean.png", "packed/train.npy", "packed/test.npy"]),
        ("few", ["prepared", "mean.npy", "mean.png"]),
    ],
)
def test_products(name, files):
    assert products([name], CATALOGUE) == [f"results/datasets/{name}/{file}" for file in files]
    assert products([name, "digits"], CATALOGUE) == products([name], CATALOGUE) + products(["digits"], CATALOGUE)


@pytest.mark.parametrize(
    ("name", "loader", "packed"),
    [
        ("own", {}, False),
        ("few", {"store": "mapped"}, True),
        ("digits", {"store": "mapped"}, False),  # arrays are mapped into memory already
    ],
)
def test_a_training_reads_packed_images_where_its_loader_asks_for_them(name, loader, packed):
    files = [f"results/datasets/{name}/packed/{split}.npy" for split in ("train", "test")] if packed else []
    assert packed_to_train(name, CATALOGUE, loader) == files


def test_a_choice_of_classes_is_made_of_its_base():
    assert base_folder("few", CATALOGUE) == ["results/datasets/own/prepared"]
    assert base_folder("own", CATALOGUE) == []


def test_a_job_sees_what_concerns_it_of_an_entry():
    assert json.loads(entry_to_fetch("own", CATALOGUE)) == {"folder": "f"}
    assert json.loads(entry_to_fetch("imdb", CATALOGUE)) == {"files": CATALOGUE["imdb"]["files"]}
    assert json.loads(entry_to_fetch("synthetic-images", CATALOGUE)) == {}
    assert json.loads(entry_to_prepare("own", CATALOGUE)) == {
        "title": "T", "format": "image_folder", "folder": "f", "unreadable_share": 0.1,
    }  # fmt: skip
    assert json.loads(entry_to_prepare("few", CATALOGUE)) == CATALOGUE["few"]
