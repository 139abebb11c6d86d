"""The report's networks: operation counts compared with published ones, tables and texts."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from records_for_tests import record, written_tables

from trainmark.errors import DataError
from trainmark.files.seal import sealed
from trainmark.networks.graph import Architecture, chain
from trainmark.networks.layers import layers
from trainmark.networks.ops import OPS, Node
from trainmark.recipes.catalogue import RECIPES
from trainmark.report.networks import WORDS, format_flops, in_words, model, models
from trainmark.report.page import templates


def as_published(name):
    recipe = RECIPES[name]
    return recipe.architecture(recipe.input_shape, recipe.published_classes)


@pytest.fixture(scope="module", params=RECIPES)
def network(request):
    return as_published(request.param)


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
}
"""For each op: an input shape, attributes, and the expected number of operations."""


def only_layer(op):
    """A network of one layer with the smallest number of inputs that its op allows."""
    shape, attributes, _ = COUNTS[op]
    nodes = [Node(f"copy{i}", "ReLU", ("input",)) for i in range(OPS[op].inputs)]
    node = Node("layer", op, tuple(node.name for node in nodes), attributes)
    return layers(Architecture("net", shape, (*nodes, node)))[-1]


def test_every_op_is_tested_here_and_has_words():
    assert list(COUNTS) == list(WORDS) == list(OPS)


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


def test_layers_have_all_parameters_and_shapes(network):
    rows = layers(network)
    assert sum(row.parameters for row in rows) == network.parameter_count()
    assert {row.node.name: row.output_shape for row in rows} | {"input": network.input_shape} == network.shapes()
    assert [row.node for row in rows if not row.auxiliary] == list(network.inference_nodes())
    assert any(row.auxiliary for row in rows) == bool(network.auxiliary)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 FLOPs"), (999, "999 FLOPs"), (125_000, "125 kFLOPs"), (999_999, "1.00 MFLOPs"),
        (7_754_000_000, "7.75 GFLOPs"), (12_345_000_000_000, "12.3 TFLOPs"),
    ],
)  # fmt: skip
def test_operations_are_formatted_to_three_digits(count, text):
    assert format_flops(count) == text


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("Conv2D", {"filters": 64, "size": 7, "stride": 2, "padding": 3, "bias": 0},
         "convolution 7x7, 64 filters, stride 2, padding 3, no bias"),
        ("Conv2D", {"filters": 8, "size": 1}, "convolution 1x1, 8 filters"),
        ("Conv1D", {"filters": 250, "size": 3}, "convolution over 3 positions, 250 filters"),
        ("MaxPool2D", {"size": 3, "stride": 2}, "max pooling 3x3, stride 2, ceil mode"),
        ("MaxPool2D", {"size": 3, "ceil": 0}, "max pooling 3x3"),
        ("LRN", {}, "local response normalization over 5 channels, k 2, alpha 0.0001, beta 0.75"),
        ("Dropout", {"rate": 0.5}, "dropout, rate 0.5"),
    ],
)  # fmt: skip
def test_layers_in_words(op, attributes, words):
    node = Node("layer", op, ("input",), attributes)
    assert in_words(node) == words


# --- the page -----------------------------------------------------------------------------------------------------


def rows_of(page):
    """The rows of the report's tables, each as the texts of its cells."""
    return [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]


def written(*shown):
    """The report's section on these models."""
    return templates().get_template("models.html.j2").render(models=shown)


def described(recipe, input_shape, classes):
    """The recipe's network as the report describes it."""
    return model(recipe, recipe.architecture(input_shape, classes), classes, "model-1")


