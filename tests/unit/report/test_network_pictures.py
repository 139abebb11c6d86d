"""The report's networks: operation counts compared with published ones, pictures of whole graphs, tables and texts."""

import json
import re
from dataclasses import replace
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from records_for_tests import record, written_tables

from trainmark.errors import DataError
from trainmark.files.seal import sealed
from trainmark.networks.graph import Architecture, Graph, chain
from trainmark.networks.layers import layers
from trainmark.networks.ops import OPS, Node
from trainmark.recipes.catalogue import RECIPES
from trainmark.report.network_picture.boxes import WORDS, boxes, in_short, in_words
from trainmark.report.network_picture.layout import CHARACTER, LINE_HEIGHT, PAGE_WIDTH
from trainmark.report.network_picture.picture import Rectangle, picture
from trainmark.report.networks import format_flops, model, models
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
    ("op", "attributes", "short", "words"),
    [
        ("Conv2D", {"filters": 64, "size": 7, "stride": 2, "padding": 3, "bias": 0}, "7x7/2, 64",
         "convolution 7x7, 64 filters, stride 2, padding 3, no bias"),
        ("Conv2D", {"filters": 8, "size": 1}, "1x1, 8", "convolution 1x1, 8 filters"),
        ("Conv1D", {"filters": 250, "size": 3}, "window 3, 250", "convolution over 3 positions, 250 filters"),
        ("MaxPool2D", {"size": 3, "stride": 2}, "max 3x3/2", "max pooling 3x3, stride 2, ceil mode"),
        ("MaxPool2D", {"size": 3, "ceil": 0}, "max 3x3", "max pooling 3x3"),
        ("LRN", {}, "lrn", "local response normalization over 5 channels, k 2, alpha 0.0001, beta 0.75"),
        ("Dropout", {"rate": 0.5}, "dropout 0.5", "dropout, rate 0.5"),
    ],
)  # fmt: skip
def test_layers_in_words(op, attributes, short, words):
    node = Node("layer", op, ("input",), attributes)
    assert (in_short(node), in_words(node)) == (short, words)


# --- boxes --------------------------------------------------------------------------------------------------------


def test_every_layer_is_in_one_box_that_names_it_and_every_edge_in_one_or_a_line(network):
    drawn = boxes(network)
    assert sorted(node.name for box in drawn for node in box.nodes) == sorted(node.name for node in network.nodes)
    for box in drawn:
        assert all(in_short(node) in " · ".join(box.lines) for node in box.nodes)
        assert all(f"{node.name}: {in_words(node)}, output " in box.tip for node in box.nodes)
    box_of = {"input": "input"} | {node.name: box.name for box in drawn for node in box.nodes}
    inside = {pair for box in drawn for pair in pairwise(node.name for node in box.nodes)}
    inside |= {("input", box.nodes[0].name) for box in drawn if box.name == "input" and box.nodes}
    between = {(source, node.name) for node in network.nodes for source in node.inputs} - inside
    lines = [(line.source, line.target) for line in picture(drawn).lines]
    assert len(lines) == len(set(lines))
    assert set(lines) == {(box_of[source], box_of[target]) for source, target in between}
    assert all(source != target for source, target in lines)


def test_a_box_holds_the_simple_layers_that_follow_a_layer():
    resnet = {box.name: box for box in boxes(as_published("imagenet-resnet50"))}
    assert resnet["conv1"].lines == ("conv1", "7x7/2, 64 · bn", "relu")
    assert resnet["res2a_add"].lines == ("add", "add · relu")
    assert resnet["res2a_add"].inputs == ("res2a_conv3", "res2a_conv4")
    assert (resnet["res2a_add"].kind, resnet["res2a_conv4"].kind, resnet["pool1"].kind) == ("join", "learned", "plain")
    blocks = [f"res{stage}{letter}" for stage, count in ((2, 3), (3, 4), (4, 6), (5, 3)) for letter in "abcdef"[:count]]
    assert list(dict.fromkeys(box.group for box in resnet.values() if box.group)) == blocks


