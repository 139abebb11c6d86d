"""Writing prepared datasets: what is written, what its manifest says, and what is refused."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest
from messages import message_of
from PIL import Image

from trainmark.datasets import prepare as prepare_module
from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.images.lists import read_list
from trainmark.datasets.prepare import prepare
from trainmark.datasets.prepared import image_root, read_manifest, read_split
from trainmark.datasets.samples import Arrays, ImageLists
from trainmark.files.seal import digest_of

ENTRY = {"title": "Small", "format": "idx", "classes": 3, "image_shape": [2, 4, 5], "samples": {"train": 6, "test": 3}}
SOURCES = [{"file": "a.gz", "sha256": "0" * 64, "from": "https://example.org/a.gz"}]
NAMES = ["a", "b", "Größe"]


def arrays() -> dict:
    generator = np.random.default_rng(0)
    return {
        split: (generator.integers(0, 256, (samples, 2, 4, 5), dtype=np.uint8), np.arange(samples, dtype=np.int64) % 3)
        for split, samples in ENTRY["samples"].items()
    }


def write(folder, splits=None, entry=ENTRY, names=NAMES) -> dict:
    return prepare(folder, "small", entry, Arrays(splits or arrays(), names), SOURCES, 1)


def test_the_files_and_the_manifest_of_an_array_dataset(tmp_path):
    written = arrays()
    manifest = write(tmp_path, written)
    content = b"".join(array.tobytes() for split in SPLITS for array in written[split])
    expected = {}
    for split, samples in ENTRY["samples"].items():
        for part, shape, dtype in (("images", [2, 4, 5], "uint8"), ("labels", [], "int64")):
            file = f"{split}_{part}.npy"
            sha256 = hashlib.sha256((tmp_path / file).read_bytes()).hexdigest()
            expected[f"{split}_{part}"] = {"file": file, "shape": [samples, *shape], "dtype": dtype, "sha256": sha256}
    assert manifest == {
        "dataset": "small", "title": "Small", "format": "idx", "kind": "images", "classes": 3, "class_names": NAMES,
        "sample_shape": [2, 4, 5], "samples": ENTRY["samples"], "arrays": expected,
        "content_sha256": hashlib.sha256(content).hexdigest(), "vocabulary": None, "sources": SOURCES,
        "sha256": digest_of(manifest),
    }  # fmt: skip
    text = (tmp_path / "manifest.json").read_text()
    assert text.endswith("}\n") and json.loads(text) == manifest == read_manifest(tmp_path)
    assert (tmp_path / "classes.txt").read_text(encoding="utf-8") == "a\nb\nGröße\n"
    names = {"classes.txt", "manifest.json", *(f"{name}.npy" for name in expected)}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_the_content_hash_does_not_hang_on_memory_layout_blocks_or_sources(tmp_path, monkeypatch):
    written = arrays()
    first = write(tmp_path, written)["content_sha256"]
    monkeypatch.setattr(prepare_module, "BLOCK_BYTES", 2 * 40)
    turned = {split: (np.asfortranarray(images), labels) for split, (images, labels) in written.items()}
    assert prepare(tmp_path, "other", ENTRY, Arrays(turned, NAMES), [], 1)["content_sha256"] == first
    assert np.array_equal(read_split(tmp_path, "train")[0], written["train"][0])


OTHERS = {
    "sides exchanged": (lambda x, y: (np.swapaxes(x, 2, 3), y), "samples have the shape (2, 5, 4); its entry "),
    "a sample less": (lambda x, y: (x[:-1], y[:-1]), "found {fewer} samples; its entry says {samples}"),
    "none": (lambda x, y: (x[:0], y[:0]), "found no sample; each split needs one or more"),
    "label too large": (lambda x, y: (x, y + 1), "labels run from 1 to 3; allowed for 3 classes: 0 to 2"),
    "label too small": (lambda x, y: (x, y - 1), "labels run from -1 to 1; allowed for 3 classes: 0 to 2"),
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("change", "message"), OTHERS.values(), ids=OTHERS)
def test_arrays_that_are_not_what_the_catalogue_says(tmp_path, split, change, message):
    wrong = arrays()
    wrong[split] = change(*wrong[split])
    samples = ENTRY["samples"][split]
    expected = f"small, {split}: {message.format(samples=samples, fewer=samples - 1)}"
    assert message_of(write, tmp_path, wrong).startswith(expected)
    assert not (tmp_path / "manifest.json").exists()


def test_test_labels_that_never_occur_in_training_are_refused(tmp_path):
    wrong = arrays()
    wrong["train"] = (wrong["train"][0], np.array([1] * 6))
    message = message_of(write, tmp_path, wrong)
    assert message.startswith("small: 2 labels occur in the test split and never in training (a, Größe); add training ")
    assert not (tmp_path / "manifest.json").exists()


def test_what_an_entry_does_not_say_may_be_anything_and_a_class_may_be_missing_in_the_test_split(tmp_path):
    entry = {"title": "Choice", "format": "class_subset", "of": "mnist", "classes": 3, "seed": 1}
    fewer = arrays()
    fewer["test"] = (fewer["test"][0], np.array([1, 1, 1]))
    assert write(tmp_path, fewer, entry)["sample_shape"] == [2, 4, 5]
    texts = {"title": "Texts", "format": "reviews", "sequence_length": 400, "vocabulary_size": 5000}
    part = (np.zeros((2, 300), np.int32), np.array([0, 1]))
    message = message_of(prepare, tmp_path, "texts", texts, Arrays(dict.fromkeys(SPLITS, part), NAMES, "tokens"), [], 1)
    assert message == "texts, train: samples have the shape (300,); its entry says (400,)"


OWN = {"title": "Mine", "format": "image_folder"}


@pytest.fixture
def lists(tmp_path):
    """A dataset of 60 training and 40 test images in one folder."""
    (tmp_path / "images").mkdir()
    for number in range(100):
        Image.new("RGB", (9, 8), (number, 2 * number, 255 - number)).save(tmp_path / "images" / f"{number:03}.png")
    entries = [(f"{number:03}.png", number % 2) for number in range(100)]
    return ImageLists(tmp_path / "images", {"train": entries[:60], "test": entries[60:]}, ["cat", "dog"])


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "results" / "datasets" / "mine" / "prepared"
    folder.parent.mkdir(parents=True)
    return folder


def spoil(lists, *numbers) -> None:
    for number in numbers:
        (lists.root / f"{number:03}.png").write_bytes(b"")


def test_the_files_and_the_manifest_of_image_lists(lists, folder):
    manifest = prepare(folder, "mine", OWN, lists, SOURCES, 2)
    assert sorted(path.name for path in folder.iterdir()) == ["classes.txt", "manifest.json", "test.txt", "train.txt"]
    assert manifest == {
        "dataset": "mine", "title": "Mine", "format": "image_folder", "kind": "image_lists", "classes": 2,
        "class_names": ["cat", "dog"], "sample_shape": [3, 256, 256], "samples": {"train": 60, "test": 40},
        "root": str(lists.root), "passed_over": 0, "unreadable": [], "identical": 0,
        "lists": {split: hashlib.sha256((folder / f"{split}.txt").read_bytes()).hexdigest() for split in SPLITS},
        "content_sha256": manifest["content_sha256"], "sources": SOURCES, "sha256": digest_of(manifest),
    }  # fmt: skip
    assert read_manifest(folder) == manifest
    for split in SPLITS:
        assert read_list(folder / f"{split}.txt") == lists.splits[split]
    for name in ("unreadable", "identical"):
        assert (folder.parent / f"{name}.txt").read_text() == ""


def test_test_images_that_are_also_training_images(lists, folder, capsys):
    for test, train in (("070", "003"), ("071", "004"), ("072", "090")):  # the last two are both test images
        shutil.copyfile(lists.root / f"{train}.png", lists.root / f"{test}.png")
    manifest = prepare(folder, "mine", OWN, lists, [], 2)
    assert manifest["identical"] == 2 and manifest["samples"] == {"train": 60, "test": 40}
    assert (folder.parent / "identical.txt").read_text() == "070.png\t003.png\n071.png\t004.png\n"
    assert "mine: 2 of 40 test images are also training images" in capsys.readouterr().err


def test_images_below_the_unpacked_folder_are_found_where_results_are_moved(lists, folder, tmp_path):
    unpacked = folder.parent / "unpacked" / "top"
    shutil.copytree(lists.root, unpacked)
    manifest = prepare(folder, "mine", OWN, ImageLists(unpacked, lists.splits, lists.class_names), [], 1)
    assert manifest["root"] == "../unpacked/top"
    os.rename(tmp_path / "results", tmp_path / "moved")
    moved = tmp_path / "moved" / "datasets" / "mine" / "prepared"
    assert (image_root(moved, read_manifest(moved)) / "000.png").is_file()


def test_as_many_unreadable_images_as_allowed_are_left_out(lists, folder):
    """0.29 of 100 is 29, and 28.999... in binary."""
    spoil(lists, *range(28), 70)
    manifest = prepare(folder, "mine", {**OWN, "unreadable_share": 0.29}, lists, [], 2)
    assert manifest["samples"] == {"train": 32, "test": 39}
    unreadable = read_manifest(folder)["unreadable"]
    assert unreadable[27:] == [["train", "027.png", "empty file"], ["test", "070.png", "empty file"]]
    assert (folder.parent / "unreadable.txt").read_text().endswith("7.png\tempty file\ntest\t070.png\tempty file\n")
    assert read_list(folder / "train.txt") == lists.splits["train"][28:]


@pytest.mark.parametrize(
    ("entry", "count", "allowed", "share"), [(OWN, 1, 0, "0.001"), ({**OWN, "unreadable_share": 0.02}, 3, 2, "0.02")]
)
def test_more_unreadable_images_than_allowed_are_refused(lists, folder, entry, count, allowed, share):
    spoil(lists, *range(58, 58 + count))
    report = folder.parent / "unreadable.txt"
    message = message_of(prepare, folder, "mine", entry, lists, [], 2)
    first = f"the first of them {lists.root / '058.png'} (empty file); {report} lists them all; "
    assert message.startswith(f"mine: {count} of 100 images can't be decoded, {first}")
    assert f"; allowed: {allowed} (unreadable_share {share}); " in message
    assert len(report.read_text().splitlines()) == count
    assert not (folder / "manifest.json").exists()
