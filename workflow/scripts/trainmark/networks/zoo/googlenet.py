"""GoogLeNet, with its two auxiliary heads."""

from collections.abc import Callable

from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape

INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Filters of each inception: 1x1; reduction before 3x3, 3x3; reduction before 5x5, 5x5; after the pooling."""

HEADS = {"4a": "head1", "4d": "head2"}
"""Inceptions that are followed by an auxiliary head, with its name."""

HEAD_WEIGHT = 0.3


def _convolution(graph: Graph, name: str, filters: int, size: int, after: str, **window: int) -> str:
    graph.add(name, "Conv2D", after=after, filters=filters, size=size, padding=size // 2, **window)
    return graph.add(f"{name}_relu", "ReLU")


def _inception(graph: Graph, name: str, filters: tuple[int, int, int, int, int, int], after: str) -> str:
    """Add four parallel branches (Chainer's links.Inception; it has one ReLU after the join, with equal results)."""
    out1, reduce3, out3, reduce5, out5, out_pool = filters
    branches = [_convolution(graph, f"{name}_1x1", out1, 1, after)]
    for size, reduce, out in ((3, reduce3, out3), (5, reduce5, out5)):
        reduced = _convolution(graph, f"{name}_{size}x{size}_reduce", reduce, 1, after)
        branches.append(_convolution(graph, f"{name}_{size}x{size}", out, size, reduced))
    graph.add(f"{name}_pool", "MaxPool2D", after=after, size=3, padding=1)
    branches.append(_convolution(graph, f"{name}_pool_proj", out_pool, 1, f"{name}_pool"))
    return graph.add(name, "Concat", after=tuple(branches))


def _dense(graph: Graph, name: str, units: int, after: str) -> str:
    graph.add(name, "Dense", after=after, units=units)
    return graph.add(f"{name}_relu", "ReLU")


def head(graph: Graph, name: str, classes: int, after: str, convolution: Callable, dense: Callable) -> str:
    """Add an auxiliary head. Its pooling has windows of 5, or of the whole image if that is smaller.

    convolution, dense: functions (graph, name, size of the layer, ..., after) that add such a layer and its ReLU.
    """
    pooled = graph.add(f"{name}_pool", "AvgPool2D", after=after, size=min(5, graph.side(after)), stride=3)
    convolution(graph, f"{name}_conv", 128, 1, pooled)
    dense(graph, f"{name}_fc1", 1024, graph.add(f"{name}_flatten", "Flatten"))
    return graph.add(f"{name}_fc2", "Dense", units=classes)


def googlenet(input_shape: Shape, classes: int) -> Architecture:
    """Nine inceptions (chainer `examples/imagenet/googlenet.py`). Loss: main head plus .3 of each auxiliary head.

    The last average pooling has a window of 7, or of the whole image if that is smaller.
    """
    graph = Graph(input_shape)
    _convolution(graph, "conv1", 64, 7, "input", stride=2)
    graph.add("pool1", "MaxPool2D", size=3, stride=2)
    graph.add("norm1", "LRN")
    _convolution(graph, "conv2_reduce", 64, 1, "norm1")
    _convolution(graph, "conv2", 192, 3, graph.last)
    graph.add("norm2", "LRN")
    last = graph.add("pool2", "MaxPool2D", size=3, stride=2)
    heads = []
    for name, filters in INCEPTIONS.items():
        last = _inception(graph, f"inception{name}", filters, last)
        if name in HEADS:
            heads.append(head(graph, HEADS[name], classes, last, _convolution, _dense))
        if name in ("3b", "4e"):
            last = graph.add(f"pool{name[0]}", "MaxPool2D", after=last, size=3, stride=2)
    side = min(7, graph.side(last))
    graph.add("pool5", "AvgPool2D", after=last, size=side)
    graph.add("flatten", "Flatten")
    graph.add("dropout", "Dropout", rate=0.4)
    graph.add("fc", "Dense", units=classes)
    return graph.architecture("googlenet", tuple((head, HEAD_WEIGHT) for head in heads))
