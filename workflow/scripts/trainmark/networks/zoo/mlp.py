"""The multi-layer perceptrons of the MNIST recipes."""

from trainmark.networks.graph import Architecture, chain
from trainmark.networks.ops import Shape


def _mlp(name: str, input_shape: Shape, hidden_units: list[int], classes: int, dropout: float) -> Architecture:
    layers: list[tuple[str, str, dict]] = [("flatten", "Flatten", {})]
    for i, units in enumerate(hidden_units, start=1):
        layers += [(f"dense{i}", "Dense", {"units": units}), (f"relu{i}", "ReLU", {})]
        if dropout:
            layers.append((f"dropout{i}", "Dropout", {"rate": dropout}))
    layers.append((f"dense{len(hidden_units) + 1}", "Dense", {"units": classes}))
    return chain(name, input_shape, layers)


def mlp_1000_1000(input_shape: Shape, classes: int) -> Architecture:
    """Two hidden layers of 1000, ReLU (chainer `examples/mnist/train_mnist.py`)."""
    return _mlp("mlp-1000-1000", input_shape, [1000, 1000], classes, dropout=0.0)


def mlp_512_512_dropout(input_shape: Shape, classes: int) -> Architecture:
    """Two hidden layers of 512, ReLU, dropout .2 after each (keras `examples/mnist_mlp.py`)."""
    return _mlp("mlp-512-512-dropout", input_shape, [512, 512], classes, dropout=0.2)


def mlp_32(input_shape: Shape, classes: int) -> Architecture:
    """One hidden layer of 32, ReLU (Flux model-zoo `vision/mnist/mlp.jl`)."""
    return _mlp("mlp-32", input_shape, [32], classes, dropout=0.0)