def test_a_layer_that_feeds_two_layers_ends_its_box():
    graph = Graph((4,))
    graph.add("dense", "Dense", units=3)
    graph.add("left", "ReLU")
    graph.add("right", "ReLU", after="dense")
    graph.add("add", "Add", after=("left", "right"))
    assert [box.name for box in boxes(graph.architecture("net"))] == ["input", "dense", "left", "right", "add"]


def test_auxiliary_heads_are_marked_with_their_weight():
    drawn = {box.name: box for box in boxes(as_published("imagenet-googlenet"))}
    heads = {name for name, box in drawn.items() if box.auxiliary}
    assert heads == {f"head{i}_{part}" for i in (1, 2) for part in ("pool", "conv", "fc1", "fc2")}
    assert drawn["head1_fc2"].lines == ("fc2", "dense 1000", "loss x 0.3")
    assert not [name for name, box in drawn.items() if "loss" in " ".join(box.lines) and not name.endswith("_fc2")]


def test_equal_prefixes_of_boxes_far_apart_make_no_group():
    graph = Graph((4,))
    for name in ("a_1", "a_2", "b", "a_3", "a_4"):
        graph.add(name, "Dense", units=3)
    assert {box.group for box in boxes(graph.architecture("net"))} == {None}


# --- pictures -----------------------------------------------------------------------------------------------------


def overlapping(places):
    return [pair for pair in combinations(places, 2) if pair[0].overlaps(pair[1])]


@pytest.fixture(scope="module")
def drawn(network):
    return picture(boxes(network))


def test_boxes_and_frames_do_not_overlap_and_are_inside_the_picture(drawn):
    places, frames = [place for _, place in drawn.boxes], [frame.place for frame in drawn.frames]
    assert not overlapping(places) and not overlapping(frames)
    assert all(place.x >= 0 and place.y >= 0 for place in places + frames)
    assert all(place.right <= drawn.width and place.bottom <= drawn.height for place in places + frames)
    assert drawn.width <= PAGE_WIDTH


def test_text_fits_into_boxes(drawn):
    """In a monospaced font with characters at most CHARACTER wide, 2 pixels stay free on each side."""
    for box, place in drawn.boxes:
        assert max(map(len, box.lines)) * CHARACTER <= place.width - 4
        assert len(box.lines) * LINE_HEIGHT <= place.height


def test_a_frame_holds_only_its_group(drawn):
    assert {frame.group for frame in drawn.frames} == {box.group for box, _ in drawn.boxes} - {None}
    for frame in drawn.frames:
        inside = {box.name for box, place in drawn.boxes if frame.place.overlaps(place)}
        assert inside == {box.name for box, _ in drawn.boxes if box.group == frame.group}
        assert frame.auxiliary == all(box.auxiliary for box, _ in drawn.boxes if box.group == frame.group)
        assert len(frame.group) * CHARACTER <= frame.place.height


def points(path):
    """Points along a line, from the absolute SVG commands M, H, V and C."""
    x = y = 0.0
    for command, text in re.findall(r"([MHVC])([^MHVC]*)", path):
        numbers = [float(number) for number in text.split()]
        ends = {"M": numbers, "H": [*numbers, y], "V": [x, *numbers], "C": numbers}[command]
        if command == "C":
            curve = [(x, y), *zip(ends[::2], ends[1::2], strict=True)]
        else:
            curve = [(x, y) if command != "M" else tuple(ends)] * 2 + [tuple(ends)] * 2
        for step in range(41):
            weights = [(1 - step / 40) ** 3, 3 * (step / 40) * (1 - step / 40) ** 2]
            weights += [3 * (step / 40) ** 2 * (1 - step / 40), (step / 40) ** 3]
            yield tuple(sum(w * p[i] for w, p in zip(weights, curve, strict=True)) for i in (0, 1))
        x, y = ends[-2:]


def test_lines_lead_from_box_to_box_and_cross_none(drawn):
    places = {box.name: place for box, place in drawn.boxes}
    for line in drawn.lines:
        way = list(points(line.path))
        source, target = places[line.source], places[line.target]
        assert source.bottom < target.y or source.right < target.x, "below, or in a later column"
        assert way[0] == pytest.approx(((source.x + source.right) / 2, source.bottom), abs=0.2)
        assert way[-1] == pytest.approx(line.tip, abs=0.2)
        assert line.tip == pytest.approx(((target.x + target.right) / 2, target.y), abs=0.2)
        for x, y in way:
            dot = Rectangle(x - 0.1, y - 0.1, 0.2, 0.2)
            crossed = [name for name, place in places.items() if dot.overlaps(place)]
            assert set(crossed) <= {line.source, line.target}, f"{line.source} to {line.target} at {x}, {y}"
            assert 0 <= x <= drawn.width and 0 <= y <= drawn.height


