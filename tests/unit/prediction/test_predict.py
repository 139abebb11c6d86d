"""Classifying texts with a trained run: its token ids, one answer per line, one sentence for each mistake."""

import io
import json
import os
import pty
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import predict as script
import pytest
from records_for_tests import changed, diverged, out_of_memory, record, resealed

from trainmark.datasets import prepared
from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays
from trainmark.datasets.tokens import Vocabulary
from trainmark.errors import DataError, DeviceError, RecordError, TrainmarkError
from trainmark.frameworks.adapter import Adapter
from trainmark.prediction import predict as predict_module
from trainmark.prediction.predict import Predictor
from trainmark.prediction.texts import MAX_TEXT_BYTES, answers, label_texts, read_text_model, texts_of
from trainmark.prediction.trained_run import find_run, open_texts
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.training.kept_weights import write_weights

RECIPE = RECIPES["imdb-cnn"]
ARCHITECTURE = RECIPE.architecture((400,), 2)
VOCABULARY = Vocabulary({"good": 1, "bad": 2, "rare": 5000}, 5000)
GOOD, BAD = 4, 5  # ids: rank + 3
TEXTS = ["bad", "good"]
CLASSES = ["negative", "positive"]
RUN = {"experiment": "e", "recipe": "imdb-cnn", "dataset": "texts"}


@pytest.fixture
def results(tmp_path):
    """A function that writes a record, with weights and dataset in their places, and returns the record's file."""

    def write(vocabulary=VOCABULARY, changes=None, made=record, **run):
        folder = tmp_path / "results" / "datasets" / "texts" / "prepared"
        ids = np.stack([VOCABULARY.encode(text, 400) for text in TEXTS])
        splits = dict.fromkeys(SPLITS, (ids, np.array([0, 1])))
        entry = {"title": "Texts", "format": "reviews", "classes": 2, "sequence_length": 400}
        arrays = Arrays(splits, CLASSES, "tokens", vocabulary)
        manifest = prepare(folder, "texts", entry, arrays, [], 1)
        of_dataset = {"dataset.name": "texts", "dataset.content_sha256": manifest["content_sha256"]}
        found = made(**RUN | run, changes=of_dataset)
        file = tmp_path / "results" / "runs" / found["run"]["id"] / "record.json"
        file.parent.mkdir(parents=True)
        if found["status"] == "ok":
            weights = draw_initial_weights(ARCHITECTURE, RECIPE.initializer, (1, 1))
            found["weights"] = write_weights(file.with_name("weights.npz"), weights, {"classes": CLASSES})
        file.write_text(json.dumps(resealed(found | (changes or {}))))
        return file

    return write


def read_run(path, dataset_folder=None):
    return read_text_model(find_run(path, dataset_folder))


class Counting:
    """An adapter whose logits are the numbers of good and bad words, and that stores its inputs."""

    framework, check_device = "counting", Adapter.check_device

    def __init__(self):
        self.blocks = []

    def build(self, **arguments):
        self.built = arguments

    def describe_device(self):
        return {"kind": "cpu", "name": "host"}

    def load(self, *, split, inputs, labels):
        self.ids = inputs
        self.blocks.append(len(inputs))

    def predict(self, split):
        return np.stack([(self.ids == BAD).sum(axis=1), (self.ids == GOOD).sum(axis=1)], axis=1).astype(np.float32)


@pytest.fixture
def adapter(monkeypatch):
    made = Counting()
    monkeypatch.setattr(predict_module, "create_adapter", lambda name, threads, loop="stock": made)
    return made


# --- what is answered ---------------------------------------------------------------------------------------------


def test_a_run_is_found_by_its_record_and_by_its_folder(results, tmp_path):
    file = results()
    for path in (file, file.parent):
        found = find_run(path)
        assert (found.file, found.record, found.recipe) == (file, json.loads(file.read_text()), RECIPE)
        assert found.takes_texts
        assert found.dataset_folder == tmp_path / "results" / "datasets" / "texts" / "prepared"
    assert find_run(file, tmp_path).dataset_folder == tmp_path
    model = read_run(file)
    assert (model.framework, model.dtype, model.training.recipe, model.training.architecture) == (
        "chainer", "float32", RECIPE, ARCHITECTURE,
    )  # fmt: skip
    assert model.class_names == CLASSES
    assert model.weights.keys() == {parameter.name for parameter in ARCHITECTURE.arrays()}


