"""The layer graph: shapes, parameters, published parameter counts, and the errors of a wrong graph."""

import re

import pytest

from trainmark.networks.graph import Architecture, Graph, chain, maximised, output_shape
from trainmark.networks.ops import Node, window_count
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import InputTransform, is_streamed, merged_input


@pytest.mark.parametrize("name", RECIPES)
def test_parameter_counts_are_the_published_ones(name):
    recipe = RECIPES[name]
    architecture = recipe.architecture(recipe.input_shape, recipe.published_classes)
    assert architecture.parameter_count() == recipe.published_parameters
    assert architecture.shapes()[architecture.output] == (recipe.published_classes,)


def of_side(recipe, side, classes=10):
    shape = (recipe.input_shape[0], side, side) if side else recipe.input_shape
    return recipe.architecture(shape, classes)


def outputs_of(architecture):
    """The shapes of the logits of all heads."""
    shapes = architecture.shapes()
    return {shapes[head] for head in (architecture.output, *dict(architecture.auxiliary))}


def test_the_graphs_are_those_of_the_originals():
    """Sizes of layers at the published input, worked out by hand from the originals' windows."""
    sizes = {
        "imagenet-alex": {"conv1": 55, "pool1": 27, "pool2": 13, "pool5": 6},
        "imagenet-nin": {"conv1a": 55, "pool1": 27, "pool2": 13, "pool3": 6, "pool4": 1},
        "imagenet-googlenet": {"conv1": 112, "pool1": 56, "pool2": 28, "pool3": 14, "head1_pool": 4, "pool4": 7},
        # padded poolings that cover all: 57 and 29 where GoogLeNet has 56 and 28
        "imagenet-googlenetbn": {"pool1": 57, "pool2": 29, "inception3c": 15, "head2_pool": 4, "inception4e": 8},
        "imagenet-resnet50": {"conv1": 112, "pool1": 56, "res3a_add": 28, "res4a_add": 14, "res5a_add": 7, "pool5": 1},
    }
    for name, expected in sizes.items():
        recipe = RECIPES[name]
        shapes = recipe.architecture(recipe.input_shape, 1000).shapes()
        assert {node: shapes[node][1:] for node in expected} == {node: (side, side) for node, side in expected.items()}


@pytest.mark.parametrize("name", [name for name in RECIPES if RECIPES[name].certified_side])
def test_certified_images_are_large_enough_for_every_layer(name):
    """Poolings choose from several values; a Flatten has several values per channel if it has at the published size."""
    recipe = RECIPES[name]
    small, published = (of_side(recipe, side) for side in (recipe.certified_side, recipe.input_shape[1]))
    shapes, published_shapes = small.shapes(), published.shapes()
    for node in small.nodes:
        before = node.inputs[0]
        if "Pool2D" in node.op:
            assert node.integer("size") > 1 and shapes[before][1] > 1, node.name
        if node.op == "Flatten" and published_shapes[before][1] > 1:
            assert shapes[before][1] > 1, node.name


@pytest.mark.parametrize("name", [name for name in RECIPES if RECIPES[name].certified_side])
def test_a_crop_of_any_size_from_the_certified_one_on_has_a_network(name):
    """Square crops of stored photographs: every head has one logit per class, and the published size its parameters."""
    recipe = RECIPES[name]
    for side in range(recipe.certified_side, 257):
        assert recipe.misfit((3, 256, 256), InputTransform(crop=(side, side))) is None, side
        assert outputs_of(of_side(recipe, side, 16)) == {(16,)}, side
    misfit = recipe.misfit((3, 256, 256), InputTransform(crop=(recipe.certified_side - 1, 256)))
    assert (
        f"{recipe.certified_side} or larger (channels x height x width), but gets 3 x {recipe.certified_side - 1} x 256"
        in misfit
    )


