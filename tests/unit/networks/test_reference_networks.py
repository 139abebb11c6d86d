"""Compares our graphs with networks written by others: with the same weights they give the same outputs.

Where the definitions differ, the node that differs is set to the other's first, and the test says so.
"""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from trainmark.frameworks.registry import create_adapter
from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.zoo import googlenet, googlenetbn, nin
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer

create_adapter("chainer", threads=2)  # before chainer: it needs the compatibility module
chainer = pytest.importorskip("chainer")
F, L = chainer.functions, chainer.links

NEAR = {"rtol": 1e-10, "atol": 1e-12}


def filled(architecture, seed=3):
    """Weights in which biases and statistics differ from their initial values, so that each has an effect."""
    generator = np.random.default_rng(seed)
    weights = draw_initial_weights(architecture, "he_normal", (1, seed))
    for name, array in weights.items():
        if not name.endswith("kernel"):
            array += generator.uniform(0.01, 0.1, array.shape)
    return weights


def ours(architecture, weights, inputs, training=False):
    """Every layer's output, computed by Chainer on the CPU in float64."""
    adapter = create_adapter("chainer", threads=2)
    adapter.build(
        architecture=architecture, weights=weights, optimizer=Optimizer("sgd", 0.1), device="cpu", dtype="float64",
        observed_batch=len(inputs),
    )  # fmt: skip
    adapter.load(split="train", inputs=inputs, labels=np.zeros(len(inputs), int))
    return adapter.activations("train", range(len(inputs)), training=training)


def with_nodes(architecture, changes):
    """The architecture with other attributes, as returned by changes(node)."""
    nodes = tuple(replace(node, attributes={**node.attributes, **changes(node)}) for node in architecture.nodes)
    return replace(architecture, nodes=nodes)


def put(link, weights, layer):
    """Copy our weights of a layer into a link of Chainer."""
    attributes = {
        "kernel": "W", "bias": "b", "gamma": "gamma", "beta": "beta", "moving_mean": "avg_mean",
        "moving_variance": "avg_var",
    }  # fmt: skip
    found = {name.rpartition(".")[2]: array for name, array in weights.items() if name.rpartition(".")[0] == layer}
    assert found, layer
    for role, array in found.items():
        canonical = array.transpose({2: (1, 0), 4: (3, 2, 0, 1)}[array.ndim]) if role == "kernel" else array
        target = getattr(link, attributes[role])
        (target.array if hasattr(target, "array") else target)[...] = canonical
    return link


def in_float64(make):
    with chainer.using_config("dtype", np.float64):
        return make()


def evaluated(call):
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        return call()


def test_resnet50_is_chainers_own():
    """Equal to L.ResNet50Layers in every stage and in the logits; the definitions agree completely."""
    recipe = RECIPES["imagenet-resnet50"]
    architecture = recipe.architecture((3, 64, 64), 1000)
    weights = filled(architecture)
    theirs = in_float64(lambda: L.ResNet50Layers(pretrained_model=None))
    put(theirs.conv1, weights, "conv1")
    put(theirs.bn1, weights, "conv1_bn")
    put(theirs.fc6, weights, "fc")
    for stage, blocks in ((2, "abc"), (3, "abcd"), (4, "abcdef"), (5, "abc")):
        for i, letter in enumerate(blocks):
            block = getattr(getattr(theirs, f"res{stage}"), "a" if i == 0 else f"b{i}")
            for number in (1, 2, 3, 4)[: 4 if i == 0 else 3]:
                put(getattr(block, f"conv{number}"), weights, f"res{stage}{letter}_conv{number}")
                put(getattr(block, f"bn{number}"), weights, f"res{stage}{letter}_conv{number}_bn")
    images = np.random.default_rng(0).normal(size=(2, 3, 64, 64))
    found = ours(architecture, weights, images)
    stages = {"pool1": "pool1", "res2": "res2c_relu3", "res3": "res3d_relu3", "res4": "res4f_relu3",
              "res5": "res5c_relu3", "fc6": "fc"}  # fmt: skip
    wanted = evaluated(lambda: theirs.forward(images, layers=list(stages)))
    for their_name, our_name in stages.items():
        np.testing.assert_allclose(found[our_name], wanted[their_name].array, err_msg=our_name, **NEAR)


