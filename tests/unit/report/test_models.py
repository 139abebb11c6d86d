"""The report's networks: operation counts compared with published ones, and the table of layers."""

import json
from xml.etree import ElementTree

import pytest
from records_for_tests import record, written_tables

from trainmark.errors import DataError
from trainmark.files.seal import sealed
from trainmark.networks.graph import Architecture, chain
from trainmark.networks.layers import layers
from trainmark.networks.ops import OPS, Node
from trainmark.recipes.catalogue import RECIPES
from trainmark.report.networks import Model, models
from trainmark.report.page import templates


def as_published(name):
    recipe = RECIPES[name]
    return recipe.architecture(recipe.input_shape, recipe.published_classes)


# --- floating-point operations ------------------------------------------------------------------------------------

COUNTS = {
    "Flatten": ((2, 3, 4), {}, 0),
    "Dense": ((5,), {"units": 3}, 2 * 5 * 3 + 3),
    "Conv2D": ((2, 4, 4), {"filters": 3, "size": 3, "padding": 1}, 2 * (3 * 3 * 2) * (3 * 4 * 4) + 3 * 4 * 4),
    "Conv1D": ((2, 6), {"filters": 3, "size": 3}, 2 * (3 * 2) * (3 * 4) + 3 * 4),
    "Embedding": ((6,), {"vocabulary": 10, "units": 4}, 0),
    "BatchNorm": ((2, 3, 4), {}, 2 * 24),
    "LRN": ((2, 3, 4), {"n": 5}, 9 * 24),
    "ReLU": ((2, 3, 4), {}, 24),
    "Dropout": ((2, 3, 4), {"rate": 0.5}, 0),
    "MaxPool2D": ((2, 4, 4), {"size": 3, "stride": 2}, 9 * 2 * 2 * 2),
    "AvgPool2D": ((2, 4, 4), {"size": 2, "stride": 2}, 4 * 2 * 2 * 2),
    "GlobalMaxPool1D": ((3, 6), {}, 18),
    "Concat": ((2, 3, 4), {}, 0),
    "Add": ((2, 3, 4), {}, 24),
    "BinaryLogits": ((1,), {}, 0),
    "LayerNorm": ((2, 12), {}, 7 * 24),
    "GroupNorm": ((2, 3, 4), {"groups": 2}, 7 * 24),
    "LayerScale": ((2, 3, 4), {}, 24),
    "ReLU6": ((2, 3, 4), {}, 2 * 24),
    "GELU": ((2, 3, 4), {}, 5 * 24),
    "SiLU": ((2, 3, 4), {}, 4 * 24),
    "Sigmoid": ((2, 3, 4), {}, 3 * 24),
    "Tanh": ((2, 3, 4), {}, 24),
    "Softmax": ((2, 3, 4), {}, 3 * 24),
    "GlobalAvgPool2D": ((3, 2, 3), {}, 18),
    "GlobalAvgPool1D": ((3, 6), {}, 18),
    "Sequence": ((2, 3, 4), {}, 0),
    "ClassToken": ((2, 12), {}, 0),
    "PositionEmbedding": ((2, 12), {}, 24),
    "SelectToken": ((2, 12), {}, 0),
    "SliceChannels": ((4, 6), {"stop": 2}, 0),
    "Attention": ((4, 6), {"heads": 2}, 2 * 2 * (6 * 6 * 4) + 2 * 4 * (6 * 6)),
    "Multiply": ((2, 3, 4), {}, 24),
}
"""For each op: an input shape, attributes, and the expected number of operations."""


def only_layer(op):
    """A network of one layer with the smallest number of inputs that its op allows."""
    shape, attributes, _ = COUNTS[op]
    nodes = [Node(f"copy{i}", "ReLU", ("input",)) for i in range(OPS[op].inputs)]
    node = Node("layer", op, tuple(node.name for node in nodes), attributes)
    return layers(Architecture("net", shape, (*nodes, node)))[-1]


def test_every_op_is_tested_here():
    assert {*COUNTS} == {*OPS}


@pytest.mark.parametrize("op", COUNTS)
def test_operations_of_each_op(op):
    assert only_layer(op).flops == COUNTS[op][2]


def test_a_layer_without_bias_adds_none():
    (dense,) = layers(chain("net", (5,), [("dense", "Dense", {"units": 3, "bias": 0})]))
    assert dense.flops == 30


