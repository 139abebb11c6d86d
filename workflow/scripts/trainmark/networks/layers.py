"""A table of a network's layers: output shapes, parameters and floating-point operations."""

from dataclasses import dataclass
from math import prod

from trainmark.networks.graph import Architecture
from trainmark.networks.ops import OPS, Node, Shape


@dataclass(frozen=True)
class Layer:
    """One layer of a network.

    output_shape: output shape for one sample.
    parameters: number of trained values.
    flops: floating-point operations of one sample's forward pass.
    auxiliary: whether it belongs to an auxiliary head, so that the logits do not depend on it.
    """

    node: Node
    output_shape: Shape
    parameters: int
    flops: int
    auxiliary: bool


def layers(architecture: Architecture) -> tuple[Layer, ...]:
    """Return the layers in the order of the graph, with FLOPs by the convention of ops.py.

    Raises ValueError if a layer can't take its inputs.
    """
    shapes = architecture.shapes()
    evaluated = {node.name for node in architecture.inference_nodes()}

    def layer(node: Node) -> Layer:
        op, inputs, output = OPS[node.op], tuple(shapes[name] for name in node.inputs), shapes[node.name]
        trained = sum(prod(array.shape) for array in op.parameters(node, inputs) if array.trained)
        return Layer(node, output, trained, op.flops(node, inputs, output), node.name not in evaluated)

    return tuple(layer(node) for node in architecture.nodes)


def training_flops(architecture: Architecture) -> int:
    """Return the floating-point operations of training one sample, by the convention of model FLOPs utilization.

    Only layers that multiply matrices count: Dense, Conv1D, Conv2D and Attention. Each counts three times its forward
    pass: forward, gradient of the weights, gradient of the inputs. It counts twice where nothing before it is trained,
    because the gradient of the network's input is not needed. Losses, other layers and the optimizer are left out
    (Chowdhery et al. 2022, PaLM, appendix B, arXiv:2204.02311).
    """
    multiplying = {parameter.layer for parameter in architecture.parameters() if parameter.role == "kernel"}
    multiplying |= {node.name for node in architecture.nodes if node.op == "Attention"}
    trained: set[str] = set()  # nodes whose output depends on a trained value
    flops = 0
    for layer in layers(architecture):
        node = layer.node
        needs_gradient = not trained.isdisjoint(node.inputs)
        if node.name in multiplying:
            flops += (3 if needs_gradient else 2) * layer.flops
        if needs_gradient or layer.parameters:
            trained.add(node.name)
    return flops
