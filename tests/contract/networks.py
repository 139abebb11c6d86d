"""Small networks that together contain every layer type, for the contract suite."""

from trainmark.networks.graph import Graph

IMAGE = (2, 9, 11)
TOKENS = (7,)


def _image_network():
    """Two branches and an auxiliary head; windows that extend beyond the end, windows that do not, and padding.

    The padding of the head lies in other places than Keras's own.
    """
    graph = Graph(IMAGE)
    stem = graph.add("conv1", "Conv2D", filters=6, size=3, stride=2, padding=1)
    graph.add("conv1_bn", "BatchNorm")
    graph.add("relu1", "ReLU")
    graph.add("norm1", "LRN", n=3)
    pooled = graph.add("pool1", "MaxPool2D", size=2, stride=2)
    graph.add("branch1", "Conv2D", after=pooled, filters=10, size=1, bias=0)
    graph.add("branch1_relu", "ReLU")
    graph.add("branch2_pool", "MaxPool2D", after=pooled, size=3, padding=1)
    graph.add("branch2", "Conv2D", filters=10, size=3, padding=1)
    graph.add("branch3", "AvgPool2D", after=pooled, size=3, padding=1)
    joined = graph.add("joined", "Concat", after=("branch1_relu", "branch2", "branch3"))
    graph.add("head_pool", "MaxPool2D", after=stem, size=3, stride=2, padding=1, ceil=0)
    graph.add("head_average", "AvgPool2D", size=2, stride=2, padding=1)
    graph.add("head_flatten", "Flatten")
    graph.add("head_fc1", "Dense", units=5, bias=0)
    graph.add("head_fc1_bn", "BatchNorm", epsilon=1e-3, decay=0.8)
    graph.add("head_fc2", "Dense", units=3)
    graph.add("conv2", "Conv2D", after=joined, filters=26, size=1)
    graph.add("added", "Add", after=("conv2", joined))
    graph.add("norm2", "LRN", n=3, k=1.5, alpha=0.02, beta=0.6)
    graph.add("pool2", "AvgPool2D", size=2)
    graph.add("dropout", "Dropout", rate=0.25)
    graph.add("flatten", "Flatten")
    graph.add("fc", "Dense", units=3)
    return graph.architecture("images", (("head_fc2", 0.3),))


def _token_network():
    graph = Graph(TOKENS)
    graph.add("embedding", "Embedding", vocabulary=11, units=4)
    graph.add("dropout", "Dropout", rate=0.25)
    graph.add("conv1", "Conv1D", filters=6, size=3)
    graph.add("relu1", "ReLU")
    branch1 = graph.add("pool1", "GlobalMaxPool1D")
    graph.add("conv2", "Conv1D", after="dropout", filters=5, size=3, stride=2, padding=1, bias=0)
    branch2 = graph.add("pool2", "GlobalMaxPool1D")
    graph.add("joined", "Concat", after=(branch1, branch2))
    graph.add("dense1", "Dense", units=1)
    graph.add("logits", "BinaryLogits")
    return graph.architecture("tokens")


def _attention_network():
    """Grouped convolutions, gated channels, and attention over the positions of the image."""
    graph = Graph(IMAGE)
    graph.add("patches", "Conv2D", filters=8, size=3, stride=3, groups=2)
    graph.add("depthwise", "Conv2D", filters=8, size=3, padding=1, groups=8, bias=0)
    graph.add("group_norm", "GroupNorm", groups=4, epsilon=1e-3)
    swish = graph.add("silu", "SiLU")
    graph.add("squeezed", "GlobalAvgPool2D")
    graph.add("excited", "Dense", units=8)
    graph.add("gates", "Sigmoid")
    gated = graph.add("gated", "Multiply", after=(swish, "gates"))
    graph.add("image_norm", "LayerNorm")
    graph.add("wide", "Dense", units=12)
    graph.add("gelu", "GELU")
    graph.add("narrow", "Dense", units=8, bias=0)
    graph.add("scaled", "LayerScale")
    graph.add("squared", "Multiply", after=("scaled", "scaled"))
    graph.add("image", "Add", after=(gated, "squared"))
    graph.add("sequence", "Sequence")
    graph.add("class_token", "ClassToken")
    embedded = graph.add("positions", "PositionEmbedding")
    normed = graph.add("sequence_norm", "LayerNorm", epsilon=1e-3)
    fused = graph.add("fused", "Dense", after=normed, units=24)
    for i, name in enumerate(("query", "key", "value")):
        graph.add(name, "SliceChannels", after=fused, start=8 * i, stop=8 * i + 8)
    graph.add("causal", "Attention", after=("query", "key", "value"), heads=2, causal=1)
    graph.add("all", "Attention", after=("causal", normed, "value"), heads=4)
    graph.add("dropout", "Dropout", rate=0.25)
    graph.add("added", "Add", after=("dropout", embedded))
    graph.add("gelu_tanh", "GELU", approximate=1)
    shared = graph.add("softmax", "Softmax")
    first = graph.add("selected", "SelectToken", position=2)
    graph.add("pooled", "GlobalAvgPool1D", after=shared)
    graph.add("relu6", "ReLU6")
    graph.add("joined", "Concat", after=(first, "relu6"))
    graph.add("children", "LayerNorm")  # a name that modules of frameworks have for something else
    graph.add("tanh", "Tanh")
    graph.add("fc", "Dense", units=3)
    return graph.architecture("attention")


NETWORKS = {"images": _image_network(), "tokens": _token_network(), "attention": _attention_network()}
