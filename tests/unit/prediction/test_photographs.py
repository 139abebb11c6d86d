"""Labelling photographs with a trained run: the pixels of its training, a line for each, a sentence for each misfit."""

import io
import json
import os
import subprocess
import sys
import tracemalloc
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import predict as script
import pytest
from PIL import Image
from records_for_tests import record, resealed

from trainmark.datasets.images.decoding import load_stored
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays, ImageLists
from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of
from trainmark.frameworks.registry import create_adapter
from trainmark.networks.zoo.mlp import mlp_32
from trainmark.prediction import photographs
from trainmark.prediction.photographs import label_photographs, read_photograph_model
from trainmark.prediction.predict import Predictor
from trainmark.prediction.trained_run import check_photographs, find_run, photographs_in
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import InputTransform, Optimizer, Recipe
from trainmark.training.kept_weights import write_weights

SIDE = 20
TRANSFORM = InputTransform(subtract_mean=True, crop=(SIDE, SIDE), random_crop=True, random_flip=True)
RECIPE = Recipe(
    "imagenet-tiny", mlp_32, (3, SIDE, SIDE), "glorot_uniform", Optimizer("sgd", 0.1), 32, TRANSFORM,
    ("test",), 1, 3, "",
)  # fmt: skip
ARCHITECTURE = mlp_32((3, SIDE, SIDE), 3)
WEIGHTS = draw_initial_weights(ARCHITECTURE, "glorot_uniform", (1, 1))
CLASSES = ["cat", "dog", "wild boar"]
MEAN = np.random.default_rng(7).uniform(0, 255, (3, 256, 256))


def draw_photograph(path, seed, size=(300, 280)):
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    Image.fromarray(colours).resize(size, Image.Resampling.BICUBIC).save(path)
    return path


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(RECIPES, RECIPE.name, RECIPE)


@pytest.fixture
def results(tmp_path):
    """A function that writes a record, with weights, dataset and mean image in their places; it returns the file."""

    def write(changes=None, arrays=None, subtract_mean=True, framework="chainer"):
        folder = tmp_path / "results" / "datasets" / "photos" / "prepared"
        for seed, name in enumerate("ab", start=1):
            draw_photograph(tmp_path / "own" / f"{name}.png", seed)
        lists = ImageLists(tmp_path / "own", {"train": [("a.png", 0)], "test": [("b.png", 0)]}, CLASSES)
        entry = {"title": "Photos", "format": "f"} | ({"image_shape": [3, 32, 32]} if arrays else {})
        manifest = prepare(folder, "photos", entry, arrays or lists, [], 1)
        mean = folder.parent / "mean.npy"
        np.save(mean, MEAN)
        found = record(framework, experiment="e", recipe=RECIPE.name, dataset="photos")
        found["dataset"] |= {"name": "photos", "content_sha256": manifest["content_sha256"]}
        found["settings"]["input"] = asdict(TRANSFORM) | {"subtract_mean": subtract_mean}
        found["inputs"]["mean_sha256"] = sha256_of(mean)
        file = tmp_path / "results" / "runs" / found["run"]["id"] / "record.json"
        file.parent.mkdir(parents=True)
        found["weights"] = write_weights(file.with_name("weights.npz"), WEIGHTS, {"classes": CLASSES})
        file.write_text(json.dumps(resealed(found | (changes or {}))))
        return file

    return write


def label(file, *paths, top=1, threads=2):
    """(lines on standard output, lines on standard error, number of files that can't be read)."""
    model = read_photograph_model(find_run(file))
    out, errors = io.StringIO(), io.StringIO()
    unreadable = label_photographs(Predictor(model, "cpu", threads, top), paths, threads, out, errors)
    return out.getvalue().splitlines(), errors.getvalue().splitlines(), unreadable


def probabilities_by_hand(paths, mean=MEAN):
    """Softmax of the logits that Chainer's adapter gives for windows cut and scaled here."""
    edge = (256 - SIDE) // 2
    window = slice(edge, edge + SIDE)
    inputs = [(load_stored(path).astype(float).transpose(2, 0, 1) - mean)[:, window, window] / 255 for path in paths]
    adapter = create_adapter("chainer", 2)
    weights = {name: array.astype(np.float32) for name, array in WEIGHTS.items()}
    adapter.build(architecture=ARCHITECTURE, weights=weights, optimizer=RECIPE.optimizer, device="cpu", dtype="float32")
    adapter.load(split="test", inputs=np.array(inputs, np.float32), labels=np.zeros(len(inputs), np.int64))
    powers = np.exp(adapter.predict("test").astype(float))
    return powers / powers.sum(axis=1, keepdims=True)


