"""AlexNet on one GPU: without groups."""

from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape


def alex(input_shape: Shape, classes: int) -> Architecture:
    """Five convolutions and three dense layers (chainer `examples/imagenet/alex.py`)."""
    graph = Graph(input_shape)
    for i, (filters, size, stride, padding) in enumerate([(96, 11, 4, 0), (256, 5, 1, 2)], start=1):
        graph.add(f"conv{i}", "Conv2D", filters=filters, size=size, stride=stride, padding=padding)
        graph.add(f"relu{i}", "ReLU")
        graph.add(f"norm{i}", "LRN")
        graph.add(f"pool{i}", "MaxPool2D", size=3, stride=2)
    for i, filters in enumerate([384, 384, 256], start=3):
        graph.add(f"conv{i}", "Conv2D", filters=filters, size=3, padding=1)
        graph.add(f"relu{i}", "ReLU")
    graph.add("pool5", "MaxPool2D", size=3, stride=2)
    graph.add("flatten", "Flatten")
    for i in (6, 7):
        graph.add(f"fc{i}", "Dense", units=4096)
        graph.add(f"relu{i}", "ReLU")
        graph.add(f"dropout{i}", "Dropout", rate=0.5)
    graph.add("fc8", "Dense", units=classes)
    return graph.architecture("alex")
