"""Classifying texts with a trained run: its token ids, one answer per line, one sentence for each mistake."""

import io
import json
import os
import pty
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import predict as script
import pytest
from records_for_tests import changed, diverged, place_of, record, resealed

from trainmark.datasets import prepared
from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays
from trainmark.datasets.tokens import Vocabulary
from trainmark.errors import DataError, DeviceError, RecordError
from trainmark.frameworks.adapter import Adapter
from trainmark.prediction import texts as texts_module
from trainmark.prediction.texts import MAX_TEXT_BYTES, Predictor, label_texts, texts_of
from trainmark.prediction.trained_run import find_run, open_texts
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.own import as_document, register
from trainmark.training.kept_weights import write_weights

RECIPE = RECIPES["imdb-cnn"]
ARCHITECTURE = RECIPE.architecture((400,), 2)
VOCABULARY = Vocabulary({"good": 1, "bad": 2, "rare": 5000}, 5000)
GOOD, BAD = 4, 5  # ids: rank + 3
TEXTS = ["bad", "good"]
CLASSES = ["negative", "positive"]
KEY = "0" * 8 + "-" + "0" * 8
DATASET = f"results/datasets/texts/{KEY}/prepared"
RUN = {"experiment": "e", "recipe": "imdb-cnn", "dataset": "texts"}


@pytest.fixture
def results(tmp_path):
    """A function that writes a record, with weights and dataset in their places, and returns the record's file."""

    def write(vocabulary=VOCABULARY, changes=None, made=record, **run):
        folder = tmp_path / DATASET
        ids = np.stack([VOCABULARY.encode(text, 400) for text in TEXTS])
        splits = dict.fromkeys(SPLITS, (ids, np.array([0, 1])))
        entry = {"title": "Texts", "format": "reviews", "classes": 2, "sequence_length": 400}
        arrays = Arrays(splits, CLASSES, "tokens", vocabulary)
        manifest = prepare(folder, "texts", entry, arrays, [], 1)
        of_dataset = {"dataset.name": "texts", "dataset.content_sha256": manifest["content_sha256"]}
        found = made(**RUN | run, changes=of_dataset)
        file = tmp_path / "results" / place_of(found)
        file.parent.mkdir(parents=True)
        if found["status"] == "ok":
            weights = draw_initial_weights(ARCHITECTURE, RECIPE.initializer, (1, 1))
            found["weights"] = write_weights(file.with_name("weights.npz"), weights, {"classes": CLASSES})
        file.write_text(json.dumps(resealed(found | (changes or {}))))
        return file

    return write


def predictor_of(path, device="cpu"):
    return Predictor(find_run(path), device, 2)


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
    monkeypatch.setattr(texts_module, "create_adapter", lambda name, threads, loop="stock": made)
    return made


# --- what is answered ---------------------------------------------------------------------------------------------


def test_texts_get_the_ids_of_the_training(results, adapter, tmp_path):
    """The run is named by its record or by its folder. Of a long text, the last 400 ids are used."""
    file, prepared_folder = results(), tmp_path / DATASET
    assert find_run(file) == find_run(file.parent, prepared_folder)
    predictor = predictor_of(file)
    found = predictor.probabilities(TEXTS)
    stored, _ = prepared.read_split(prepared_folder, "train")
    np.testing.assert_array_equal(adapter.ids, stored)
    e = np.e / (1 + np.e)
    np.testing.assert_allclose(found, [[e, 1 - e], [1 - e, e]], rtol=1e-12)
    assert adapter.built["dtype"] == "float32" and adapter.built["device"] == "cpu"
    assert adapter.built["weights"].keys() == {parameter.name for parameter in ARCHITECTURE.arrays()}
    predictor.probabilities(["good " + "bad " * 400])
    assert adapter.ids.tolist() == [[BAD] * 400]


def test_the_dataset_is_the_one_that_the_plan_names(results, tmp_path):
    file = results()
    shutil.copytree(tmp_path / DATASET, tmp_path / "results" / "datasets" / "texts" / "other" / "prepared")
    plan = {"datasets": {"texts": {"folder": "datasets/texts/other"}}}
    (tmp_path / "results" / "plan.json").write_text(json.dumps(plan))
    assert "other" in str(find_run(file).dataset_folder)


def test_an_own_recipe_is_that_of_the_plan(results, tmp_path):
    recipe = replace(RECIPE, name="own")
    file = results(recipe="own")
    plan = {"recipes": [as_document(recipe, [((400,), 2)])]}
    (tmp_path / "results" / "plan.json").write_text(json.dumps(plan))
    assert find_run(file).recipe.architecture((400,), 2) == ARCHITECTURE
    register(())