def test_texts_get_the_ids_of_the_training(results, adapter, tmp_path):
    run = read_run(results())
    found = Predictor(run, "cpu", 2).probabilities(TEXTS)
    stored, _ = prepared.read_split(tmp_path / "results" / "datasets" / "texts" / "prepared", "train")
    np.testing.assert_array_equal(adapter.ids, stored)
    assert adapter.ids.dtype == np.int32
    e = np.e / (1 + np.e)
    np.testing.assert_allclose(found, [[e, 1 - e], [1 - e, e]], rtol=1e-12)
    assert adapter.built["dtype"] == "float32" and adapter.built["device"] == "cpu"
    assert adapter.built["weights"] is run.weights and adapter.built["optimizer"] == RECIPE.optimizer


def test_a_framework_that_falls_back_to_the_cpu_is_refused(results, adapter):
    with pytest.raises(DeviceError, match="counting was asked for the device gpu but put its arrays on"):
        Predictor(read_run(results()), "gpu", 2)


def test_the_end_of_a_long_text_is_used(results, adapter):
    """As in the training: the last 400 ids."""
    predictor = Predictor(read_run(results()), "cpu", 2)
    first_good, last_good = predictor.probabilities(["good " + "bad " * 400, "bad " + "good " * 400])
    assert adapter.ids.tolist() == [[BAD] * 400, [GOOD] * 400]
    assert first_good.argmax() == 0 and last_good.argmax() == 1


@pytest.mark.parametrize(("texts", "batch_size", "blocks"), [(5, 2, [2, 2, 1]), (4, 4, [4]), (0, 3, [])])
def test_answers_come_in_blocks_and_in_order(results, adapter, texts, batch_size, blocks):
    run = read_run(results())
    given = ["good " * (i + 1) if i % 2 else "bad" for i in range(texts)]
    found = list(answers(Predictor(run, "cpu", 2), given, batch_size))
    scores = [1 / (1 + np.exp(-(i + 1 if i % 2 else 1))) for i in range(texts)]
    classes = ["positive" if i % 2 else "negative" for i in range(texts)]
    assert found == [f"{name}\t{score:.4f}\n" for name, score in zip(classes, scores, strict=True)]
    assert adapter.blocks == blocks


def test_answers_do_not_wait_for_the_end_of_their_input(results, adapter):
    run = read_run(results())

    def endless():
        while True:
            yield "good"

    given = answers(Predictor(run, "cpu", 2), endless(), 10)
    assert [next(given) for _ in range(25)] == ["positive\t0.7311\n"] * 25
    assert adapter.blocks == [10, 10, 10]


def test_each_line_of_a_file_gets_a_line(results, adapter, tmp_path):
    (tmp_path / "reviews.txt").write_text("bad\n\ngood, good\n")
    out = io.StringIO()
    with open_texts([tmp_path / "reviews.txt"]) as lines:
        label_texts(Predictor(read_run(results()), "cpu", 2), lines, out)
    assert out.getvalue() == "negative\t0.7311\nnegative\t0.5000\npositive\t0.8808\n"


@pytest.mark.parametrize("files", [[], [Path("-")]])
def test_a_line_typed_at_a_terminal_is_answered_at_once(results, adapter, monkeypatch, files):
    keyboard, terminal = pty.openpty()
    os.write(keyboard, b"bad\ngood\n\x04")
    seen, out = [], io.StringIO()
    out.flush = lambda: seen.append(out.getvalue().splitlines()[-1])
    with open(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with open_texts(files) as lines:
            label_texts(Predictor(read_run(results()), "cpu", 2), lines, out)
    os.close(keyboard)
    assert seen == ["negative\t0.7311", "positive\t0.7311"] and adapter.blocks == [1, 1]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"", []),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("é\x85\u2028\x0b\x0c\x1c\n".encode(), ["é\x85\u2028\x0b\x0c\x1c"]),
    ],
    ids=["empty", "no end", "Windows", "byte order mark", "other separators"],
)
def test_one_text_per_line(content, texts):
    assert list(texts_of(io.BytesIO(content), "f")) == texts


# --- what is refused ----------------------------------------------------------------------------------------------


def message_of(error, function, *arguments):
    with pytest.raises(TrainmarkError) as caught:
        function(*arguments)
    assert type(caught.value) is error and "\n" not in str(caught.value)
    return str(caught.value)


def damage_weights(file):
    with open(file.with_name("weights.npz"), "ab") as stream:
        stream.write(b"x")


def name_another_dataset(file):
    file.write_text(json.dumps(changed(json.loads(file.read_text()), {"dataset.content_sha256": "0" * 64})))


