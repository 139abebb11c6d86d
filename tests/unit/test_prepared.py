"""Prepared datasets: what is written comes back, memory-mapped and unpickled, and must be what the catalogue says."""

import hashlib
import json

import numpy as np
import pytest

from trainmark import prepared
from trainmark.errors import DataError

ENTRY = {"format": "idx", "classes": 3, "image_shape": [2, 4, 5], "samples": {"train": 6, "test": 3}}
SOURCES = [{"file": "a.gz", "sha256": "0" * 64, "from": "https://example.org/a.gz"}]


def arrays() -> dict:
    generator = np.random.default_rng(0)
    return {
        split: (
            generator.integers(0, 256, (samples, 2, 4, 5), dtype=np.uint8),
            np.arange(samples, dtype=np.int64) % 3,
        )
        for split, samples in ENTRY["samples"].items()
    }


def test_write_and_read(tmp_path):
    written = arrays()
    prepared.write(tmp_path, "small", ENTRY, written, SOURCES)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "manifest.json", "test_images.npy", "test_labels.npy", "train_images.npy", "train_labels.npy",
    ]  # fmt: skip
    for split in prepared.SPLITS:
        images, labels = prepared.read_split(tmp_path, split)
        assert isinstance(images, np.memmap) and not images.flags.writeable
        assert images.dtype == np.uint8 and labels.dtype == np.int64
        assert np.array_equal(images, written[split][0]) and np.array_equal(labels, written[split][1])


def test_manifest(tmp_path):
    written = arrays()
    prepared.write(tmp_path, "small", ENTRY, written, SOURCES)
    content = b"".join(array.tobytes() for split in ("train", "test") for array in written[split])
    assert prepared.read_manifest(tmp_path) == {
        "dataset": "small",
        "format": "idx",
        "classes": 3,
        "image_shape": [2, 4, 5],
        "dtype": "uint8",
        "samples": {"train": 6, "test": 3},
        "content_sha256": hashlib.sha256(content).hexdigest(),
        "sources": SOURCES,
    }


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("kind", [0, 1], ids=["images", "labels"])
def test_the_content_hash_changes_with_any_value(tmp_path, split, kind):
    hashes = []
    changed = arrays()
    for _ in range(2):
        prepared.write(tmp_path, "small", ENTRY, changed, SOURCES)
        hashes.append(prepared.read_manifest(tmp_path)["content_sha256"])
        changed[split][kind].flat[-1] ^= 1
    assert hashes[0] != hashes[1]


def test_the_content_hash_does_not_hang_on_the_memory_layout_or_the_sources(tmp_path):
    written = arrays()
    prepared.write(tmp_path, "small", ENTRY, written, SOURCES)
    first = prepared.read_manifest(tmp_path)["content_sha256"]
    turned = {split: (np.asfortranarray(images), labels) for split, (images, labels) in written.items()}
    prepared.write(tmp_path, "small", ENTRY, turned, [])
    assert prepared.read_manifest(tmp_path)["content_sha256"] == first
    assert np.array_equal(prepared.read_split(tmp_path, "train")[0], written["train"][0])


def test_nothing_is_unpickled(tmp_path):
    prepared.write(tmp_path, "small", ENTRY, arrays(), SOURCES)
    np.save(tmp_path / "train_labels.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="can't be memory-mapped"):
        prepared.read_split(tmp_path, "train")


def test_objects_are_not_written(tmp_path):
    written = arrays()
    written["test"] = (written["test"][0], np.array([0, 1, None], object))
    with pytest.raises(ValueError, match="allow_pickle"):
        prepared.write(tmp_path, "small", ENTRY, written, SOURCES)
    assert not (tmp_path / "manifest.json").exists(), "the manifest comes last"


def test_the_manifest_is_plain_json(tmp_path):
    prepared.write(tmp_path, "small", ENTRY, arrays(), SOURCES)
    text = (tmp_path / "manifest.json").read_text()
    assert text.endswith("}\n") and json.loads(text) == prepared.read_manifest(tmp_path)


def test_arrays_as_the_catalogue_says_pass():
    assert prepared.check("small", ENTRY, arrays()) is None


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda images, labels: (images[:, :1], labels),
            "images are (1, 4, 5), and config/datasets.yaml says (2, 4, 5)",
        ),
        (
            lambda images, labels: (np.swapaxes(images, 2, 3), labels),
            "images are (2, 5, 4), and config/datasets.yaml says (2, 4, 5)",
        ),
        (
            lambda images, labels: (images[:-1], labels[:-1]),
            "{fewer} samples, and config/datasets.yaml says {samples}",
        ),
        (
            lambda images, labels: (images, labels + 1),
            "labels run from 1 to 3, and config/datasets.yaml allows 0 to 2",
        ),
        (
            lambda images, labels: (images, labels - 1),
            "labels run from -1 to 1, and config/datasets.yaml allows 0 to 2",
        ),
    ],
    ids=["channels", "height and width exchanged", "a sample less", "label too large", "label too small"],
)
def test_arrays_that_are_not_what_the_catalogue_says(split, change, message):
    wrong = arrays()
    wrong[split] = change(*wrong[split])
    samples = ENTRY["samples"][split]
    with pytest.raises(DataError) as caught:
        prepared.check("small", ENTRY, wrong)
    assert str(caught.value) == f"small, {split}: {message.format(samples=samples, fewer=samples - 1)}"
