"""GoogLeNet with batch normalisation, with its two auxiliary heads."""

from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape
from trainmark.networks.zoo.googlenet import HEAD_WEIGHT, HEADS, head

INCEPTIONS = {
    "3a": (64, 64, 64, 64, 96, "AvgPool2D", 32),
    "3b": (64, 64, 96, 64, 96, "AvgPool2D", 64),
    "3c": (0, 128, 160, 64, 96, "MaxPool2D", 0),
    "4a": (224, 64, 96, 96, 128, "AvgPool2D", 128),
    "4b": (192, 96, 128, 96, 128, "AvgPool2D", 128),
    "4c": (128, 128, 160, 128, 160, "AvgPool2D", 128),
    "4d": (64, 128, 192, 160, 192, "AvgPool2D", 128),
    "4e": (0, 128, 192, 192, 256, "MaxPool2D", 0),
    "5a": (352, 192, 320, 160, 224, "AvgPool2D", 128),
    "5b": (352, 192, 320, 192, 224, "MaxPool2D", 128),
}
"""Filters of each inception: 1x1; reduction before 3x3, 3x3; reduction before the double 3x3, each of the two; the type
of pooling, filters after the pooling.

An inception without a 1x1 branch and without filters after the pooling halves the image. The 1x1 filters of 4c and 4d
(128 and 64) are those of ChainerMN's example; Chainer's has 160 and 96.
"""


def _normalized(graph: Graph, name: str, op: str, after: str, **attributes: int) -> str:
    """Add a layer without bias, a batch normalisation and a ReLU."""
    graph.add(name, op, after=after, bias=0, **attributes)
    graph.add(f"{name}_bn", "BatchNorm")
    return graph.add(f"{name}_relu", "ReLU")


def _convolution(graph: Graph, name: str, filters: int, size: int, after: str, stride: int = 1) -> str:
    return _normalized(graph, name, "Conv2D", after, filters=filters, size=size, stride=stride, padding=size // 2)


def _dense(graph: Graph, name: str, units: int, after: str) -> str:
    return _normalized(graph, name, "Dense", after, units=units)


def _inception(graph: Graph, name: str, filters: tuple, after: str) -> str:
    """Add up to four parallel branches (Chainer's links.InceptionBN, whose max pooling has no ceil mode)."""
    out1, reduce3, out3, reduce33, out33, pooling, out_pool = filters
    stride = 1 if out1 else 2
    branches = [_convolution(graph, f"{name}_1x1", out1, 1, after)] if out1 else []
    reduced = _convolution(graph, f"{name}_3x3_reduce", reduce3, 1, after)
    branches.append(_convolution(graph, f"{name}_3x3", out3, 3, reduced, stride))
    reduced = _convolution(graph, f"{name}_double3x3_reduce", reduce33, 1, after)
    first = _convolution(graph, f"{name}_double3x3a", out33, 3, reduced)
    branches.append(_convolution(graph, f"{name}_double3x3b", out33, 3, first, stride))
    ceil = {"ceil": 0} if pooling == "MaxPool2D" else {}
    pooled = graph.add(f"{name}_pool", pooling, after=after, size=3, stride=stride, padding=1, **ceil)
    branches.append(_convolution(graph, f"{name}_pool_proj", out_pool, 1, pooled) if out_pool else pooled)
    return graph.add(name, "Concat", after=tuple(branches))


def googlenetbn(input_shape: Shape, classes: int) -> Architecture:
    """Ten inceptions (chainermn `examples/imagenet/googlenetbn_v2.py`). Loss: main head plus .3 of each auxiliary head.

    The last average pooling uses the first 7 rows and columns. At the published 224 pixels there are 8, because the
    padded poolings of the stem output one more than GoogLeNet's. Smaller images have fewer, and all are used.
    """
    graph = Graph(input_shape)
    last = "input"
    for i, (filters, size, stride) in enumerate([(64, 7, 2), (192, 3, 1)], start=1):
        _convolution(graph, f"conv{i}", filters, size, last, stride)
        last = graph.add(f"pool{i}", "MaxPool2D", size=3, stride=2, padding=1)
    heads = []
    for name, branches in INCEPTIONS.items():
        last = _inception(graph, f"inception{name}", branches, last)
        if name in HEADS:
            heads.append(head(graph, HEADS[name], classes, last, _convolution, _dense))
    side = min(7, graph.side(last))
    graph.add("pool5", "AvgPool2D", after=last, size=side, stride=side)
    graph.add("flatten", "Flatten")
    graph.add("fc", "Dense", units=classes)
    return graph.architecture("googlenetbn", tuple((head, HEAD_WEIGHT) for head in heads))
