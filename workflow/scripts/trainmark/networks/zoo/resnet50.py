"""ResNet-50."""

from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape

STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
"""(number of blocks, filters of the bottleneck, stride of the first block) of the stages 2 to 5."""


def _convolution(graph: Graph, name: str, filters: int, size: int, after: str, stride: int = 1) -> str:
    """Add a convolution without bias and a batch normalisation."""
    graph.add(name, "Conv2D", after=after, filters=filters, size=size, stride=stride, padding=size // 2, bias=0)
    return graph.add(f"{name}_bn", "BatchNorm")


def _block(graph: Graph, name: str, filters: int, stride: int, project: bool, after: str) -> str:
    """Add a bottleneck. The first 1x1 convolution has the stride, as in He et al. 2015 (later versions: the 3x3)."""
    _convolution(graph, f"{name}_conv1", filters, 1, after, stride)
    graph.add(f"{name}_relu1", "ReLU")
    _convolution(graph, f"{name}_conv2", filters, 3, graph.last)
    graph.add(f"{name}_relu2", "ReLU")
    main = _convolution(graph, f"{name}_conv3", 4 * filters, 1, graph.last)
    shortcut = _convolution(graph, f"{name}_conv4", 4 * filters, 1, after, stride) if project else after
    graph.add(f"{name}_add", "Add", after=(main, shortcut))
    return graph.add(f"{name}_relu3", "ReLU")


def resnet50(input_shape: Shape, classes: int) -> Architecture:
    """Sixteen bottlenecks (chainer `examples/imagenet/resnet50.py`). conv1 has a bias, the other convolutions have
    none.

    The last average pooling has a window of 7, or of the whole image if that is smaller.
    """
    graph = Graph(input_shape)
    graph.add("conv1", "Conv2D", filters=64, size=7, stride=2, padding=3)
    graph.add("conv1_bn", "BatchNorm")
    graph.add("conv1_relu", "ReLU")
    last = graph.add("pool1", "MaxPool2D", size=3, stride=2)
    for stage, (blocks, filters, stride) in enumerate(STAGES, start=2):
        for i in range(blocks):
            name = f"res{stage}{'abcdef'[i]}"
            last = _block(graph, name, filters, stride if i == 0 else 1, i == 0, last)
    side = min(7, graph.side(last))
    graph.add("pool5", "AvgPool2D", size=side)
    graph.add("flatten", "Flatten")
    graph.add("fc", "Dense", units=classes)
    return graph.architecture("resnet50")
