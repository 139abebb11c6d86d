"""The time of the adapters' own layers, update rules, loss and metric beside those of the framework, on the CPU.

Run: make bench-own. Each part trains in the stock loop, in a network that is almost nothing else: five layers of it, or
the update of a million weights. The same network trains in turn, in another process, with the framework's nearest part
in its place. The ratio is that of one round. What is the same, such as the loop, is in both times. No framework has LRN
but Chainer and TensorFlow, and none has the rule rmsprop_warmup of the ImageNet recipes.
"""

import os
import statistics
from collections.abc import Callable
from functools import partial
from unittest import mock

from loops import started
from measuring import in_turn, parser_of, print_heading, print_row, seconds_of

from trainmark.frameworks.registry import create_adapter, known_frameworks
from trainmark.networks.graph import Architecture, Graph, chain
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer

BATCH = 32

STEPS = {True: 16, False: 100}
"""Steps per epoch of a network of layers, and of the others, whose steps are shorter."""

ADAM = (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", 1e-8))

RULES = {
    "Adam": Optimizer("adam", 1e-3, ADAM),
    "AdamAlgorithm1": Optimizer("adam_algorithm_1", 1e-3, ADAM),
    "RMSprop": Optimizer("rmsprop", 1e-3, (("rho", 0.9), ("epsilon", 1e-8))),
    "MomentumSGD": Optimizer("momentum_sgd", 1e-3, (("momentum", 0.9),)),
}

WINDOW = {"size": 3, "stride": 1, "padding": 1, "ceil": 0}

LAYERS = {
    "BatchNorm": ("BatchNorm", {"epsilon": 2e-5, "decay": 0.9}),
    "LocalResponseNorm": ("LRN", {"n": 5, "k": 2.0, "alpha": 1e-4, "beta": 0.75}),
    "Pool2D, maximum": ("MaxPool2D", WINDOW),
    "Pool2D, average": ("AvgPool2D", WINDOW),
    "Normalisation, layers": ("LayerNorm", {}),
    "Normalisation, groups": ("GroupNorm", {"groups": 8}),
    "GELU": ("GELU", {}),
    "Attention": ("Attention", {"heads": 4}),
}
"""Type and attributes of the layers, by part."""


def layers_of_keras() -> dict[str, Callable]:
    """Return Keras's nearest layer by layer type, as entries of `keras_layers.LAYERS`."""
    import keras

    from trainmark.frameworks import keras_layers

    def pooling(kind: type) -> Callable:
        return lambda node, rank: kind(
            node.integer("size"), node.integer("stride"), "same" if node.integer("padding") else "valid"
        )

    layers = {
        "BatchNorm": lambda node, rank: keras.layers.BatchNormalization(
            momentum=node.attributes["decay"], epsilon=node.attributes["epsilon"], name=node.name
        ),
        "MaxPool2D": pooling(keras.layers.MaxPooling2D),
        "AvgPool2D": pooling(keras.layers.AveragePooling2D),
        "LayerNorm": lambda node, rank: keras.layers.LayerNormalization(epsilon=1e-5, name=node.name),
        "GroupNorm": lambda node, rank: keras.layers.GroupNormalization(8, epsilon=1e-5, name=node.name),
        "GELU": lambda node, rank: keras.layers.Activation(partial(keras.ops.gelu, approximate=False), name=node.name),
        "Attention": lambda node, rank: keras_layers.Operation(attention_of_keras, name=node.name),
    }
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        def normalisation(node, rank: int) -> Callable:
            constants = [node.attributes[name] for name in ("k", "alpha", "beta")]
            return keras.layers.Lambda(
                lambda x: tf.nn.local_response_normalization(x, node.integer("n") // 2, *constants)
            )

        layers["LRN"] = normalisation
    return layers


def attention_of_keras(*inputs):
    """Four heads by the function that Keras has for it."""
    from keras import ops

    in_heads = (ops.reshape(x, (-1, x.shape[1], 4, x.shape[2] // 4)) for x in inputs)
    return ops.reshape(ops.dot_product_attention(*in_heads), (-1, *inputs[0].shape[1:]))


def rules_of_keras() -> dict[str, Callable]:
    """Return Keras's nearest optimizer by rule, as entries of `keras_optimizers.OPTIMIZERS`."""
    from keras import optimizers

    return {"adam": optimizers.Adam, "adam_algorithm_1": optimizers.Adam, "rmsprop": optimizers.RMSprop,
            "momentum_sgd": optimizers.SGD}  # fmt: skip


def network(part: str) -> Architecture:
    """Return a network that is almost nothing but the part."""
    if part in RULES:
        layers = [("f", "Flatten", {}), ("d1", "Dense", {"units": 1024}), ("d2", "Dense", {"units": 10})]
        return chain(part, (1, 32, 32), layers)
    if part in LAYERS:
        op, attributes = LAYERS[part]
        first = ("first", "Conv2D", {"filters": 64, "size": 1})  # so that gradients go through the layers
        if op == "Attention":
            graph = Graph((1, 14, 14))
            graph.add(*first[:2], **first[2])
            graph.add("sequence", "Sequence")
            for i in range(5):
                graph.add(f"layer{i}", op, after=(graph.last,) * 3, **attributes)
            graph.add("f", "Flatten")
            graph.add("d", "Dense", units=2)
            return graph.architecture("layers")
        layers = [first, *((f"layer{i}", op, attributes) for i in range(5))]
        return chain("layers", (1, 28, 28), [*layers, ("f", "Flatten", {}), ("d", "Dense", {"units": 2})])
    return chain("head", (1, 32, 32), [("f", "Flatten", {}), ("d", "Dense", {"units": 1000})])


def trainer(framework: str, part: str, whose: str) -> Callable[[], float | None]:
    """Return a function that trains an epoch and returns its seconds, or None if the framework has no such part.

    whose: "ours", or "theirs" with the framework's nearest part in the place of ours.
    """
    import numpy as np

    patches = THEIRS[framework.partition("-")[0]](part)
    if patches is None:
        return lambda: None
    for patch in patches if whose == "theirs" else ():
        patch.start()
    architecture, rule = network(part), RULES.get(part, Optimizer("sgd", 1e-3))
    adapter = create_adapter(framework, len(os.sched_getaffinity(0)))
    adapter.build(
        architecture=architecture, weights=draw_initial_weights(architecture, "lecun_normal", (1, 1)), optimizer=rule,
        device="cpu", dtype="float32",
    )  # fmt: skip
    samples = BATCH * STEPS[part in LAYERS]
    inputs = np.random.default_rng(0).random((samples, *architecture.input_shape), np.float32)
    adapter.load(split="train", inputs=inputs, labels=np.zeros(samples, int))
    feed = epoch_feed(samples, BATCH, (1, 1), 1)

    def train() -> None:
        adapter.train_epoch(feed)
        adapter.synchronize()

    return lambda: seconds_of(train)


def theirs_of_chainer(part: str) -> list | None:
    """See `THEIRS`."""
    from trainmark.frameworks.chainer_optimizers import OPTIMIZERS

    return [mock.patch.dict(OPTIMIZERS, adam_algorithm_1=OPTIMIZERS["adam"])] if part == "AdamAlgorithm1" else None


def theirs_of_flax(part: str) -> list | None:
    """See `THEIRS`. Poolings, RMSprop and the loss are those of Flax and optax themselves."""
    import optax
    from flax import nnx

    from trainmark.frameworks import flax_layers, flax_optimizers

    def adam(learning_rate, beta_1: float, beta_2: float, epsilon: float):
        return optax.adam(learning_rate, beta_1, beta_2, epsilon)

    def normalisation(node, shape: tuple, options: dict) -> nnx.BatchNorm:
        return nnx.BatchNorm(shape[0], momentum=node.attributes["decay"], epsilon=node.attributes["epsilon"], **options)

    rules = {
        "Adam": {"adam": adam},
        "AdamAlgorithm1": {"adam_algorithm_1": adam},
        "MomentumSGD": {"momentum_sgd": optax.sgd},
    }
    if part in rules:
        return [mock.patch.dict(flax_optimizers.OPTIMIZERS, rules[part])]

    def attention(node, shape: tuple, options: dict) -> Callable:
        def compute(*inputs):
            in_heads = (x.reshape(*x.shape[:2], 4, -1) for x in inputs)
            return nnx.dot_product_attention(*in_heads).reshape(inputs[0].shape)

        return compute

    layers = {"BatchNorm": normalisation, "Attention": attention}
    return [mock.patch.dict(flax_layers.LAYERS, {part: layers[part]})] if part in layers else None


def theirs_of_keras(part: str) -> list | None:
    """See `THEIRS`."""
    import keras
    import numpy as np

    from trainmark.frameworks import keras_adapter, keras_layers, keras_optimizers

    if part in RULES:
        return [mock.patch.dict(keras_optimizers.OPTIMIZERS, rules_of_keras())]
    if part in LAYERS:
        op, layers = LAYERS[part][0], layers_of_keras()
        return [mock.patch.dict(keras_layers.LAYERS, {op: layers[op]})] if op in layers else None

    def accuracy(steps: int, weights: tuple) -> keras.metrics.Metric:
        metric = keras.metrics.SparseCategoricalAccuracy()
        metric.losses, metric.step, metric.samples = np.zeros(steps), 0, 0  # what the adapter reads of its metric
        return metric

    def loss(weights: tuple) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    return [mock.patch.object(keras_adapter, part, {"CrossEntropy": loss, "StepLosses": accuracy}[part])]


def theirs_of_torch(part: str) -> list | None:
    """See `THEIRS`. The other parts are torch's own."""
    import torch

    from trainmark.frameworks import torch_layers, torch_optimizers

    def batch_norm(node, shape: tuple) -> torch.nn.Module:
        return torch.nn.BatchNorm2d(shape[0], node.attributes["epsilon"], 1 - node.attributes["decay"])

    if part == "BatchNorm":
        return [mock.patch.dict(torch_layers.LAYERS, BatchNorm=batch_norm)]
    theirs = {"Adam": {"adam": torch_optimizers.AdamAlgorithm1}, "MomentumSGD": {"momentum_sgd": torch_optimizers.SGD}}
    return [mock.patch.dict(torch_optimizers.OPTIMIZERS, theirs[part])] if part in theirs else None


THEIRS = {
    "chainer": theirs_of_chainer,
    "flax": theirs_of_flax,
    "keras": theirs_of_keras,
    "torch": theirs_of_torch,
}
"""By library, a function of a part: patches that put the framework's nearest part in the place of ours, or None if ours
is its own, or has none."""


def measured(framework: str, part: str, rounds: int) -> tuple[list[float], list[float]] | None:
    """Return the seconds of each round, ours and theirs; None if the framework has no such part."""
    processes = {
        whose: started(whose, trainer, "cpu", framework, framework, part, whose) for whose in ("ours", "theirs")
    }
    try:
        if processes["ours"].take_turn() is None:
            return None
        processes["theirs"].take_turn()
        return tuple(in_turn({whose: one.take_turn for whose, one in processes.items()}, rounds).values())
    finally:
        for process in processes.values():
            process.close()


def main() -> None:
    """Measure each part in each framework and print the table."""
    frameworks = [name for name, framework in known_frameworks().items() if not framework.missing_packages()]
    parts = [*LAYERS, *RULES, "CrossEntropy", "StepLosses"]
    arguments = parser_of(__doc__, rounds=21, frameworks=frameworks, parts=parts).parse_args()
    print(
        f"{len(os.sched_getaffinity(0))} CPUs, {arguments.rounds} rounds; ratio of a step with ours to one with theirs"
    )
    print_heading("part", "framework", "ours, ms per step", "ratio, median", "its quartiles")
    for part in arguments.parts:
        for framework in arguments.frameworks:
            if (seconds := measured(framework, part, arguments.rounds)) is None:
                continue
            low, median, high = statistics.quantiles(
                (ours / theirs for ours, theirs in zip(*seconds, strict=True)), n=4
            )
            ours = 1000 * statistics.median(seconds[0]) / STEPS[part in LAYERS]
            print_row(part, framework, f"{ours:.2f}", f"{median:.2f}", f"{low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
