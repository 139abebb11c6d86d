"""What a job's results depend on: its own modules, and of its recipe what decides a run."""

import json
from dataclasses import replace

import pytest

from trainmark.datasets.catalogue import known_formats
from trainmark.frameworks.registry import known_frameworks
from trainmark.networks.zoo import mlp
from trainmark.plan import code_digests
from trainmark.plan.dependencies import (
    code_record,
    preparing_code,
    recipe_values,
    report_code,
    timing_code,
    tracing_code,
    training_code,
)
from trainmark.recipes.catalogue import RECIPES

RECIPE = RECIPES["mnist-mlp-keras"]


@pytest.mark.parametrize("framework", known_frameworks())
def test_a_run_depends_on_its_own_adapter_and_network(framework):
    modules = code_digests.digests(*training_code(RECIPE, framework))
    adapters = {module for module in modules if module.endswith("_adapter")}
    assert adapters == {f"trainmark.frameworks.{known_frameworks()[framework].module}"}
    assert {"train", "trainmark.training.run", "trainmark.networks.zoo.mlp", "trainmark.training.phases"} <= set(
        modules
    )
    assert not [module for module in modules if module.startswith(("trainmark.datasets.formats", "trainmark.config."))]


def test_a_trace_depends_on_the_certified_steps_and_not_on_the_training():
    modules = set(code_digests.digests(*tracing_code(RECIPE, "chainer")))
    assert {
        "trace_training",
        "trainmark.parity.certified_steps",
        "trainmark.parity.trace",
        "trainmark.networks.zoo.mlp",
    } <= modules
    assert "trainmark.frameworks.chainer_adapter" in modules
    assert (
        not {"train", "trainmark.training.run", "trainmark.frameworks.keras_adapter", "trainmark.parity.compare"}
        & modules
    )


def test_a_timed_tuning_depends_on_both_loops_and_not_on_the_training_of_runs():
    modules = set(code_digests.digests(*timing_code(RECIPE, "chainer")))
    adapters = {f"trainmark.frameworks.chainer_{part}" for part in ("adapter", "tuned")}
    assert {"time_tuning", "trainmark.training.tuning", "trainmark.networks.zoo.mlp", *adapters} <= modules
    assert not {"train", "trainmark.training.run", "trainmark.frameworks.keras_adapter"} & modules


def test_a_run_depends_on_nothing_that_certifies():
    modules = set(code_digests.digests(*training_code(RECIPE, "chainer")))
    assert (
        not {
            "trainmark.parity.certified_steps",
            "trainmark.parity.trace",
            "trainmark.parity.sketches",
            "trainmark.parity.compare",
        }
        & modules
    )


def test_a_certificate_depends_on_its_schema():
    assert {"trainmark.parity.compare", "trainmark/parity/certificate.schema.json"} <= set(
        code_digests.digests("certify")
    )


@pytest.mark.parametrize("name", known_formats())
def test_a_prepared_dataset_depends_on_its_own_format(name):
    modules = code_digests.digests(*preparing_code(name))
    others = {f"trainmark.datasets.formats.{other}" for other in known_formats()} - {
        f"trainmark.datasets.formats.{name}"
    }
    assert f"trainmark.datasets.formats.{name}" in modules
    assert "trainmark.datasets.prepare" in modules
    assert not [module for module in modules if module.startswith("trainmark.frameworks")]
    assert len(others & set(modules)) <= 1, "a format may be built on one other"


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


def test_a_report_depends_on_the_networks_that_it_draws():
    modules = code_digests.digests(*report_code([RECIPE, RECIPES["imagenet-nin"], RECIPE]))
    networks = {module for module in modules if module.startswith("trainmark.networks.zoo.")}
    assert networks == {"trainmark.networks.zoo.mlp", "trainmark.networks.zoo.nin"}
    assert {
        "report",
        "trainmark.report.networks",
        "trainmark/report/models.html.j2",
        "trainmark/report/page.js",
    } <= set(modules)


def test_the_record_of_the_code_has_each_module():
    code = code_record(training_code(RECIPE, "chainer"))
    assert code["sha256"] == code_digests.digest(*training_code(RECIPE, "chainer"))
    assert (
        code["modules"]["trainmark.training.run"]
        == code_digests.digests("trainmark.training.run")["trainmark.training.run"]
    )
