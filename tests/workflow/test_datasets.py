"""Datasets through the whole workflow, without a run: fetched from a mirror, unpacked, prepared, packed, averaged."""

import io
import json
import re
import subprocess

import numpy as np
import pytest
import yaml
from harness import environment, keyed, snakemake, snakemake_command, write_config
from mirrors import on_mirror, put, reviews_on_mirror, tar
from PIL import Image

from trainmark.datasets import prepared
from trainmark.datasets.images.packed import open_store

CLASSES = ["cat", "dog", "emu", "fox"]
SPLITS = (("train", 9), ("test", 3))


def photograph(seed):
    """A JPEG of a smooth picture, 300x280."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 5, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(coarse).resize((300, 280), Image.Resampling.BICUBIC).save(stream, "JPEG")
    return stream.getvalue()


def photographs():
    """{path: content} of an image folder: four classes, three training and two test images each."""
    return {
        f"{split}/{name}/{number}.JPEG": photograph([label, number, len(split)])
        for split, count in (("train", 3), ("val", 2))
        for label, name in enumerate(CLASSES)
        for number in range(count)
    }


def write_arrays(folder, first):
    """An .npz file of nine training images and three test images, in two classes; first: the value of the first one."""
    (folder / "arrays").mkdir(exist_ok=True)
    splits = {split: (np.full((count, 6, 5, 3), first, np.uint8), np.arange(count) % 2) for split, count in SPLITS}
    named = {f"{part}_{split}": array for split, pair in splits.items() for part, array in zip("xy", pair, strict=True)}
    np.savez(folder / "arrays" / "arrays.npz", **named)


def write_list(folder, split, paths):
    """A list of images in the folder own, labelled by the folder of their class."""
    lines = [f"{path} {sorted(CLASSES).index(path.split('/')[1])}" for path in paths]
    (folder / "own" / f"{split}.txt").write_text("\n".join(lines))


def config(folder):
    """Every kind of dataset, from a mirror that is a folder and from a folder of one's own."""
    for path, content in photographs().items():
        put(folder / "own" / path, content)
    for split in ("train", "val"):
        write_list(folder, split, [path for path in sorted(photographs()) if path.startswith(split)])
    write_arrays(folder, 0)
    archive = on_mirror(folder, "archived", "animals.tgz", tar({f"animals/{k}": v for k, v in photographs().items()}))
    return {
        "mirror": str(folder / "mirror"),
        "offline": True,
        "prepare": ["own", "archived", "two", "texts", "colours", "arrays", "drawn", "listed"],
        "datasets": {
            "own": {"title": "Own", "format": "image_folder", "folder": "own", "packed": True},
            "archived": {"title": "A", "format": "image_folder", "files": [archive], "root": "animals", "classes": 4},
            "two": {"title": "Two", "format": "class_subset", "of": "archived", "classes": 2, "seed": 1},
            "texts": reviews_on_mirror(
                folder, "The film was {}<br />", 3, sequence_length=6, vocabulary_size=8
            ),
            "colours": {
                "title": "Colours", "format": "synthetic", "image_shape": [3, 8, 8], "classes": 2,
                "samples": {"train": 20, "test": 4}, "seed": 5,
            },
            "arrays": {
                "title": "Arrays", "format": "npz", "image_shape": [3, 6, 5], "classes": 2, "folder": "arrays",
            },
            "drawn": {"title": "Drawn", "format": "image_folder", "folder": "own/train"},
            "listed": {
                "title": "Listed", "format": "image_list", "folder": "own",
                "lists": {"train": "train.txt", "test": "val.txt"},
            },
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished workflow of all these datasets, and what snakemake printed."""
    folder = tmp_path_factory.mktemp("datasets")
    name = write_config(folder, config(folder))
    process = snakemake(folder, "--cores", "2", "--configfile", name)
    assert process.returncode == 0, process.printed[-5000:]
    return folder, process


def made(folder, dataset, file=""):
    """A file of a dataset, or its folder."""
    return keyed(folder, f"datasets/{dataset}/*-*/{file}")


def manifest(folder, dataset):
    return prepared.read_manifest(made(folder, dataset, "prepared"))


def test_the_end_says_what_there_is(finished):
    _, process = finished
    lines = re.sub("/[0-9a-f]{8}-[0-9a-f]{8}/", "/", process.stderr).splitlines()
    shown = [line for line in lines if ": results/datasets/" in line]
    assert shown == [
        "own: 12 training and 8 test samples in 4 classes: results/datasets/own/prepared",
        "archived: 12 training and 8 test samples in 4 classes: results/datasets/archived/prepared",
        "two: 6 training and 4 test samples in 2 classes: results/datasets/two/prepared",
        "texts: 6 training and 6 test samples in 2 classes: results/datasets/texts/prepared",
        "colours: 20 training and 4 test samples in 2 classes: results/datasets/colours/prepared",
        "arrays: 9 training and 3 test samples in 2 classes: results/datasets/arrays/prepared",
        "drawn: 8 training and 4 test samples in 4 classes: results/datasets/drawn/prepared",
        "listed: 12 training and 8 test samples in 4 classes: results/datasets/listed/prepared",
    ]


def test_a_call_goes_on_when_the_pipe_that_it_prints_to_ends(tmp_path):
    """As in `snakemake ... 2>&1 | head`."""
    name = write_config(tmp_path, {"prepare": ["digits"]})
    command = snakemake_command(tmp_path, "--cores", "1", "--configfile", name)
    call = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment(), cwd=tmp_path)
    call.stderr.readline()
    call.stderr.close()
    assert call.wait() == 0
    assert manifest(tmp_path, "digits")


def test_every_image_counts_the_same_wherever_it_comes_from(finished):
    folder, _ = finished
    contents = {manifest(folder, name)["content_sha256"] for name in ("own", "archived", "listed")}
    assert len(contents) == 1
    means = [np.load(made(folder, name, "mean.npy"), allow_pickle=False) for name in ("own", "archived")]
    assert means[0].dtype == np.float64 and means[0].shape == (3, 256, 256)
    assert np.array_equal(*means), "one from the packed store, one from the files"
    store = open_store(made(folder, "own", "packed/train.npy"))
    assert store.shape == (12, 256, 256, 3)
    assert np.array_equal(means[0], np.moveaxis(store.sum(axis=0, dtype=np.int64) / 12, -1, 0))
    with Image.open(made(folder, "archived", "mean.png")) as picture:
        assert picture.size == (256, 256)


def test_texts_have_no_mean_image(finished):
    folder, _ = finished
    texts = made(folder, "texts")
    ids, labels = prepared.read_split(texts / "prepared", "train")
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert ids[[0, 3]].tolist() == [[1, 4, 5, 6, 2, 2], [1, 4, 5, 6, 7, 2]], "bad and br are beyond eight ids"
    assert not (texts / "mean.npy").exists()


def test_where_files_came_from_is_written_down(finished):
    folder, _ = finished
    sources = json.loads(made(folder, "archived", "sources.json").read_text())
    assert [source["from"] for source in sources] == [str(folder / "mirror" / "archived" / "animals.tgz")]
    assert manifest(folder, "archived")["sources"] == sources


def test_a_second_time_nothing_is_done_and_a_changed_entry_is_done_anew(finished):
    folder, _ = finished
    again = snakemake(folder, "--cores", "2", "--configfile", "experiment.yaml")
    assert again.returncode == 0 and "Nothing to be done" in again.printed
    changed = yaml.safe_load((folder / "experiment.yaml").read_text())
    changed["datasets"]["two"]["seed"] = 2
    plan = snakemake(folder, "-n", "--workflow-profile", "none", "--configfile", write_config(folder, changed))
    assert plan.returncode == 0
    asked = set(re.findall(r"wildcards: dataset=(\w+)", plan.printed))
    assert asked == {"two"}, "the others are as they were"


def planned(folder, settings):
    """(rule, dataset) of every job that these settings ask for in a finished workflow."""
    plan = snakemake(folder, "-n", "--workflow-profile", "none", "--configfile", write_config(folder, settings))
    assert plan.returncode == 0, plan.printed[-5000:]
    return set(re.findall(r"rule (\w+):\n(?:    .*\n)*?    wildcards: dataset=(\w+)", plan.printed))


ANEW = ("download_dataset", "prepare_dataset", "compute_mean_image")


def test_a_changed_list_is_prepared_again(finished):
    folder, _ = finished
    settings = yaml.safe_load((folder / "experiment.yaml").read_text()) | {"prepare": ["listed", "drawn"]}
    assert planned(folder, settings) == set()
    write_list(folder, "val", [path for path in sorted(photographs()) if path.startswith("val")][1:])
    assert planned(folder, settings) == {(rule, "listed") for rule in ANEW}


def test_to_pack_or_not_to_pack_prepares_nothing_anew(finished):
    folder, _ = finished
    settings = yaml.safe_load((folder / "experiment.yaml").read_text())
    settings["prepare"] = ["own", "archived"]
    settings["datasets"]["own"]["packed"] = False
    settings["datasets"]["archived"]["packed"] = True
    assert planned(folder, settings) == {("pack_images", "archived")}


def test_a_packed_store_or_a_picture_that_was_deleted_is_made_again(finished):
    folder, _ = finished
    settings = yaml.safe_load((folder / "experiment.yaml").read_text())
    settings["prepare"] = ["own", "archived"]
    settings["datasets"]["own"]["packed"] = True
    settings["datasets"]["archived"].pop("packed", None)
    made(folder, "own", "packed/test.npy").unlink()
    made(folder, "archived", "mean.png").unlink()
    assert {("pack_images", "own"), ("compute_mean_image", "archived")} <= planned(folder, settings)


@pytest.mark.faults
def test_a_changed_array_file_in_a_folder_of_ones_own_is_prepared_again(finished):
    folder, _ = finished
    settings = yaml.safe_load((folder / "experiment.yaml").read_text()) | {"prepare": ["arrays"]}
    assert planned(folder, settings) == set()
    write_arrays(folder, 7)
    assert planned(folder, settings) == {(rule, "arrays") for rule in ANEW}
    process = snakemake(folder, "--cores", "2", "--configfile", write_config(folder, settings))
    assert process.returncode == 0, process.printed[-5000:]
    means = (folder / "results" / "datasets" / "arrays").glob("*/mean.npy")
    assert {np.load(mean).mean() for mean in means} == {0, 7}, "the earlier one is kept"


# --- what goes wrong ----------------------------------------------------------------------------------------------


def test_too_many_unreadable_images(tmp_path):
    settings = config(tmp_path) | {"prepare": ["own"]}
    put(tmp_path / "own" / "train" / "cat" / "broken.JPEG", photograph(1)[:900])
    put(tmp_path / "own" / "val" / "dog" / "empty.JPEG", b"")
    process = snakemake(tmp_path, "--cores", "2", "--configfile", write_config(tmp_path, settings))
    assert process.returncode != 0 and "Traceback" not in process.printed
    assert "own: 2 of 22 images can't be decoded, the first of them own/train/cat/broken.JPEG (" in process.printed
    assert "allowed: 0 (unreadable_share 0.001)" in process.printed
    listed = made(tmp_path, "own", "unreadable.txt").read_text().splitlines()
    assert [line.split("\t")[:2] for line in listed] == [
        ["train", "train/cat/broken.JPEG"], ["test", "val/dog/empty.JPEG"],
    ]  # fmt: skip
    settings["datasets"]["own"]["unreadable_share"] = 0.1
    process = snakemake(tmp_path, "--cores", "2", "--configfile", write_config(tmp_path, settings))
    assert process.returncode == 0, process.printed[-5000:]
    assert "own: 12 training and 8 test samples in 4 classes, 2 left out as unreadable" in process.printed