REFUSED = {
    "a recipe for grey images": (
        {"recipe": "mnist-mlp-flux"}, None, RecordError,
        "{file} is of the recipe mnist-mlp-flux, which labels neither texts nor photographs in colour; choose a run "
        "of imdb-cnn, imagenet-alex, imagenet-nin, imagenet-googlenet, imagenet-googlenetbn, imagenet-resnet50",
    ),
    "an unknown framework": (
        {"framework": "numpy"}, None, RecordError,
        "{file} is of the framework numpy, which has no adapter here; choose a run of one of chainer, ",
    ),
    "a diverged run": (
        {"made": diverged}, None, RecordError,
        "{file} has no trained weights: the run diverged; choose one whose status is ok",
    ),
    "a run out of memory": (
        {"made": out_of_memory}, None, RecordError, "{file} has no trained weights: the run ran out of memory; choose",
    ),
    "weights that were not kept": (
        {"changes": {"weights": None}}, None, RecordError,
        "{file} has no trained weights: keep_weights was not true, or the disk was full; set keep_weights: true, ",
    ),
    "weights that were removed": (
        {}, lambda file: file.with_name("weights.npz").unlink(), RecordError,
        "weights.npz, the trained weights of the run, is missing; unless keep_weights is true, those of images are "
        "removed after their evaluation: set keep_weights: true, delete {file}, and run snakemake again",
    ),
    "damaged weights": ({}, damage_weights, RecordError, "weights.npz is damaged or of another run"),
    "another dataset": (
        {}, name_another_dataset, DataError, "holds another dataset, or another version of texts, than {file} was",
    ),
    "texts that were encoded elsewhere": (
        {"vocabulary": None}, None, DataError,
        "has no vocabulary, because texts comes as token ids; choose a run that was trained on raw",
    ),
}  # fmt: skip
"""Options of the run, what is done to it, the error, and what it says."""


@pytest.mark.parametrize("why", REFUSED)
def test_a_run_that_can_not_label_texts_is_refused(results, why):
    options, spoil, error, says = REFUSED[why]
    file = results(**options)
    if spoil:
        spoil(file)
    assert says.format(file=file) in message_of(error, read_run, file)


@pytest.mark.parametrize(
    ("changes", "texts", "error", "message"),
    [
        ({"weights": None}, "reviews.txt", RecordError, "has no trained weights"),
        ({}, "missing.txt", DataError, "can't be read"),
        ({}, "reviews.txt", InterruptedError, "waits"),
    ],
    ids=["no weights", "no texts", "nothing"],
)
def test_what_is_missing_is_reported_before_waiting(results, tmp_path, monkeypatch, changes, texts, error, message):
    (tmp_path / "reviews.txt").write_text("good\n")
    monkeypatch.setattr(script, "hold_device", mock.Mock(side_effect=InterruptedError("it waits")))
    monkeypatch.setattr(sys, "argv", ["predict.py", str(results(changes=changes)), str(tmp_path / texts)])
    with pytest.raises(error, match=message):
        script.main()


def test_a_record_moved_away_from_its_dataset(results, tmp_path):
    file = results()
    apart = tmp_path / "apart"
    file.parent.rename(apart)
    message = message_of(DataError, read_run, apart)
    assert message.endswith("the dataset of the run, does not exist; name its prepared folder with --dataset-folder")
    assert (
        read_run(apart, tmp_path / "results" / "datasets" / "texts" / "prepared").training.architecture == ARCHITECTURE
    )


def test_a_framework_that_is_not_installed(results, monkeypatch):
    monkeypatch.setattr("trainmark.frameworks.registry.Framework.missing_packages", lambda self: ["chainer"])
    with pytest.raises(TrainmarkError, match="the framework chainer needs the package chainer, which is not installed"):
        Predictor(read_run(results()), "cpu", 2)


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_a_file_that_can_not_be_read(tmp_path, name):
    with pytest.raises(DataError, match=r"can't be read \(.+\); name a text file with one review per line"):
        open_texts([tmp_path / name]).__enter__()


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert message_of(DataError, open_texts([]).__enter__).startswith("standard input is closed; name a text file")


def test_two_files_of_texts():
    message = message_of(DataError, open_texts([Path("a.txt"), Path("b.txt")]).__enter__)
    assert message == "found 2 files of texts; allowed: one, with one review per line"


def test_a_line_that_is_not_utf_8():
    texts = texts_of(io.BytesIO(b"good\nd\xe9j\xe0 vu\n"), "reviews.txt")
    assert next(texts) == "good"
    assert message_of(DataError, next, texts) == (
        "reviews.txt, line 2: not UTF-8 text (byte 2); convert it, for example with iconv"
    )


def test_a_line_without_end():
    longest = b"x" * MAX_TEXT_BYTES
    for end in (b"", b"\n", b"\r\n"):
        assert [len(text) for text in texts_of(io.BytesIO(longest + end), "f")] == [len(longest)]
    for more in (b"x", b"x\n", b"x\r\n", b"\r\r\n", b"\r\rabc\n"):
        assert message_of(DataError, next, texts_of(io.BytesIO(longest + more), "f")) == (
            "f, line 1: more than 1048576 bytes; write one review per line"
        )