@pytest.mark.parametrize("name", ["imagenet-googlenet", "imdb-cnn"])
def test_page_has_each_layer_and_the_totals(name):
    recipe, network = RECIPES[name], as_published(name)
    text = written(described(recipe, recipe.input_shape, recipe.published_classes))
    page = ElementTree.fromstring(f"<page>{text}</page>")
    heading, *shown, total = rows_of(page)
    rows = layers(network)
    assert heading == ["layer", "op", "output shape", "parameters", "FLOPs"]
    assert [row[0] for row in shown] == [node.name for node in network.nodes]
    assert all(row[1].startswith(in_words(node)) for row, node in zip(shown, network.nodes, strict=True))
    assert [row[0] for row in shown if "(auxiliary head" in row[1]] == [row.node.name for row in rows if row.auxiliary]
    assert [row[2] for row in shown] == [" x ".join(map(str, row.output_shape)) for row in rows]
    parameters, flops = ([int(row[place].replace(",", "")) for row in shown] for place in (3, 4))
    assert total == ["total", f"{sum(parameters):,}", f"{sum(flops):,}"]
    assert sum(parameters) == network.parameter_count()
    evaluated = format_flops(sum(row.flops for row in rows if not row.auxiliary))
    heads = f" ({format_flops(sum(flops))} with its auxiliary heads)" if network.auxiliary else ""
    assert f"{evaluated} per sample in the forward pass{heads}." in text
    assert f"{recipe.published_parameters:,} parameters at {recipe.published_classes:,} classes, as published (" in text
    assert 'class="warning"' not in text
    assert f'<details id="model-1"><summary>{name}: ' in text


def test_the_last_layer_of_an_auxiliary_head_names_its_weight():
    recipe = RECIPES["imagenet-googlenet"]
    rows = described(recipe, recipe.input_shape, recipe.published_classes).rows
    weights = {row[0]: row[1].rpartition(", ")[2] for row in rows if "loss x" in row[1]}
    assert weights == {"head1_fc2": "loss x 0.3)", "head2_fc2": "loss x 0.3)"}


def test_a_count_that_is_not_the_published_one_is_a_warning():
    recipe = replace(RECIPES["mnist-mlp-flux"], published_parameters=25_451)
    text = written(described(recipe, recipe.input_shape, 10))
    sentence = "25,450 parameters at 10 classes, but 25,451 are published (FluxML model-zoo vision/mnist/mlp.jl)."
    assert f'<p class="warning">{sentence}</p>' in text
    assert "as published" not in text


def test_counts_are_those_of_the_network_that_is_trained_here():
    text = written(described(RECIPES["imagenet-resnet50"], (3, 64, 64), 16))
    trained = RECIPES["imagenet-resnet50"].architecture((3, 64, 64), 16).parameter_count()
    assert trained < 25_557_096
    assert f"As trained here: {trained:,} parameters and " in text
    assert "25,557,096 parameters at 1,000 classes, as published (" in text
    assert "input 3 x 64 x 64, 16 classes" in text


def test_the_table_names_the_inputs_of_a_layer_unless_it_is_the_previous_row():
    rows = {row[0]: row[1] for row in described(RECIPES["imagenet-resnet50"], (3, 224, 224), 10).rows}
    assert rows["res2a_add"] == "sum, from res2a_conv3_bn, res2a_conv4_bn"
    assert rows["res2a_conv4"] == "convolution 1x1, 256 filters, no bias, from pool1"
    assert rows["res2a_relu1"] == "ReLU"


# --- which models -------------------------------------------------------------------------------------------------


def test_a_network_is_shown_once_and_another_crop_makes_another_network(tmp_path):
    manifests = {"digits": ("images", [1, 28, 28], 10), "photos": ("image_lists", [3, 256, 256], 16)}
    for name, (kind, shape, classes) in (manifests | {"imdb": ("tokens", [400], 2)}).items():
        prepared = tmp_path / "datasets" / name / "prepared"
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
    found = models(written_tables(tmp_path / "runs", *records)[1], tmp_path)
    assert [found[group].anchor for group in trained] == [f"model-{number}" for number in (1, 1, 2, 3, 4)]
    assert list(dict.fromkeys(found[group].title for group in trained)) == [
        "imagenet-nin: nin, input 3 x 227 x 227, 16 classes",
        "imagenet-nin: nin, input 3 x 224 x 240, 16 classes",
        "mnist-mlp-flux: mlp-32, input 1 x 28 x 28, 10 classes",
        "imdb-cnn: imdb-cnn, input 400 token ids, 2 classes",
    ]


def test_a_dataset_without_a_manifest_is_one_error_line(tmp_path):
    _, runs = written_tables(tmp_path / "runs", record())
    with pytest.raises(DataError, match="holds no prepared dataset"):
        models(runs, tmp_path)