@pytest.mark.parametrize(
    ("name", "overrides", "kind", "streamed"),
    [
        ("mnist-mlp-keras", {}, "images", False),
        ("mnist-mlp-keras", {"random_flip": True}, "images", True),
        ("mnist-mlp-keras", {"random_crop": True}, "images", False),  # of whole images
        ("imagenet-nin", {}, "images", True),
        ("mnist-mlp-keras", {}, "image_lists", True),
        ("imdb-cnn", {}, "tokens", False),
    ],
)
def test_image_files_and_random_transforms_are_streamed(name, overrides, kind, streamed):
    assert is_streamed(merged_input(RECIPES[name].input, overrides), kind) == streamed


def windows_with_a_remainder(architecture):
    """Layers whose windows leave a remainder at the edge, which is left out or covered by one more window."""
    shapes = architecture.shapes()
    windows = [node for node in architecture.nodes if node.op in ("Conv2D", "MaxPool2D", "AvgPool2D")]
    sides = {
        node.name: shapes[node.inputs[0]][1] + 2 * node.integer("padding") - node.integer("size") for node in windows
    }
    return {node.name for node in windows if sides[node.name] > 0 and sides[node.name] % node.integer("stride")}


def test_windows_leave_a_remainder_in_certified_images_where_they_do_in_published_ones():
    differing = {}
    for name, recipe in RECIPES.items():
        if recipe.certified_side:
            sides = (recipe.certified_side, recipe.input_shape[1])
            small, published = (windows_with_a_remainder(of_side(recipe, side)) for side in sides)
            assert published or name != "imagenet-googlenet", "ceil mode has something to cover"
            differing |= {f"{name} {layer}": sides for layer in small ^ published}
    assert list(differing) == ["imagenet-googlenetbn pool5"], "docs/parity.md names it"


def test_auxiliary_heads_have_the_weight_three_tenths_and_are_omitted_in_evaluation():
    networks = {name: recipe.architecture(recipe.input_shape, 1000) for name, recipe in RECIPES.items()}
    weighted = (("head1_fc2", 0.3), ("head2_fc2", 0.3))
    assert {name: network.auxiliary for name, network in networks.items() if network.auxiliary} == {
        "imagenet-googlenet": weighted, "imagenet-googlenetbn": weighted,
    }  # fmt: skip
    nodes = {node.name for node in networks["imagenet-googlenet"].nodes}
    evaluated = {node.name for node in networks["imagenet-googlenet"].inference_nodes()}
    assert nodes - evaluated == {name for name in nodes if name.startswith("head")}