# --- what is answered ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtract_mean", [True, False])
def test_photographs_get_the_probabilities_of_the_network_on_their_centres(results, tmp_path, subtract_mean):
    suffixes = ("jpg", "png", "webp", "bmp")
    paths = [draw_photograph(tmp_path / f"{seed}.{kind}", seed) for seed, kind in enumerate(suffixes)]
    lines, errors, unreadable = label(results(subtract_mean=subtract_mean), *paths)
    rows = probabilities_by_hand(paths, MEAN if subtract_mean else 0)
    assert lines == [f"{path}\t{CLASSES[row.argmax()]}\t{row.max():.4f}" for path, row in zip(paths, rows, strict=True)]
    assert (errors, unreadable) == ([], 0)
    assert len({line.split("\t")[2] for line in lines}) == 4


def test_the_classes_that_follow_come_on_the_same_line(results, tmp_path):
    path = draw_photograph(tmp_path / "a.jpg", 3)
    (row,) = probabilities_by_hand([path])
    order = sorted(range(3), key=lambda one: -row[one])
    file = results()
    for top in (2, 3):
        ((line,), _, _) = label(file, path, top=top)
        assert line == "\t".join([str(path), *(f"{CLASSES[one]}\t{row[one]:.4f}" for one in order[:top])])
    with pytest.raises(DataError, match="--top 4: the run has 3 classes; name at most as many"):
        label(file, path, top=4)


def test_a_folder_stands_for_its_images_in_the_order_of_their_names(results, tmp_path):
    folder = tmp_path / "photos"
    names = ["b.JPG", "a.png", "d/2.jpeg", "c/1.jpg", ".d/hidden.jpg", "._a.png", "@eaDir/a.png/1.jpg"]
    for number, name in enumerate(names):
        draw_photograph(folder / name, number)
    (folder / "notes.txt").write_text("no image")
    last = draw_photograph(tmp_path / "last.gif", 9)
    found = [str(folder / name) for name in ("a.png", "b.JPG", "c/1.jpg", "d/2.jpeg")]
    assert [str(path) for path, _ in photographs_in([folder, last])] == [*found, str(last)]
    lines, _, _ = label(results(), folder, last)
    assert [line.split("\t")[0] for line in lines] == [*found, str(last)]


def test_what_can_not_be_read_is_said_and_the_others_are_labelled(results, tmp_path):
    good = [draw_photograph(tmp_path / f"{number}.jpg", number) for number in range(2)]
    names = ("cut.jpg", "empty.png", "t.jpg", "no.jpg", "hollow")
    cut, empty, text, missing, hollow = (tmp_path / name for name in names)
    cut.write_bytes(good[0].read_bytes()[:300])
    empty.write_bytes(b"")
    text.write_text("a text")
    hollow.mkdir()
    lines, errors, unreadable = label(results(), good[0], cut, empty, text, missing, hollow, good[1])
    assert [line.split("\t")[0] for line in lines] == [str(path) for path in good]
    assert unreadable == len(errors) == 5
    reasons = [
        (cut, "cut off or damaged ("), (empty, "empty file; "), (text, "not an image ("),
        (missing, "can't be read (No such file or directory); "),
        (hollow, "the folder holds no image file (.jpg, .jpeg, .png, .gif, .bmp, .webp, .tif, .tiff); "),
    ]  # fmt: skip
    for line, (path, reason) in zip(errors, reasons, strict=True):
        assert line.startswith(f"{path}: {reason}") and line.endswith("; it is not labelled")


def test_a_name_with_a_tab_stays_in_its_column(results, tmp_path):
    path = draw_photograph(tmp_path / "a\tb\nc.png", 1)
    (line,), _, _ = label(results(), path)
    assert line.split("\t")[0] == f"{tmp_path}/a\\tb\\nc.png" and line.count("\t") == 2