@pytest.mark.parametrize(("recipe", "published"), [("imagenet-resnet50", 3.8e9), ("imagenet-googlenet", 1.5e9)])
def test_multiply_adds_are_those_of_the_papers(recipe, published):
    """He et al. 2015, table 1; Szegedy et al. 2015, section 1. They round, and count slightly different operations."""
    kernels = [row for row in layers(as_published(recipe)) if row.node.op in ("Conv2D", "Dense") and not row.auxiliary]
    assert sum(row.flops for row in kernels) / 2 == pytest.approx(published, rel=0.06)


# --- the page -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["imagenet-googlenet", "imdb-cnn"])
def test_the_page_has_each_layer_and_the_totals(name):
    """They are those of the network that is trained here; beside them stands the published count."""
    recipe = RECIPES[name]
    shape = (3, 224, 224) if recipe.input else recipe.input_shape
    network = recipe.architecture(shape, 16)
    text = templates().get_template("models.html.j2").render(models=[Model("model-1", recipe, network, 16)])
    page = ElementTree.fromstring(f"<page>{text}</page>")
    heading, *shown, total = ([" ".join("".join(cell.itertext()).split()) for cell in row] for row in page.iter("tr"))
    assert heading == ["layer", "type", "attributes", "inputs", "output shape", "parameters", "FLOPs"]
    for row, node in zip(shown, network.nodes, strict=True):
        attributes = ", ".join(f"{key} {value:g}" for key, value in node.attributes.items()) or "none"
        inputs, output = ", ".join(node.inputs), " x ".join(map(str, network.shapes()[node.name]))
        assert (row[0], row[1].partition(" (")[0], *row[2:5]) == (node.name, node.op, attributes, inputs, output)
    parameters, flops = ([int(row[place].replace(",", "")) for row in shown] for place in (5, 6))
    assert total == ["total", f"{sum(parameters):,}", f"{sum(flops):,}"]
    assert sum(parameters) == network.parameter_count()
    heads = [row for row in shown if row[1].endswith(" (auxiliary head)")]
    assert bool(heads) == bool(network.auxiliary)
    evaluated = sum(flops) - sum(int(row[6].replace(",", "")) for row in heads)
    assert f"{network.parameter_count():,} parameters and {evaluated:,} FLOPs" in text
    assert f"{recipe.published_parameters:,} parameters at {recipe.published_classes:,} classes." in text
    assert text.count("counts 0.3 times") == len(network.auxiliary)


# --- which models -------------------------------------------------------------------------------------------------


PLAN = {"datasets": {name: {"folder": name} for name in ("digits", "photos", "imdb")}}


def test_a_network_is_shown_once_and_another_crop_makes_another_network(tmp_path):
    manifests = {"digits": ("images", [1, 28, 28], 10), "photos": ("image_lists", [3, 256, 256], 16)}
    for name, (kind, shape, classes) in (manifests | {"imdb": ("tokens", [400], 2)}).items():
        prepared = tmp_path / name / "prepared"
        prepared.mkdir(parents=True)
        manifest = sealed({"kind": kind, "sample_shape": shape, "classes": classes})
        (prepared / "manifest.json").write_text(json.dumps(manifest))
    trained = {
        ("e", "imagenet-nin", "photos"): {"settings.input.crop": [227, 227]},
        ("f", "imagenet-nin", "photos"): {"settings.input.crop": [227, 227]},
        ("g", "imagenet-nin", "photos"): {"settings.input.crop": [224, 240]},
        ("e", "mnist-mlp-flux", "digits"): {},
        ("e", "imdb-cnn", "imdb"): {},
    }
    records = [
        record(experiment=experiment, recipe=recipe, dataset=dataset, changes=changes)
        for (experiment, recipe, dataset), changes in trained.items()
    ]
    found = models(written_tables(tmp_path, *records)[1], tmp_path, PLAN)
    assert [found[group].anchor for group in trained] == [f"model-{number}" for number in (1, 1, 2, 3, 4)]
    crops = [found[group].architecture.input_shape for group in trained]
    assert crops == [(3, 227, 227), (3, 227, 227), (3, 224, 240), (1, 28, 28), (400,)]


def test_a_dataset_without_a_manifest_is_one_error_line(tmp_path):
    _, runs = written_tables(tmp_path, record())
    with pytest.raises(DataError, match="holds no prepared dataset"):
        models(runs, tmp_path, PLAN)
