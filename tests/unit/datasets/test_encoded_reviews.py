"""Keras's imdb.npz: its ranks become ids, and nothing is unpickled but the file that the catalogue names."""

import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from messages import message_of
from test_own_arrays import Gadget
from test_reviews import ENTRY as RAW_ENTRY

from trainmark.config.load import load_config
from trainmark.datasets.formats import encoded_reviews
from trainmark.datasets.samples import Folders
from trainmark.errors import ConfigError
from trainmark.files.checksums import sha256_of

RANKS = {"train": [[4, 4, 4], [], [1, 2, 3, 9, 5, 8, 88_584]], "test": [[1], [2, 3]]}
LABELS = {"train": [1, 0, 1], "test": [0, 1]}


def objects(elements) -> np.ndarray:
    """A 1-d array of objects, whatever the elements' lengths."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


def written(folder: Path, content: bytes | None = None, **changed) -> tuple[Folders, dict]:
    """(folders, entry) of a good imdb.npz, but for the arrays that are named (x_train=...), or of other bytes."""
    arrays = {f"x_{split}": objects(ranks) for split, ranks in RANKS.items()}
    arrays |= {f"y_{split}": np.array(labels) for split, labels in LABELS.items()}
    if content is None:
        stream = io.BytesIO()
        np.savez(stream, **(arrays | changed))
        content = stream.getvalue()
    path = folder / "imdb.npz"
    path.write_bytes(content)
    files = [{"name": path.name, "sha256": sha256_of(path), "urls": ["https://example.org/imdb.npz"]}]
    return Folders(folder, folder / "unpacked"), {**RAW_ENTRY, "format": "encoded_reviews", "files": files}


def test_ranks_become_ids(tmp_path):
    dataset = encoded_reviews.read(*written(tmp_path))
    assert dataset.kind == "tokens" and dataset.class_names == ["negative", "positive"] and dataset.vocabulary is None
    ids, labels = dataset.splits["train"]
    assert ids.tolist() == [[0, 0, 1, 7, 7, 7], [0, 0, 0, 0, 0, 1], [5, 6, 2, 8, 11, 2]]
    assert ids.dtype == np.int32 and labels.dtype == np.int64 and labels.tolist() == LABELS["train"]
    assert dataset.splits["test"][0].tolist() == [[0, 0, 0, 0, 1, 4], [0, 0, 0, 1, 5, 6]]


@pytest.mark.parametrize("checksum", ["of another file", "of no kind but MD5"])
def test_a_file_without_the_checksum_of_its_entry_is_not_unpickled(tmp_path, monkeypatch, checksum):
    monkeypatch.chdir(tmp_path)
    gadget = objects([Gadget(os.mkdir, "run"), None])
    folders, entry = written(tmp_path, x_train=gadget)
    if checksum == "of another file":
        entry["files"][0]["sha256"] = "0" * 64
    else:
        entry["files"][0]["md5"] = entry["files"][0].pop("sha256")
    assert "imdb.npz has not the SHA-256 of its entry, and was not loaded" in message_of(
        encoded_reviews.read, folders, entry
    )
    assert not (tmp_path / "run").exists()


def test_an_entry_that_names_no_sha256_is_refused(tmp_path):
    entry = {"title": "T", **written(tmp_path)[1]}
    load_config([], {"datasets": {"own": entry}, "prepare": ["own"]}, "the entry")
    del entry["files"][0]["sha256"]
    entry["files"][0]["md5"] = "0" * 32
    with pytest.raises(ConfigError, match=r"datasets\.own\.files.* no sha256"):
        load_config([], {"datasets": {"own": entry}, "prepare": ["own"]}, "the entry")


@pytest.mark.parametrize(
    "changes",
    [
        {"content": b""},
        {"content": b"<html>"},
        {"content": pickle.dumps([[1, 2]])},
        {"x_train": objects(["text", "more", "most"])},
        {"y_train": np.array(["a", "b", "c"])},
        {"y_test": np.array([0])},
        {"x_test": objects([])},
    ],
)
def test_another_file_of_the_entry(tmp_path, changes):
    folders, entry = written(tmp_path, **changes)
    message = message_of(encoded_reviews.read, folders, entry)
    assert message.startswith(f"{tmp_path}/imdb.npz is not a file like Keras's imdb.npz (")