def test_batches_are_bounded_and_keep_the_order(results, tmp_path, monkeypatch):
    monkeypatch.setattr(photographs, "MOST_AT_ONCE", 3)
    paths = [draw_photograph(tmp_path / f"{number}.png", number) for number in range(8)]
    given = []

    def labels(self, images):
        given.append(len(images))
        return ["x\t1"] * len(images)

    monkeypatch.setattr(Predictor, "labels", labels)
    lines, _, _ = label(results(), *paths)
    assert given == [3, 3, 2]
    assert lines == [f"{path}\tx\t1" for path in paths]


def test_memory_does_not_grow_with_the_photographs(results, tmp_path, monkeypatch):
    """Stored images of 300 photographs would take 56 MiB."""
    monkeypatch.setattr(photographs, "MOST_AT_ONCE", 8)
    path = draw_photograph(tmp_path / "a.png", 1)
    monkeypatch.setattr(photographs, "load_stored", lambda path: np.zeros((256, 256, 3), np.uint8))
    file = results()
    label(file, path)
    tracemalloc.start()
    lines, _, _ = label(file, *[path] * 300)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(lines) == 300 and peak < 20 * 2**20


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(results, monkeypatch, capfdbinary):
    """A function that calls the command with arguments after the run's: (exit status, output, errors)."""
    file = results()

    @contextmanager
    def at_once(*arguments, **options):
        yield SimpleNamespace(cpus=(0, 1))

    monkeypatch.setattr(script, "hold_device", at_once)
    monkeypatch.setattr(script, "limit_threads", lambda cpus: None)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["predict.py", str(file), *map(str, arguments)])
        status = 0
        try:
            script.main()
        except SystemExit as done:
            status = done.code
        return status, *(text.decode(errors="surrogateescape") for text in capfdbinary.readouterr())

    return call


def test_the_command_labels_and_its_status_says_whether_all_could_be_read(command, tmp_path):
    good, bad = draw_photograph(tmp_path / "a.jpg", 1), tmp_path / "b.jpg"
    bad.write_bytes(b"x")
    status, out, errors = command(good)
    assert (status, errors, out.count("\n")) == (0, "", 1)
    status, printed, complaint = command(bad, good)
    assert (status, printed) == (1, out)
    assert complaint.startswith(f"{bad}: not an image (") and complaint.endswith("; it is not labelled\n")
    assert command("--top", 3, good)[1].count("\t") == 6


def test_a_name_that_is_not_utf_8_is_written_as_it_is(command, tmp_path):
    path = os.fsencode(draw_photograph(tmp_path / "a.jpg", 1)).replace(b"a.jpg", b"d\xe9j\xe0.jpg")
    os.rename(tmp_path / "a.jpg", path)
    status, out, errors = command(os.fsdecode(path))
    assert (status, errors) == (0, "")
    assert os.fsencode(out).startswith(path + b"\t")


def test_no_photograph_is_named(command):
    with pytest.raises(DataError, match="the run labels photographs, and none is named; name image files, or folders"):
        command()
    with pytest.raises(DataError):
        check_photographs([])


# --- what is refused ------------------------------------------------------------------------------------------------


def message_of(file):
    with pytest.raises(DataError) as caught:
        read_photograph_model(find_run(file))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_mean_image_that_is_missing_or_damaged(results, tmp_path):
    file = results()
    mean = tmp_path / "results" / "datasets" / "photos" / "mean.npy"
    mean.write_bytes(mean.read_bytes() + b"x")
    assert message_of(file).startswith(f"{mean} is damaged, or not the mean image that {file} was trained with: its ")
    mean.unlink()
    assert message_of(file) == f"{mean}, the mean image of the dataset, is missing; run snakemake again, which makes it"


def test_a_run_on_images_of_another_size(results):
    images = np.zeros((3, 3, 32, 32), np.uint8)
    file = results(arrays=Arrays(dict.fromkeys(("train", "test"), (images, np.arange(3))), CLASSES))
    assert message_of(file).startswith(
        f"{file} was trained on images of 3 x 32 x 32, and photographs are decoded to 3 x 256 x 256; choose a run "
    )


def test_texts_load_no_image_decoder():
    """OpenCV makes threads of its own."""
    code = "import sys, trainmark.prediction.texts; print({'cv2', 'simplejpeg', 'PIL'} & set(sys.modules))"
    scripts = {"PYTHONPATH": str(Path(script.__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], env=scripts, capture_output=True, text=True, check=False)
    assert done.stdout == "set()\n", done.stderr