def test_a_framework_that_falls_back_to_the_cpu_is_refused(results, adapter):
    with pytest.raises(DeviceError, match="counting was asked for the device gpu but put its arrays on"):
        predictor_of(results(), "gpu")


def test_each_line_of_a_file_gets_a_line_in_blocks_and_in_order(results, adapter, tmp_path):
    (tmp_path / "reviews.txt").write_text("bad\n\ngood, good\n")
    out, predictor = io.StringIO(), predictor_of(results())
    predictor.batch_size = 2
    with open_texts(tmp_path / "reviews.txt") as lines:
        label_texts(predictor, lines, out)
    assert out.getvalue() == "negative\t0.7311\nnegative\t0.5000\npositive\t0.8808\n"
    assert adapter.blocks == [2, 1]


def test_a_line_typed_at_a_terminal_is_answered_at_once(results, adapter, monkeypatch):
    keyboard, terminal = pty.openpty()
    os.write(keyboard, b"bad\ngood\n\x04")
    seen, out = [], io.StringIO()
    out.flush = lambda: seen.append(out.getvalue().splitlines()[-1])
    with open(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with open_texts(Path("-")) as lines:
            label_texts(predictor_of(results()), lines, out)
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
        (b"x" * MAX_TEXT_BYTES + b"\r\n", ["x" * MAX_TEXT_BYTES]),
    ],
    ids=["empty", "no end", "Windows", "byte order mark", "other separators", "longest"],
)
def test_one_text_per_line(content, texts):
    assert list(texts_of(io.BytesIO(content), "f")) == texts


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"d\xe9j\xe0 vu\n", "f, line 1: not UTF-8 text"), (b"x" * MAX_TEXT_BYTES + b"x\n", "f, line 1: more than")],
    ids=["not UTF-8", "too long"],
)
def test_a_line_that_can_not_be_read(content, says):
    with pytest.raises(DataError, match=says):
        list(texts_of(io.BytesIO(content), "f"))


def damage_weights(file):
    with open(file.with_name("weights.npz"), "ab") as stream:
        stream.write(b"x")


def name_another_dataset(file):
    file.write_text(json.dumps(changed(json.loads(file.read_text()), {"dataset.content_sha256": "0" * 64})))


def remove_dataset(file):
    shutil.rmtree(next(folder for folder in file.parents if folder.name == "results") / "datasets")


REFUSED = {
    "a recipe for images": ({"recipe": "mnist-mlp-flux"}, None, RecordError, "mnist-mlp-flux, which labels no texts"),
    "an unknown framework": ({"framework": "numpy"}, None, RecordError, "numpy, which has no adapter here"),
    "a diverged run": ({"made": diverged}, None, RecordError, "the status of the run is diverged"),
    "weights that were not kept": ({"changes": {"weights": None}}, None, RecordError, "keep_weights was false"),
    "weights that were removed": (
        {}, lambda file: file.with_name("weights.npz").unlink(), RecordError,
        "weights.npz, the trained weights of the run, is missing",
    ),
    "damaged weights": ({}, damage_weights, RecordError, "weights.npz is damaged or of another run"),
    "another dataset": ({}, name_another_dataset, DataError, "holds another dataset, or another version of texts"),
    "texts that were encoded elsewhere": ({"vocabulary": None}, None, DataError, "has no vocabulary"),
    "a dataset that is gone": ({}, remove_dataset, DataError, "with --dataset-folder"),
}  # fmt: skip
"""Options of the run, what is done to it, the error, and what it says."""


@pytest.mark.parametrize("why", REFUSED)
def test_a_run_that_can_not_label_texts_is_refused(results, why):
    options, spoil, error, says = REFUSED[why]
    file = results(**options)
    if spoil:
        spoil(file)
    with pytest.raises(error) as caught:
        predictor_of(file)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "texts", "error", "message"),
    [
        ({"weights": None}, "reviews.txt", RecordError, "has no trained weights"),
        ({}, "missing.txt", DataError, "can't be read"),
        ({}, ".", DataError, "can't be read"),
        ({}, "reviews.txt", InterruptedError, "waits"),
    ],
    ids=["no weights", "no texts", "a folder", "nothing"],
)
def test_what_is_missing_is_reported_before_waiting(results, tmp_path, monkeypatch, changes, texts, error, message):
    (tmp_path / "reviews.txt").write_text("good\n")
    monkeypatch.setattr(script, "hold_device", mock.Mock(side_effect=InterruptedError("it waits")))
    monkeypatch.setattr(sys, "argv", ["predict.py", str(results(changes=changes)), str(tmp_path / texts)])
    with pytest.raises(error, match=message):
        script.main()


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input is closed; name a text file"):
        open_texts(Path("-")).__enter__()
