"""The layer graph: shapes, parameters, the published parameter counts, and what a wrong graph says."""

import pytest

from trainmark.architecture import OPS, Architecture, Node, Parameter, chain
from trainmark.recipe import InputTransform, merged_input
from trainmark.recipes import RECIPES

IMAGE = (1, 28, 28)


@pytest.mark.parametrize(
    ("recipe", "count"),
    [("mnist-mlp-chainer", 1_796_010), ("mnist-mlp-keras", 669_706), ("mnist-mlp-flux", 25_450)],
)
def test_parameter_counts_are_the_published_ones(recipe, count):
    architecture = RECIPES[recipe].architecture(IMAGE, 10)
    assert architecture.parameter_count() == count == RECIPES[recipe].published_parameters


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_every_recipe_has_its_published_parameter_count(recipe):
    architecture = recipe.architecture(recipe.input_shape, recipe.published_classes)
    assert architecture.parameter_count() == recipe.published_parameters
    assert RECIPES[recipe.name] is recipe


def test_shapes_of_every_layer():
    assert RECIPES["mnist-mlp-keras"].architecture(IMAGE, 10).shapes() == {
        "input": (1, 28, 28),
        "flatten": (784,),
        "dense1": (512,),
        "relu1": (512,),
        "dropout1": (512,),
        "dense2": (512,),
        "relu2": (512,),
        "dropout2": (512,),
        "dense3": (10,),
    }
    assert list(RECIPES["mnist-mlp-chainer"].architecture(IMAGE, 10).shapes().values()) == [
        (1, 28, 28), (784,), (1000,), (1000,), (1000,), (1000,), (10,),
    ]  # fmt: skip


def test_dropout_where_the_original_has_it():
    rates = {
        name: [node.attributes["rate"] for node in recipe.architecture(IMAGE, 10).nodes if node.op == "Dropout"]
        for name, recipe in RECIPES.items()
    }
    assert rates == {"mnist-mlp-chainer": [], "mnist-mlp-keras": [0.2, 0.2], "mnist-mlp-flux": []}


def test_parameters_in_the_order_of_the_layers():
    assert RECIPES["mnist-mlp-flux"].architecture((3, 4, 5), 7).parameters() == (
        Parameter("dense1.kernel", (60, 32), "kernel", 60, 32),
        Parameter("dense1.bias", (32,), "bias", 60, 32),
        Parameter("dense2.kernel", (32, 7), "kernel", 32, 7),
        Parameter("dense2.bias", (7,), "bias", 32, 7),
    )


def test_layers_without_weights_have_no_parameters():
    layers = [("flatten", "Flatten", {}), ("relu", "ReLU", {}), ("dropout", "Dropout", {"rate": 0.5})]
    architecture = chain("bare", (2, 3, 4), layers)
    assert architecture.parameters() == ()
    assert architecture.parameter_count() == 0
    assert architecture.shapes()["dropout"] == (24,)


def test_chain_feeds_each_layer_from_the_one_before():
    nodes = chain("net", (4,), [("a", "Dense", {"units": 3}), ("b", "ReLU", {}), ("c", "Dense", {"units": 2})]).nodes
    assert [node.inputs for node in nodes] == [("input",), ("a",), ("b",)]


def test_a_graph_may_branch():
    nodes = (
        Node("a", "Dense", ("input",), {"units": 3}),
        Node("b", "Dense", ("a",), {"units": 5}),
        Node("c", "Dense", ("a",), {"units": 2}),
    )
    architecture = Architecture("branch", (4,), nodes)
    assert architecture.shapes() == {"input": (4,), "a": (3,), "b": (5,), "c": (2,)}
    assert architecture.parameter_count() == (4 * 3 + 3) + (3 * 5 + 5) + (3 * 2 + 2)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [Node("pool", "MaxPool", ("input",))],
            f"layer 'pool' of net: unknown op 'MaxPool'; known: {', '.join(OPS)}",
        ),
        ([Node("a", "ReLU", ("input",)), Node("a", "ReLU", ("a",))], "net names layer 'a' twice"),
        ([Node("input", "ReLU", ("input",))], "net names layer 'input' twice"),
        ([Node("a", "ReLU", ())], "layer 'a' of net is fed by nothing; name a layer or \"input\""),
        ([Node("a", "ReLU", ("b",))], "layer 'a' of net is fed by ['b'], not defined before it"),
        (
            [Node("a", "ReLU", ("b",)), Node("b", "ReLU", ("input",))],
            "layer 'a' of net is fed by ['b'], not defined before it",
        ),
        ([Node("a", "ReLU", ("a",))], "layer 'a' of net is fed by ['a'], not defined before it"),
    ],
    ids=["unknown op", "duplicate", "named input", "fed by nothing", "dangling", "later", "itself"],
)
def test_a_wrong_graph_is_refused(nodes, message):
    with pytest.raises(ValueError, match=r"^.*$") as caught:
        Architecture("net", (4,), tuple(nodes))
    assert str(caught.value) == message


@pytest.mark.parametrize("of", ["shapes", "parameters", "parameter_count"])
def test_dense_on_an_image_is_refused(of):
    architecture = chain("net", IMAGE, [("dense1", "Dense", {"units": 3})])
    with pytest.raises(ValueError, match="Dense") as caught:
        getattr(architecture, of)()
    message = "Dense layer 'dense1' takes a vector, not shape (1, 28, 28): put a Flatten before it"
    assert str(caught.value) == message


# --- what fits what -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample_shape", "crop", "misfit"),
    [
        ((1, 28, 28), None, None),
        ((1, 28, 28), (28, 28), None),
        ((1, 40, 30), (28, 28), None),
        ((1, 28, 28), (24, 28), "takes inputs of 1 x 28 x 28 (channels x height x width), and gets 1 x 24 x 28"),
        ((3, 28, 28), None, "takes inputs of 1 x 28 x 28 (channels x height x width), and gets 3 x 28 x 28"),
        ((1, 27, 40), (28, 28), "crops 28 x 28 out of images of 27 x 40"),
        ((1, 40, 27), (28, 28), "crops 28 x 28 out of images of 40 x 27"),
        ((3, 256, 256), (28, 28), "takes inputs of 1 x 28 x 28 (channels x height x width), and gets 3 x 28 x 28"),
        ((400,), None, "takes images, and gets texts of 400 token ids"),
        ((28,), (28, 28), "takes images, and gets texts of 28 token ids"),
        ((784,), None, "takes images, and gets texts of 784 token ids"),
    ],
)
def test_misfit(sample_shape, crop, misfit):
    assert RECIPES["mnist-mlp-keras"].misfit(sample_shape, InputTransform(crop=crop)) == misfit


def test_merged_input_puts_the_experiment_over_the_recipe():
    merged = merged_input(RECIPES["mnist-mlp-keras"], {"crop": [24, 20], "mean_window": "top-left"})
    assert merged == InputTransform(scale=1 / 255, subtract_mean=False, crop=(24, 20), mean_window="top-left")
    assert merged_input(RECIPES["mnist-mlp-keras"], {"crop": None}).crop is None
    assert merged_input(RECIPES["mnist-mlp-keras"], {}) == RECIPES["mnist-mlp-keras"].input