def of_dense(*layers, size=4):
    """A picture of Dense layers, each given as (name, inputs); several inputs go through a Concat named join-<name>."""
    graph = Graph((size,))
    for name, *feeders in layers:
        after = feeders[0] if len(feeders) == 1 else graph.add(f"join-{name}", "Concat", after=tuple(feeders))
        graph.add(name, "Dense", after=after, units=size)
    return picture(boxes(graph.architecture("net")))


def is_folded(drawn):
    return any("H" in line.path for line in drawn.lines)


def test_a_group_around_another_box_has_no_frame():
    above = [(name, "input") for name in ("left", "middle", "right")]
    drawn = of_dense(*above, ("g_1", "left"), ("g_2", "right"), ("other", "middle"), ("end", "g_1", "other", "g_2"))
    assert {box.group for box, _ in drawn.boxes} == {None, "g"} and not drawn.frames


def test_boxes_are_placed_below_their_inputs_whatever_their_order():
    drawn = of_dense(("a", "input"), ("b", "input"), ("below-b", "b"), ("below-a", "a"), ("end", "below-a", "below-b"))
    x = {box.name: place.x for box, place in drawn.boxes}
    assert x["a"] < x["b"]
    assert (x["below-a"], x["below-b"]) == (x["a"], x["b"])


def test_lines_pass_below_higher_neighbours():
    """The box in the middle has more text than those beside it, and all three feed the one below it."""
    graph = Graph((4,))
    for name in ("left", "middle", "right"):
        graph.add(name, "Dense", after="input", units=4)
        for i in range(8 if name == "middle" else 0):
            graph.add(f"dropout{i}", "Dropout", rate=0.125)
    graph.add("join", "Concat", after=("left", "dropout7", "right"))
    drawn = picture(boxes(graph.architecture("net")))
    middle = next(place for box, place in drawn.boxes if box.name == "middle")
    for line in (line for line in drawn.lines if "middle" not in (line.source, line.target)):
        assert not [point for point in points(line.path) if Rectangle(*point, 0.1, 0.1).overlaps(middle)], line.source


def test_long_branches_side_by_side_are_not_cut():
    """Only at their ends does a single box feed everything that follows."""
    chains = [[f"{side}{i}" for i in range(40)] for side in "ab"]
    layers = [layer for names in chains for layer in pairwise(["input", *names])]
    assert not is_folded(of_dense(*[(name, before) for before, name in layers], ("end", "a39", "b39")))
    alone = [(name, before) for before, name in pairwise(["input", *chains[0]])]
    assert is_folded(of_dense(*alone))


def test_groups_are_not_cut():
    names = [f"{group}_{i}" for group in "abcd" for i in range(11)]
    drawn = of_dense(*[(name, before) for before, name in pairwise(["input", *names])])
    assert is_folded(drawn)
    assert [frame.group for frame in drawn.frames] == list("abcd")
    for box, place in drawn.boxes:
        assert [frame.group for frame in drawn.frames if frame.place.overlaps(place)] == [box.group][: bool(box.group)]


def test_only_high_networks_are_split_into_columns():
    folded = {name for name in RECIPES if is_folded(picture(boxes(as_published(name))))}
    assert folded == {f"imagenet-{name}" for name in ("nin", "googlenet", "googlenetbn", "resnet50")}


def test_a_network_that_is_wide_and_high_is_drawn_in_one_column():
    """Sixteen parallel branches, repeated: two columns do not fit side by side."""
    graph = Graph((4,))
    last = "input"
    for block in range(15):
        last = graph.add(f"dense{block}", "Dense", after=last, units=4)
        branches = tuple(graph.add(f"branch{block}.{i}", "Dense", after=last, units=4) for i in range(16))
        last = graph.add(f"join{block}", "Concat", after=branches)
    drawn = picture(boxes(graph.architecture("wide")))
    assert drawn.width > PAGE_WIDTH
    assert not is_folded(drawn)
    assert not overlapping([place for _, place in drawn.boxes])


