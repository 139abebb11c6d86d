"""Compares an imported network with its torch.nn.Module, in float64 and value by value."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.nn import functional as F

from trainmark.errors import ConfigError
from trainmark.frameworks.layouts import outputs_first, outputs_last
from trainmark.frameworks.torch_layers import LAYERS
from trainmark.frameworks.torch_layers import Network as TorchNetwork
from trainmark.importing.network import Imported
from trainmark.recipes.initial_weights import Weights

TOLERANCE = 1e-9
"""Of differences in float64, as a share of the largest value. Rounding of the deepest of the tested networks gives
1e-12, and the least change of a rule that was planted 1e-7."""


LEAST_SCALE = 1e-5
"""The least value to which gradients are compared, as a share of the largest gradient of all."""


def initial_weights(imported: Imported, module: torch.nn.Module) -> Weights:
    """Return the arrays of the network, with the values of the module, float64."""
    state = _state(module)
    return {name: array.of(state[array.source].double()) for name, array in imported.arrays.items()}


def prove(imported: Imported, module: torch.nn.Module, inputs: torch.Tensor) -> float:
    """Return the largest difference of outputs, gradients and running statistics, as a share of the largest value.

    Train and eval mode are compared. Dropout is off in both networks.

    Raises ConfigError with the first operation or array that differs by more than TOLERANCE.
    """
    module, architecture = copy.deepcopy(module).double(), imported.architecture.without_dropout()
    inputs = inputs if architecture.takes_tokens else inputs.double()
    network = TorchNetwork(architecture, torch.float64, torch.device("cpu"), LAYERS)
    weights = initial_weights(imported, module)
    parameters = {parameter.name: parameter for parameter in architecture.arrays()}
    with torch.no_grad():
        for name, parameter in parameters.items():
            network.array_of(parameter).copy_(torch.from_numpy(outputs_first(parameter, weights[name])))
    differences = [_compared_steps(imported, module, network, parameters, inputs)]
    module.eval()
    network.eval()
    with torch.no_grad():
        found = _logits(imported, network(inputs)[0])
        differences.append(_difference(_logits(imported, module(inputs)), found))
    if differences[-1] > TOLERANCE:
        raise ConfigError("in eval mode the module computes other layers than in training; a network has the same")
    return max(differences)


def _compared_steps(
    imported: Imported, module: torch.nn.Module, network: TorchNetwork, parameters: Mapping, inputs: torch.Tensor
) -> float:
    module.train()
    network.train()
    module.zero_grad()
    with _without_dropout():
        theirs = _logits(imported, module(inputs))
    ours = _logits(imported, network(inputs)[0])
    difference = _difference(theirs, ours)
    if difference > TOLERANCE:
        traced = _traced_values(imported, module, inputs)  # of training: the statistics that ran since do not matter
        raise ConfigError(_first_that_differs(imported, network, traced, inputs))
    direction = torch.from_numpy(np.random.default_rng(1).normal(size=theirs.shape))
    (theirs * direction).sum().backward()
    (ours * direction).sum().backward()
    state = _state(module)
    # Before a normalisation, the gradient of a bias is 0 but for rounding.
    least = LEAST_SCALE * max(float(one.grad.abs().max()) for one in state.values() if one.grad is not None)
    for name, array in reversed(imported.arrays.items()):
        parameter = parameters[name]
        source, own = state[array.source], network.array_of(parameter)
        pair = (source.grad, own.grad) if parameter.trained else (source, own)
        if pair[0] is None:
            raise ConfigError(f"{array.source} has no gradient in the module, but in a network all arrays are trained")
        found = outputs_last(parameter, pair[1].detach().numpy())
        one = _difference(torch.from_numpy(array.of(pair[0])), torch.from_numpy(found), least)
        difference = max(difference, one)
        if one > TOLERANCE:
            what = "gradient" if parameter.trained else "running statistics"
            raise ConfigError(
                f"the {what} of {array.source} is another one than that of the layer {parameter.layer}: the module has "
                "a backward pass of its own, or keeps gradients back, there or in a layer after it"
            )
    return difference


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _logits(imported: Imported, output: torch.Tensor) -> torch.Tensor:
    """Return what is compared: of two logits (0, z) the second one, if the module gives one logit z."""
    if imported.architecture.nodes[-1].op == "BinaryLogits":
        return output[:, -1:]
    return F.log_softmax(output, 1) if imported.log_probabilities else output


def _difference(first: torch.Tensor, second: torch.Tensor, least: float = 1e-30) -> float:
    if first.shape != second.shape:
        return float("inf")
    scale = max(float(first.detach().abs().max()), least)
    difference = float((first - second).detach().abs().max()) / scale
    return difference if difference == difference else float("inf")


@contextmanager
def _without_dropout() -> Iterator[None]:
    with mock.patch.object(F, "dropout", lambda input, *_, **__: input):
        yield


class _Traced(torch.fx.Interpreter):  # type: ignore[misc]
    """Computes what was traced, without dropout, and keeps the results of the operations that became layers."""

    def __init__(self, imported: Imported) -> None:
        super().__init__(imported.program.graph_module)
        self.values = imported.values
        self.found: dict[str, torch.Tensor] = {}

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Compute one operation."""
        if target is torch.ops.aten.dropout.default:
            return args[0]
        if target is torch.ops.trainmark.local_response_norm.default:
            return F.local_response_norm(*args, **kwargs)
        return super().call_function(target, args, kwargs)

    def run_node(self, node: Any) -> Any:
        """Compute an operation, and keep a copy of its result."""
        result = super().run_node(node)
        if node.name in self.values:
            self.found[node.name] = result.detach().clone()
        return result


def _traced_values(imported: Imported, module: torch.nn.Module, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the result of each operation that became a layer, as the module computes it in training."""
    signature, state = imported.program.graph_signature, _state(module)
    sources = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = signature.inputs_to_lifted_tensor_constants
    given = [
        state[sources[node.name]].detach().clone() if node.name in sources
        else imported.program.constants[constants[node.name]] if node.name in constants
        else inputs
        for node in imported.program.graph.nodes if node.op == "placeholder"
    ]  # fmt: skip
    traced = _Traced(imported)
    with torch.no_grad():
        traced.run(*given)
    return traced.found


def _first_that_differs(imported: Imported, network: TorchNetwork, traced: Mapping, inputs: torch.Tensor) -> str:
    with torch.no_grad():
        ours = dict(network.activations(inputs))
    for name, value in imported.values.items():
        if value.node not in ours:  # a Dropout, which is left out
            continue
        theirs = torch.empty_like(ours[value.node]).flatten()
        theirs[value.places] = traced[name]
        if _difference(theirs, ours[value.node].flatten()) > TOLERANCE:
            return f"{imported.where[name]}: the layer {value.node} computes other values than the module"
    return "the network computes other values than the module"