def test_googlenet_is_chainers_own_except_for_lrns_constants():
    """Equal to L.GoogLeNet, heads too. It is Caffe's, whose LRN has k 1 and alpha / n; ours has Chainer's defaults."""
    recipe = RECIPES["imagenet-googlenet"]
    architecture = recipe.architecture((3, 224, 224), 1000)
    architecture = with_nodes(architecture, lambda node: {"k": 1, "alpha": 1e-4 / 5} if node.op == "LRN" else {})
    weights = filled(architecture)
    theirs = in_float64(lambda: L.GoogLeNet(pretrained_model=None))
    names = {"conv1": "conv1", "conv2_reduce": "conv2_reduce", "conv2": "conv2", "loss3_fc": "fc"}
    for head in (1, 2):
        for part, layer in (("conv", "conv"), ("fc1", "fc1"), ("fc2", "fc2")):
            names[f"loss{head}_{part}"] = f"head{head}_{layer}"
    for their_name, our_name in names.items():
        put(getattr(theirs, their_name), weights, our_name)
    for name in googlenet.INCEPTIONS:
        put_inception(getattr(theirs, f"inc{name}"), weights, f"inception{name}")
    images = np.random.default_rng(0).normal(size=(1, 3, 224, 224))
    found = ours(architecture, weights, images, training=True)  # without masks: dropout is off, heads are there
    layers = {"inception_3b": "inception3b", "inception_4e": "inception4e", "loss1_fc2": "head1_fc2",
              "loss2_fc2": "head2_fc2", "loss3_fc": "fc"}  # fmt: skip
    wanted = evaluated(lambda: theirs.forward(images, layers=list(layers)))
    for their_name, our_name in layers.items():
        np.testing.assert_allclose(found[our_name], wanted[their_name].array, err_msg=our_name, **NEAR)


def put_inception(link, weights, name):
    """Copy our weights of an inception into Chainer's link."""
    parts = {"conv1": "1x1", "proj3": "3x3_reduce", "conv3": "3x3", "proj5": "5x5_reduce", "conv5": "5x5",
             "projp": "pool_proj"}  # fmt: skip
    for their_name, our_name in parts.items():
        put(getattr(link, their_name), weights, f"{name}_{our_name}")


@pytest.mark.parametrize("name", googlenetbn.INCEPTIONS)
def test_inceptions_with_batch_normalization_are_chainers(name):
    """Equal to L.InceptionBN, each with its own widths, pooling and stride, in training with batch statistics."""
    out1, reduce3, out3, reduce33, out33, pooling, out_pool = googlenetbn.INCEPTIONS[name]
    graph = Graph((20, 9, 9))
    googlenetbn._inception(graph, "block", googlenetbn.INCEPTIONS[name], "input")
    architecture = graph.architecture("block")
    weights = filled(architecture)
    stride = 1 if out1 else 2
    theirs = in_float64(
        lambda: L.InceptionBN(
            20, out1, reduce3, out3, reduce33, out33, "max" if pooling == "MaxPool2D" else "avg",
            out_pool or None, stride=stride,
        )
    )  # fmt: skip
    parts = {"conv1": "1x1", "proj3": "3x3_reduce", "conv3": "3x3", "proj33": "double3x3_reduce",
             "conv33a": "double3x3a", "conv33b": "double3x3b", "poolp": "pool_proj"}  # fmt: skip
    for their_name, our_name in parts.items():
        if f"block_{our_name}.kernel" in weights:
            put(getattr(theirs, their_name), weights, f"block_{our_name}")
            put(getattr(theirs, f"{their_name}n"), weights, f"block_{our_name}_bn")
        else:
            assert not hasattr(theirs, their_name)
    inputs = np.random.default_rng(0).normal(size=(3, 20, 9, 9))
    found = ours(architecture, weights, inputs, training=True)["block"]
    with chainer.no_backprop_mode():
        np.testing.assert_allclose(found, theirs(inputs).array, **NEAR)


def test_nins_blocks_are_chainers():
    """Equal to L.MLPConvolution2D, whose last convolution has no ReLU after it."""
    graph = Graph((5, 12, 12))
    nin._mlpconv(graph, 1, (7, 8, 9), size=5, padding=2)
    architecture = graph.architecture("block")
    weights = filled(architecture)
    theirs = in_float64(lambda: L.MLPConvolution2D(5, (7, 8, 9), 5, pad=2))
    for link, layer in zip(theirs, ("conv1a", "conv1b", "conv1c"), strict=True):
        put(link, weights, layer)
    inputs = np.random.default_rng(0).normal(size=(2, 5, 12, 12))
    np.testing.assert_allclose(ours(architecture, weights, inputs)["conv1c"], theirs(inputs).array, **NEAR)


def test_alexnet_equals_its_layers_in_sequence():
    """Equal to Chainer's functions in the order of the paper's figure: LRN after ReLU, before the pooling."""
    architecture = RECIPES["imagenet-alex"].architecture((3, 96, 96), 10)
    weights = filled(architecture)
    images = np.random.default_rng(0).normal(size=(2, 3, 96, 96))

    def conv(x, layer, **window):
        kernel = weights[f"{layer}.kernel"].transpose(3, 2, 0, 1)
        return F.relu(F.convolution_2d(x, kernel, weights[f"{layer}.bias"], **window))

    def dense(x, layer):
        return F.linear(x, weights[f"{layer}.kernel"].T, weights[f"{layer}.bias"])

    x = F.max_pooling_2d(F.local_response_normalization(conv(images, "conv1", stride=4)), 3, 2)
    x = F.max_pooling_2d(F.local_response_normalization(conv(x, "conv2", pad=2)), 3, 2)
    for layer in ("conv3", "conv4", "conv5"):
        x = conv(x, layer, pad=1)
    x = F.max_pooling_2d(x, 3, 2)
    wanted = dense(F.relu(dense(F.relu(dense(x, "fc6")), "fc7")), "fc8")
    np.testing.assert_allclose(ours(architecture, weights, images)["fc8"], wanted.array, **NEAR)