# --- the page -----------------------------------------------------------------------------------------------------


def rows_of(page):
    """The rows of the report's tables, each as the texts of its cells."""
    return [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]


def attributes_of(page, name):
    return [element.get(name) for element in page.iter() if name in element.attrib]


def written(*shown):
    """The report's section on these models."""
    return templates().get_template("models.html.j2").render(models=shown, line_height=LINE_HEIGHT)


@pytest.mark.parametrize("name", ["imagenet-googlenet", "imdb-cnn"])
def test_page_has_each_layer_each_box_and_the_totals(name):
    recipe, network = RECIPES[name], as_published(name)
    text = written(model(recipe, recipe.input_shape, recipe.published_classes, "model-1"))
    page = ElementTree.fromstring(f"<page>{text}</page>")
    heading, *shown, total = rows_of(page)
    rows = layers(network)
    assert heading == ["layer", "op", "output shape", "parameters", "FLOPs"]
    assert [row[0] for row in shown] == [node.name for node in network.nodes]
    assert all(row[1].startswith(in_words(node)) for row, node in zip(shown, network.nodes, strict=True))
    assert [row[0] for row in shown if "(auxiliary head)" in row[1]] == [row.node.name for row in rows if row.auxiliary]
    assert [row[2] for row in shown] == [" x ".join(map(str, row.output_shape)) for row in rows]
    parameters, flops = ([int(row[place].replace(",", "")) for row in shown] for place in (3, 4))
    assert total == ["total", f"{sum(parameters):,}", f"{sum(flops):,}"]
    assert sum(parameters) == network.parameter_count()
    evaluated = format_flops(sum(row.flops for row in rows if not row.auxiliary))
    heads = f" ({format_flops(sum(flops))} with its auxiliary heads)" if network.auxiliary else ""
    assert f"{evaluated} per sample in the forward pass{heads}." in text
    assert f"{recipe.published_parameters:,} parameters at {recipe.published_classes:,} classes, as published (" in text
    assert 'class="warning"' not in text
    assert attributes_of(page, "data-box") == [box.name for box, _ in picture(boxes(network)).boxes]
    lines = picture(boxes(network)).lines
    assert attributes_of(page, "data-source") == [line.source for line in lines]
    assert attributes_of(page, "data-target") == [line.target for line in lines]
    assert attributes_of(page, "id") == ["model-1"]
    assert text.count(f"<title>Layers of {name}: ") == 1


def test_a_count_that_is_not_the_published_one_is_a_warning():
    recipe = replace(RECIPES["mnist-mlp-flux"], published_parameters=25_451)
    text = written(model(recipe, recipe.input_shape, 10, "model-1"))
    sentence = "25,450 parameters at 10 classes, but 25,451 are published (FluxML model-zoo vision/mnist/mlp.jl)."
    assert f'<p class="warning">{sentence}</p>' in text
    assert "as published" not in text


def test_counts_are_those_of_the_network_that_is_trained_here():
    text = written(model(RECIPES["imagenet-resnet50"], (3, 64, 64), 16, "model-1"))
    trained = RECIPES["imagenet-resnet50"].architecture((3, 64, 64), 16).parameter_count()
    assert trained < 25_557_096
    assert f"As trained here: {trained:,} parameters and " in text
    assert "25,557,096 parameters at 1,000 classes, as published (" in text
    assert "input 3 x 64 x 64, 16 classes" in text


def test_the_table_names_the_inputs_of_a_layer_unless_it_is_the_previous_row():
    rows = {row[0]: row[1] for row in model(RECIPES["imagenet-resnet50"], (3, 224, 224), 10, "a").rows}
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
        ("e", "imagenet-nin", "photos"): {"settings.experiment.input.crop": [227, 227]},
        ("f", "imagenet-nin", "photos"): {"settings.experiment.input.crop": [227, 227]},
        ("g", "imagenet-nin", "photos"): {"settings.experiment.input.crop": [224, 240]},
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
