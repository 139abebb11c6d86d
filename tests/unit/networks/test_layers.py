"""Floating-point operations of training a sample, worked out by hand."""

from trainmark.networks.graph import chain
from trainmark.networks.layers import training_flops


def test_of_an_mlp():
    """Its first layer needs no gradient of its inputs: twice its forward pass. Its second one: three times."""
    mlp = [("dense1", "Dense", {"units": 3}), ("relu", "ReLU", {}), ("dense2", "Dense", {"units": 2})]
    assert training_flops(chain("mlp", (5,), mlp)) == 2 * (2 * 5 * 3 + 3) + 3 * (2 * 3 * 2 + 2)


def test_of_a_convolutional_network():
    """A pooling before the first convolution is not trained, so that its gradient is not needed either."""
    network = [
        ("pool0", "MaxPool2D", {"size": 2, "stride": 2}),
        ("conv", "Conv2D", {"filters": 3, "size": 3, "bias": 0}),
        ("norm", "BatchNorm", {}),
        ("flatten", "Flatten", {}),
        ("dense", "Dense", {"units": 2}),
    ]
    conv, dense = 2 * (3 * 3 * 1) * 3 * (2 * 2), 2 * 12 * 2 + 2
    assert training_flops(chain("network", (1, 8, 8), network)) == 2 * conv + 3 * dense


def test_of_a_convolution_of_embeddings_that_are_trained():
    text = [
        ("embedding", "Embedding", {"vocabulary": 7, "units": 2}),
        ("conv", "Conv1D", {"filters": 3, "size": 2}),
        ("pool", "GlobalMaxPool1D", {}),
    ]
    assert training_flops(chain("text", (4,), text)) == 3 * (2 * (2 * 2) * 3 * 3 + 3 * 3)