# --- networks of Keras ----------------------------------------------------------------------------------------------


IN_KERAS = """
import json, sys
import numpy as np
from trainmark.frameworks.registry import create_adapter
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.catalogue import RECIPES
from test_reference_networks import filled, keras_imdb_cnn, keras_resnet50, with_keras_resnets_nodes

adapter = create_adapter("{framework}", threads=2)
import keras
if "{name}" == "imagenet-resnet50":
    architecture = with_keras_resnets_nodes(RECIPES["{name}"].architecture((3, 64, 64), 10))
    inputs = np.random.default_rng(0).normal(size=(2, 3, 64, 64))
else:
    architecture = RECIPES["{name}"].architecture((400,), 2)
    inputs = np.random.default_rng(0).integers(0, 5000, (3, 400)).astype(np.int32)
weights = filled(architecture)
rule = Optimizer("sgd", 0.1)
adapter.build(architecture=architecture, weights=weights, optimizer=rule, device="cpu", dtype="float64")
adapter.load(split="train", inputs=inputs, labels=np.zeros(len(inputs), int))
ours = adapter.predict("train")
theirs = (keras_resnet50 if "{name}" == "imagenet-resnet50" else keras_imdb_cnn)(keras, weights, inputs)
print(json.dumps([ours.tolist(), theirs.tolist()]))
"""


def with_keras_resnets_nodes(architecture: Architecture) -> Architecture:
    """The graph as in keras.applications.ResNet50: epsilon 1.001e-5, and a pooling padded by one without ceil mode.

    It pads with zeros, which after a ReLU are equivalent to any lower value. Every convolution has a bias (0 here); in
    ours only the first has one.
    """
    changes = {"BatchNorm": {"epsilon": 1.001e-5}, "MaxPool2D": {"padding": 1, "ceil": 0}}
    return with_nodes(architecture, lambda node: changes.get(node.op, {}))


def keras_resnet50(keras, weights, images):
    """Logits of keras.applications.ResNet50 with our weights."""
    model = keras.applications.ResNet50(weights=None, classes=10, input_shape=(64, 64, 3), classifier_activation=None)
    theirs = {"conv1": "conv1_conv", "conv1_bn": "conv1_bn", "fc": "predictions"}
    numbers = {1: 1, 2: 2, 3: 3, 4: 0}  # its shortcut is number 0
    for stage, blocks in ((2, "abc"), (3, "abcd"), (4, "abcdef"), (5, "abc")):
        for i, letter in enumerate(blocks, start=1):
            for ours_number, number in numbers.items():
                for ours_part, part in (("", "conv"), ("_bn", "bn")):
                    name = f"res{stage}{letter}_conv{ours_number}{ours_part}"
                    theirs[name] = f"conv{stage}_block{i}_{number}_{part}"
    for layer in {name.rpartition(".")[0] for name in weights}:
        found = {name.rpartition(".")[2]: array for name, array in weights.items() if name.rpartition(".")[0] == layer}
        if "kernel" in found and "bias" not in found:
            found["bias"] = np.zeros(found["kernel"].shape[-1])
        for role, array in found.items():
            getattr(model.get_layer(theirs[layer]), role).assign(array)
    return model.predict(np.moveaxis(images, 1, -1), verbose=0)


def keras_imdb_cnn(keras, weights, ids):
    """(0, logit of the sigmoid's output) of Keras's example network, of stock layers, with our weights."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Embedding(5000, 50, name="embedding"), layers.Dropout(0.2), layers.Conv1D(250, 3, name="conv1"),
            layers.ReLU(), layers.GlobalMaxPooling1D(), layers.Dense(250, name="dense1"), layers.Dropout(0.2),
            layers.ReLU(), layers.Dense(1, activation="sigmoid", name="dense2"),
        ]
    )  # fmt: skip
    model.build((None, 400))
    for name, array in weights.items():
        layer, _, role = name.rpartition(".")
        getattr(model.get_layer(layer), role).assign(array)
    probability = model.predict(ids, verbose=0)
    return np.concatenate([np.zeros_like(probability), np.log(probability / (1 - probability))], axis=1)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("framework", "name", "near"),
    [
        ("keras-tensorflow", "imagenet-resnet50", 1e-9),
        ("keras-jax", "imagenet-resnet50", 1e-5),  # Keras's own batch normalisation is partly float32 on JAX
        ("keras-tensorflow", "imdb-cnn", 1e-9),
        ("keras-jax", "imdb-cnn", 1e-9),
    ],
)
def test_keras_own_networks_give_the_same_logits(framework, name, near):
    code = IN_KERAS.replace("{framework}", framework).replace("{name}", name)
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found, wanted = (np.array(logits) for logits in json.loads(done.stdout.splitlines()[-1]))
    assert np.ptp(found) > 1e-3, "logits that say something"
    np.testing.assert_allclose(found, wanted, rtol=near, atol=1e-11)
