"""What a job's results depend on: its own modules, and of its recipe what decides a run."""

import json
from dataclasses import replace

import pytest

from trainmark.datasets.catalogue import known_formats
from trainmark.networks.zoo import mlp
from trainmark.plan import code_digests
from trainmark.plan.dependencies import (
    code_record,
    preparing_code,
    report_code,
    training_code,
)
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import recipe_values
from trainmark.trainer import Trainer

RECIPE = RECIPES["mnist-mlp-keras"]


ZOO, RUN, COMPARE = "trainmark.networks.zoo.mlp", "trainmark.training.run", "trainmark.parity.compare"
ADAPTER = "trainmark.frameworks.chainer_adapter"
KERAS = "trainmark.frameworks.keras_adapter"
OF_TRACES = {"trainmark.parity.certified_steps", "trainmark.parity.trace"}


@pytest.mark.parametrize(
    ("starts", "among", "not_among"),
    [
        (training_code(RECIPE, Trainer("chainer", "cpu")), {"train", ADAPTER, RUN, ZOO}, {KERAS, COMPARE, *OF_TRACES}),
        (
            training_code(RECIPE, Trainer("keras-torch", "cpu")),
            {"train", KERAS, RUN, ZOO},
            {ADAPTER, COMPARE, *OF_TRACES},
        ),
        (
            training_code(RECIPE, Trainer("chainer", "cpu"), "trace_training"),
            {"trace_training", ADAPTER, ZOO, *OF_TRACES},
            {"train", RUN, KERAS, COMPARE},
        ),
        (
            training_code(RECIPE, Trainer("chainer", "cpu", "tuned"), "time_tuning"),
            {"time_tuning", "trainmark.training.tuning", "trainmark.frameworks.chainer_tuned", ADAPTER, ZOO},
            {"train", RUN, KERAS},
        ),
        (("certify",), {COMPARE, "trainmark/parity/certificate.schema.json"}, {RUN}),
        (
            report_code([RECIPE, RECIPES["imagenet-nin"], RECIPE]),
            {
                "report",
                "trainmark/report/models.html.j2",
                "trainmark/report/page.js",
                ZOO,
                "trainmark.networks.zoo.nin",
            },
            {"trainmark.networks.zoo.resnet"},
        ),
    ],
)
def test_a_job_depends_on_its_own_code(starts, among, not_among):
    modules = code_digests.digests(*starts)
    assert among <= modules.keys()
    assert not not_among & modules.keys()
    if starts[0] != "report":
        assert not [one for one in modules if one.startswith(("trainmark.datasets.formats", "trainmark.config."))]


@pytest.mark.parametrize("name", known_formats())
def test_a_prepared_dataset_depends_on_its_own_format(name):
    modules = code_digests.digests(*preparing_code(name))
    formats = {f"trainmark.datasets.formats.{one}" for one in known_formats()} & set(modules)
    assert {f"trainmark.datasets.formats.{name}", "trainmark.datasets.prepare"} <= set(modules)
    assert not [module for module in modules if module.startswith("trainmark.frameworks")]
    assert len(formats) <= 2, "a format may be built on one other"


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": mlp.mlp_32},
        {"initializer": "lecun_normal"},
        {"optimizer": replace(RECIPE.optimizer, learning_rate=0.5)},
        {"batch_size": 1},
        {"input": replace(RECIPE.input, subtract_mean=True)},
        {"evaluated_splits": ("train", "test")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_a_run_is_in_the_values(change):
    assert json.dumps(recipe_values(replace(RECIPE, **change))) != json.dumps(recipe_values(RECIPE))


def test_a_recipe_on_token_ids_has_no_input_transform():
    assert json.loads(json.dumps(recipe_values(RECIPES["imdb-cnn"])))["input"] is None


@pytest.mark.parametrize("change", [{"source": "x"}, {"published_parameters": 1}, {"published_classes": 2}])
def test_what_decides_nothing_is_not(change):
    assert recipe_values(replace(RECIPE, **change)) == recipe_values(RECIPE)


def test_the_record_of_the_code_has_each_module():
    code = code_record(training_code(RECIPE, Trainer("chainer", "cpu")))
    assert code["sha256"] == code_digests.digest(*training_code(RECIPE, Trainer("chainer", "cpu")))
    assert code["modules"][RUN] == code_digests.digests(RUN)[RUN]
