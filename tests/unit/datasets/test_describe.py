"""describe_dataset.py: the entry that it prints loads, and is that of the data."""

import subprocess
import sys

import numpy as np
import pytest
import yaml
from messages import message_of
from PIL import Image
from test_idx import small_dataset
from test_idx import write_dataset as write_idx
from test_own_arrays import arrays, write

from trainmark.config.load import REPOSITORY, load_config
from trainmark.datasets.describe import describe
from trainmark.datasets.fetching.download import fetch_dataset
from trainmark.datasets.prepare import prepare, read_dataset
from trainmark.datasets.samples import Folders

SIZES = {"classes": 3, "samples": {"train": 7, "test": 3}}


@pytest.mark.parametrize(
    ("form", "shape", "image_shape"),
    [
        ("npy", (4, 5), [1, 4, 5]), ("npy", (3, 4, 5), [3, 4, 5]), ("npy", (4, 5, 3), [3, 4, 5]),
        ("npy", (1, 4, 5), [1, 4, 5]), ("npy", (3, 4, 3), [3, 4, 3]), ("npz", (4, 5), [1, 4, 5]),
    ],
)  # fmt: skip
def test_a_folder_of_arrays(tmp_path, form, shape, image_shape):
    write(tmp_path, form, arrays(*shape))
    assert describe("my-data", [tmp_path]) == {
        "title": "My data", "format": form, "image_shape": image_shape, **SIZES, "folder": str(tmp_path),
    }  # fmt: skip


def test_a_folder_of_photographs_or_idx_files(tmp_path):
    """Two classes with two training images and one test image each."""
    for split, count in (("train", 2), ("val", 1)):
        for name in ("cat", "dog"):
            (tmp_path / "pets" / split / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (9, 8)).save(tmp_path / "pets" / split / name / f"{number}.png")
    assert describe("pets", [tmp_path / "pets"]) == {
        "title": "Pets", "format": "image_folder", "classes": 2, "samples": {"train": 4, "test": 2},
        "folder": str(tmp_path / "pets"),
    }  # fmt: skip
    write_idx(tmp_path, small_dataset() | {"test": small_dataset()["train"]})
    entry = describe("mine", [tmp_path])
    assert (entry["format"], entry["image_shape"], entry["samples"]) == ("idx", [1, 4, 5], {"train": 7, "test": 7})


def printed(*arguments) -> subprocess.CompletedProcess:
    script = REPOSITORY / "workflow" / "scripts" / "describe_dataset.py"
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("form", ["npy", "idx"])
def test_files_can_be_fetched_and_prepared_by_what_is_printed(tmp_path, form):
    (tmp_path / "own").mkdir()
    if form == "idx":
        write_idx(tmp_path / "own", small_dataset() | {"test": small_dataset()["train"]})
    else:
        write(tmp_path / "own", form, arrays(4, 5, 3))
    files = sorted((tmp_path / "own").iterdir())
    done = printed("mine", *files)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "own.yaml").write_text(f"prepare: [mine]\n{done.stdout}")
    entry = load_config([tmp_path / "own.yaml"])[1]["mine"]
    assert entry == yaml.safe_load(done.stdout)["datasets"]["mine"]
    assert [file["bytes"] for file in entry["files"]] == [file.stat().st_size for file in files]
    fetch_dataset("mine", entry, None, tmp_path / "raw")
    dataset = read_dataset(Folders(tmp_path / "raw", tmp_path / "unpacked"), entry)
    assert prepare(tmp_path / "prepared", "mine", entry, dataset, [], 1)["samples"] == entry["samples"]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["none"], "{}/none does not exist; name a folder, or the files of the dataset"),
        (["notes.txt", "own"], "{}/own is a folder, or a second file of this name; name one folder alone, or files "),
        (["own.npz", "own/own.npz"], "{}/own/own.npz is a folder, or a second file of this name; "),
        (["notes.txt"], "files: its files fit no format; allowed: four .npy files "),
        (["notes"], "{}/notes: its files fit no format; allowed: four .npy files "),
        (["two"], "{}/two: its files fit npy and npz; allowed: "),
        (
            ["two/test_images.npy", "two/test_labels.npy"],
            "files: needs one array of the names train_images and ",
        ),
    ],
)
def test_paths_that_are_not_the_files_of_a_dataset(tmp_path, names, why):
    (tmp_path / "notes.txt").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").touch()
    for folder, form in (("", "npz"), ("own", "npz"), ("two", "npz"), ("two", "npy")):
        write(tmp_path / folder, form, arrays(4, 5))
    assert message_of(describe, "mine", [tmp_path / name for name in names]).startswith(why.format(tmp_path))


@pytest.mark.parametrize("shape", [(5, 6, 7), (4,), (1, 2, 3, 4)])
def test_channels_that_are_ambiguous(tmp_path, shape):
    write(tmp_path, "npy", arrays(*shape))
    assert message_of(describe, "mine", [tmp_path]).startswith(
        f"{tmp_path}/train_images.npy holds samples of the shape {shape}, whose channels are ambiguous; allowed: "
    )


@pytest.mark.parametrize("as_files", [False, True])
@pytest.mark.parametrize("form", ["npy", "npz"])
def test_messages_name_no_temporary_file(tmp_path, form, as_files):
    own = tmp_path / "own"
    labels = {"train_labels": np.arange(7) % 3 + 1, "test_labels": np.arange(3) + 1}
    write(own, form, arrays(4, 5) | labels)
    before = "files/" if as_files else f"{own}/"
    before += "own.npz: " if form == "npz" else ""
    paths = sorted(own.iterdir()) if as_files else [own]
    assert message_of(describe, "mine", paths).startswith(
        f"{before}train_labels.npy: the labels of both splits run from 1 to 3 and lack 0; "
    )


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ([2**40, 0, 1, 2, 0, 1, 2], "run from 0 to 1099511627776 and lack 3; "),
        ([0] * 7, "mine: 2 labels occur in the test split and never in training (1, 2); "),
    ],
)
def test_labels_that_are_not_right(tmp_path, labels, why):
    write(tmp_path, "npy", arrays(4, 5) | {"train_labels": np.array(labels)})
    assert why in message_of(describe, "mine", [tmp_path])
