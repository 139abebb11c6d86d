"""Weights evaluated by another trainer, removed after that, and what a process that is killed meanwhile leaves."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from harness import settings
from records_for_tests import changed, record

from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays
from trainmark.errors import RecordError
from trainmark.plan.code_digests import training_code
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.outputs import cross_entropy_and_accuracy
from trainmark.records.evaluation import read_evaluation, read_evaluation_of_removed, write_evaluation
from trainmark.trainer import Trainer
from trainmark.training import cross_evaluation as module
from trainmark.training.cross_evaluation import cross_evaluation, remove_evaluated_weights
from trainmark.training.kept_weights import write_weights

RECIPE = RECIPES["mnist-mlp-flux"]
ARCHITECTURE = RECIPE.architecture((1, 8, 8), 10)
LABELS = np.arange(360) % 10
IMAGES = np.arange(360 * 64, dtype=np.uint32).astype(np.uint8).reshape(360, 1, 8, 8)
SETTINGS = settings(input={"subtract_mean": False})


def logits_of(weights, inputs):
    """The network in numpy."""
    hidden = inputs.reshape(len(inputs), -1) @ weights["dense1.kernel"] + weights["dense1.bias"]
    return np.maximum(hidden, 0) @ weights["dense2.kernel"] + weights["dense2.bias"]


class NumpyTrainer(SimpleNamespace):
    """The methods of an adapter that an evaluation calls. It notes whose weights it evaluated."""

    def __init__(self, framework="keras-jax"):
        super().__init__(framework=framework, threads=1, evaluated=0)

    def versions(self):
        return {"numpy": np.__version__}

    def build(self, *, weights, **_):
        self.set_weights(weights)

    def set_weights(self, weights):
        self.held = weights

    def check_device(self, device):
        assert device == "cpu"

    def load(self, *, split, inputs, labels):
        assert split == "test"
        self.inputs = inputs

    def predict(self, split):
        self.evaluated += 1
        return logits_of(self.held, self.inputs)


@pytest.fixture
def runs(tmp_path):
    """(record files of three runs whose weights lie beside them, the folder of their dataset)."""
    entry = {"title": "Digits", "format": "digits", "classes": 10, "image_shape": [1, 8, 8]}
    arrays = {"train": (IMAGES[:20], LABELS[:20]), "test": (IMAGES, LABELS)}
    prepare(tmp_path / "prepared", "digits", entry, Arrays(arrays, list("0123456789")), [], 1)
    files = []
    for repeat in (1, 2, 3):
        file = tmp_path / f"repeat-{repeat}" / "record.json"
        weights = draw_initial_weights(ARCHITECTURE, RECIPE.initializer, (1, repeat))
        inputs = (IMAGES / 255).astype(np.float32)
        loss, accuracy = cross_entropy_and_accuracy(logits_of(weights, inputs), LABELS)
        made = record("chainer", repeat, changes={"weights": write_weights(file.with_name("weights.npz"), weights, {})})
        results = {"result.test_loss": loss, "result.test_accuracy": accuracy}
        last = {"curves.1.evaluations.test": {"loss": loss, "accuracy": accuracy, "top5_accuracy": None}}
        file.write_text(json.dumps(changed(made, results | last)))
        files.append(file)
    return files, tmp_path / "prepared"


def evaluate(runs, trainer=None):
    files, dataset = runs
    adapter = trainer or NumpyTrainer()
    return cross_evaluation(adapter, Trainer(adapter.framework, "cpu"), RECIPE, SETTINGS, dataset, None, files)


def weights_left(runs):
    return [file.with_name("weights.npz").exists() for file in runs[0]]


def test_an_entry_says_who_evaluated_which_weights_and_what_came_out(runs):
    evaluation = evaluate(runs)
    assert (evaluation["trainer"], len(evaluation["runs"])) == ("keras-jax-cpu", 3)
    for file in runs[0]:
        written = json.loads(file.read_text())
        entry = evaluation["runs"][written["run"]["id"]]
        assert entry["weights_sha256"] == written["weights"]["sha256"]
        assert entry["loss"] == pytest.approx(written["result"]["test_loss"], rel=1e-6)
        assert entry["accuracy"] == written["result"]["test_accuracy"]
        assert (entry["trainer"], entry["current_code"]) == ("keras-jax-cpu", True)
        assert entry["code_sha256"] == training_code(RECIPE, Trainer("keras-jax", "cpu"))["sha256"]
    file.write_text(json.dumps(changed(written, {"weights": None})))
    assert len(evaluate(runs)["runs"]) == 2, "runs without weights have no entry"


def test_after_the_removal_the_next_evaluation_says_the_same_without_computing(runs):
    """Also that of another trainer in the ring, as where a framework is added to an experiment."""
    evaluation = evaluate(runs)
    for _ in range(2):
        remove_evaluated_weights(evaluation, runs[0])
        assert weights_left(runs) == [False] * 3
        trainer = NumpyTrainer("chainer")
        assert evaluate(runs, trainer) == evaluation | {"trainer": "chainer-cpu"}
        assert trainer.evaluated == 0


@pytest.mark.parametrize("change", [{"code_sha256": "0" * 16}, {"trainer": "no-longer-here-cpu"}])
def test_an_entry_by_other_code_stays_and_says_so(runs, change):
    evaluation = evaluate(runs)
    evaluation["runs"] = {run_id: entry | change for run_id, entry in evaluation["runs"].items()}
    remove_evaluated_weights(evaluation, runs[0])
    again = evaluate(runs)["runs"]
    assert {entry["current_code"] for entry in again.values()} == {False}
    assert again == {run_id: entry | {"current_code": False} for run_id, entry in evaluation["runs"].items()}


def test_weights_that_give_other_results_than_the_record_stay(runs):
    evaluation = evaluate(runs)
    first, second, _ = evaluation["runs"]
    evaluation["runs"][first]["loss"] += 0.1
    evaluation["runs"][second]["loss"] = "NaN"
    remove_evaluated_weights(evaluation, runs[0])
    assert weights_left(runs) == [True, True, False]
    assert not runs[0][0].with_name("evaluation.json").exists()


@pytest.mark.parametrize("changes", [{}, {"weights_sha256": "0" * 64}])
def test_weights_that_are_missing_otherwise_are_an_error(runs, changes):
    file = runs[0][0]
    if changes:
        run_id, entry = next(iter(evaluate(runs)["runs"].items()))
        left = {"trainer": "keras-jax-cpu", "runs": {run_id: entry | changes}}
        write_evaluation(left, file.with_name("evaluation.json"))
    file.with_name("weights.npz").unlink()
    with pytest.raises(RecordError, match=r"weights\.npz, the trained weights of the run, is missing; delete "):
        evaluate(runs)


class Killed(BaseException):
    """In place of a signal that ends the process."""


@pytest.mark.parametrize(("place", "done"), [*((place, False) for place in range(9)), (3, True), (8, True)])
def test_a_removal_that_is_killed_anywhere_loses_nothing(runs, monkeypatch, place, done):
    """Each run's removal has three steps: the entry is written, its folder is on the disk, the weights go."""
    evaluation = evaluate(runs)
    calls = iter(range(9))

    def killing(inner):
        def wrapped(*arguments, **named):
            at_place = next(calls) == place
            if at_place and not done:
                raise Killed
            inner(*arguments, **named)
            if at_place:
                raise Killed

        return wrapped

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_evaluation", killing(module.write_evaluation))
        patched.setattr(module, "sync", killing(module.sync))
        patched.setattr(type(runs[0][0]), "unlink", killing(type(runs[0][0]).unlink))
        with pytest.raises(Killed):
            remove_evaluated_weights(evaluation, runs[0])
    for file, left in zip(runs[0], weights_left(runs), strict=True):
        assert left or read_evaluation_of_removed(file, json.loads(file.read_text()))
    assert evaluate(runs) == evaluation
    remove_evaluated_weights(evaluation, runs[0])
    assert weights_left(runs) == [False] * 3
    for file in runs[0]:
        (run_id,) = read_evaluation(file.with_name("evaluation.json"))["runs"]
        assert run_id == json.loads(file.read_text())["run"]["id"]
