"""Network in Network."""

from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape


def _mlpconv(graph: Graph, i: int, filters: tuple[int, int, int], size: int, stride: int = 1, padding: int = 0) -> None:
    """Add a convolution and two of size 1 after it, with ReLU between them (Chainer's links.MLPConvolution2D)."""
    graph.add(f"conv{i}a", "Conv2D", filters=filters[0], size=size, stride=stride, padding=padding)
    for letter, previous, count in (("b", "a", filters[1]), ("c", "b", filters[2])):
        graph.add(f"relu{i}{previous}", "ReLU")
        graph.add(f"conv{i}{letter}", "Conv2D", filters=count, size=1)


def nin(input_shape: Shape, classes: int) -> Architecture:
    """Four blocks of three convolutions (chainer `examples/imagenet/nin.py`); the last one has no ReLU after it.

    The last average pooling has windows of 6, or of the whole image if that is smaller.
    """
    graph = Graph(input_shape)
    windows = [(11, 4, 0), (5, 1, 2), (3, 1, 1)]
    for i, (filters, window) in enumerate(zip([96, 256, 384], windows, strict=True), start=1):
        _mlpconv(graph, i, (filters,) * 3, *window)
        graph.add(f"relu{i}c", "ReLU")
        graph.add(f"pool{i}", "MaxPool2D", size=3, stride=2)
    graph.add("dropout", "Dropout", rate=0.5)
    _mlpconv(graph, 4, (1024, 1024, classes), size=3, padding=1)
    side = min(6, graph.side(graph.last))
    graph.add("pool4", "AvgPool2D", size=side, stride=side)
    graph.add("flatten", "Flatten")
    return graph.architecture("nin")