WRONG_GRAPHS = {
    "a layer twice": ([Node("a", "ReLU", ("input",)), Node("a", "ReLU", ("a",))], "net names layer 'a' twice"),
    "no inputs": ([Node("a", "ReLU", ())], "layer 'a' of net has no inputs; name a layer or \"input\""),
    "a later layer": (
        [Node("a", "ReLU", ("b",)), Node("b", "ReLU", ("input",))],
        "layer 'a' of net has the input ['b'], which is not defined before it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("nodes, message", WRONG_GRAPHS.values(), ids=WRONG_GRAPHS)
def test_a_wrong_graph_is_refused(nodes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Architecture("net", (4,), tuple(nodes))


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("MaxPool", {}, "unknown op 'MaxPool'; did you mean MaxPool2D?"),
        ("Linear", {}, "unknown op 'Linear'; did you mean Dense?"),
        ("Conv2D", {"filters": 8, "size": 3, "paddin": 1}, "Conv2D has no paddin; did you mean padding?"),
        ("Conv2D", {"filters": 8, "size": 3, "dilation": 2}, "Conv2D has no dilation; no layer is dilated"),
        ("Conv2D", {"filters": 8, "size": 3, "activation": "relu"}, "Conv2D has no activation; a layer of its own"),
        ("Conv2D", {"filters": 8, "size": (3, 1)}, "size of Conv2D is (3, 1); one whole number for all sides"),
        ("Conv2D", {"filters": 8, "size": 3, "padding": "same"}, "padding of Conv2D is 'same'; 0 or more"),
        ("Conv2D", {"size": 3}, "Conv2D lacks filters; allowed: a whole number"),
        ("Dense", {"units": 2.5}, "units of Dense is 2.5; a whole number"),
        ("Dense", {"units": None}, "units of Dense is None; a whole number"),
        ("BatchNorm", {"eps": 1e-5}, "BatchNorm has no eps; did you mean epsilon?"),
        ("BatchNorm", {"momentum": 0.1}, "BatchNorm has no momentum; did you mean decay?; 1 - PyTorch's momentum"),
        ("BatchNorm", {"epsilon": 0}, "epsilon of BatchNorm is 0; a number above 0"),
        ("BatchNorm", {"decay": float("nan")}, "decay of BatchNorm is nan; a number, 0 to 1"),
        ("Dropout", {"p": 0.25}, "Dropout has no p; did you mean rate?"),
        ("Dropout", {"rate": 25}, "rate of Dropout is 25; below 1"),
        ("MaxPool2D", {"size": 2, "ceil": 2}, "ceil of MaxPool2D is 2; 0 or 1"),
        ("LRN", {"n": 4}, "n of LRN is 4; an odd number"),
        ("ReLU", {"inplace": True}, "ReLU has no inplace; no attributes"),
    ],
)
def test_a_layer_with_an_attribute_that_it_can_not_have_is_refused(op, attributes, words):
    with pytest.raises(ValueError, match="layer 'it': " + ".*".join(map(re.escape, words.split("; ")))):
        Node("it", op, ("input",), attributes)


def test_a_layer_after_one_that_is_not_there_is_refused():
    graph = Graph((3, 6, 8))
    graph.add("conv1", "Conv2D", filters=2, size=3)
    with pytest.raises(ValueError, match="no layer before it; did you mean conv1"):
        graph.add("relu1", "ReLU", after="conv")


def test_a_missing_auxiliary_head_is_refused():
    with pytest.raises(ValueError, match=r"has no layer .'x'., which its auxiliary losses name"):
        Architecture("net", (4,), (Node("a", "Dense", ("input",), {"units": 2}),), (("x", 0.3),))


@pytest.mark.parametrize(
    ("shapes", "attributes", "words"),
    [
        (((4, 3), (6, 3), (4, 3)), {"heads": 2}, "takes queries and keys of as many units"),
        (((4, 3), (4, 3), (4, 2)), {"heads": 2}, "takes queries and keys of as many units"),
        (((4, 3), (4, 3), (4, 3)), {"heads": 3}, "3 heads divide 4 and 4 units unevenly"),
        (((4, 2), (4, 3), (4, 3)), {"heads": 2, "causal": 1}, "is causal, so it takes as many queries as keys"),
    ],
)
def test_attention_refuses_inputs_that_do_not_fit_each_other(shapes, attributes, words):
    node = Node("it", "Attention", ("query", "key", "value"), attributes)
    with pytest.raises(ValueError, match=words):
        output_shape(node, dict(zip(node.inputs, shapes, strict=True)))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([("c", "Concat", {})], "layer 'c': Concat takes at least 2 inputs"),
        ([("c", "Conv2D", {"filters": 4, "size": 1, "groups": 2})], "2 groups divide 3 channels and 4 filters"),
        ([("n", "GroupNorm", {"groups": 2})], "layer 'n': 2 groups divide 3 channels unevenly"),
        ([("s", "Sequence", {}), ("t", "SelectToken", {"position": 48})], "selects position 48 of a sequence of 48"),
        ([("a", "Attention", {"heads": 1})], "layer 'a': Attention takes 3 inputs"),
        ([("c", "Conv2D", {"filters": 2, "size": 9})], "layer 'c': a window of 9 does not fit into 6 x 8"),
        (
            [("f", "Flatten", {}), ("n", "LRN", {})],
            "LRN layer 'n' takes an image (channels, height, width), not shape (144,)",
        ),
        ([("f", "Flatten", {}), ("b", "BinaryLogits", {})], "layer 'b' takes one logit, not shape (144,)"),
    ],
)
def test_a_layer_that_cannot_take_its_input_is_refused(layers, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        chain("net", (3, 6, 8), layers).shapes()


def branches(*, size):
    """An image of 4 x 4, from which "a" of 2 and "b" of 3 channels branch. size: of the window of b."""
    graph = Graph((1, 4, 4))
    graph.add("a", "Conv2D", after="input", filters=2, size=1)
    graph.add("b", "Conv2D", after="input", filters=3, size=size)
    return graph


@pytest.mark.parametrize(
    ("op", "size", "message"),
    [
        ("Add", 1, "layer 'j' adds shapes that differ: ((2, 4, 4), (3, 4, 4))"),
        ("Concat", 3, "joins shapes that differ in more than their channels"),
    ],
)
def test_branches_that_do_not_fit_are_not_joined(op, size, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        branches(size=size).add("j", op, after=("a", "b"))


@pytest.mark.parametrize(
    ("padding", "between", "after", "found"),
    [
        (0, [], [], {"conv"}),
        (0, ["ReLU", "ReLU"], [], {"conv"}),
        (1, ["ReLU"], [], set()),
        (0, ["Dropout"], [], set()),
        (0, ["ReLU"], ["conv"], set()),
        (0, ["ReLU"], ["between0"], set()),
    ],
)
def test_convolutions_of_which_only_the_maximum_over_time_is_needed(padding, between, after, found):
    """after: further uses of an output, each by a Flatten."""
    graph = Graph((4, 9))
    graph.add("conv", "Conv1D", filters=3, size=3, padding=padding)
    for i, op in enumerate(between):
        graph.add(f"between{i}", op, **({"rate": 0.1} if op == "Dropout" else {}))
    parts = [graph.add("pool", "GlobalMaxPool1D")]
    parts += [graph.add(f"flat_{name}", "Flatten", after=name) for name in after]
    graph.add("joined", "Concat", after=(*parts, "pool"))
    graph.add("logits", "Dense", units=2)
    assert maximised(graph.architecture("net")) == found


@pytest.mark.parametrize(
    ("side", "size", "stride", "padding", "floor", "ceil"),
    [(112, 3, 2, 0, 55, 56), (112, 3, 2, 1, 56, 57), (55, 3, 2, 0, 27, 27), (9, 5, 3, 0, 2, 3), (5, 3, 1, 1, 5, 5)],
)
def test_windows_along_an_axis(side, size, stride, padding, floor, ceil):
    """Compared with counting: positions that fit, and with ceil one more if values are left over."""
    padded = side + 2 * padding
    fitting = [start for start in range(0, padded, stride) if start + size <= padded]
    assert window_count(side, size, stride, padding) == len(fitting) == floor
    left_over = fitting[-1] + size < padded
    assert window_count(side, size, stride, padding, ceil=True) == len(fitting) + left_over == ceil


# --- inputs of recipes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mnist-mlp-keras", "imagenet-googlenet"])
@pytest.mark.parametrize(("rate", "rates"), [(0, []), (0.35, [0.35]), (None, None)])
def test_an_experiment_changes_the_rate_of_each_dropout_layer_and_nothing_else(name, rate, rates):
    recipe = RECIPES[name]
    before = recipe.architecture(recipe.input_shape, 10)
    after = recipe.network(recipe.input_shape, 10, {"dropout": rate})
    found = [node.attributes["rate"] for node in after.nodes if node.op == "Dropout"]
    assert sorted(set(found)) == (recipe.dropout_rates if rates is None else rates)
    assert after.without_dropout() == before.without_dropout()
    assert (after == before) == (rate is None)
