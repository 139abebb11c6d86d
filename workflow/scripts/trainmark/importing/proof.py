"""Compares an imported network with its torch.nn.Module, in float64 and value by value."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from trainmark.errors import ConfigError, in_one_sentence
from trainmark.frameworks.layouts import outputs_first, outputs_last
from trainmark.frameworks.torch_layers import LAYERS
from trainmark.frameworks.torch_layers import Network as TorchNetwork
from trainmark.importing.network import Imported
from trainmark.networks.graph import Architecture
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


def as_module(architecture: Architecture, weights: Weights, dtype: torch.dtype) -> TorchNetwork:
    """Return the network of torch's layers, as runs train it, with these weights."""
    network = TorchNetwork(architecture, dtype, torch.device("cpu"), LAYERS)
    with torch.no_grad():
        for parameter in architecture.arrays():
            array = outputs_first(parameter, weights[parameter.name])
            network.array_of(parameter).copy_(torch.from_numpy(array))
    return network


def prove(imported: Imported, module: torch.nn.Module, inputs: torch.Tensor) -> float:
    """Return the largest difference of outputs, gradients and running statistics, as a share of the largest value.

    Two steps of training, the second one with more samples, and eval mode are compared, with dropout off. All arrays of
    the module, whose values change, get other values: nothing hides behind zeros.

    Raises ConfigError with the first operation or array that differs by more than TOLERANCE.
    """
    architecture = imported.architecture.without_dropout()
    inputs = torch.cat([inputs, inputs[:2].flip(0)]) if architecture.takes_tokens else _drawn(inputs)
    try:
        module.double()
        _change(imported, module, architecture)
        network = as_module(architecture, initial_weights(imported, module), torch.float64)
        compared = _Compared(imported, module, network)
        with torch.enable_grad():
            return max(compared.step(inputs[:-2]), compared.step(inputs), compared.evaluation(inputs))
    except ConfigError:
        raise
    except Exception as error:  # of the user's code, or of what PyTorch does with it
        raise ConfigError(f"a step of the module fails in float64: {in_one_sentence(error)}") from error


def _drawn(inputs: torch.Tensor) -> torch.Tensor:
    values = np.random.default_rng(1).normal(size=(len(inputs) + 2, *inputs.shape[1:]))
    return torch.from_numpy(values)


def _change(imported: Imported, module: torch.nn.Module, architecture: Architecture) -> None:
    """Change the values of the module's arrays by a tenth, or by so much that zeros are none any more."""
    state, generator = _state(module), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in architecture.arrays():
            source = imported.arrays[parameter.name].source
            array = state[source]
            if not array.isfinite().all():
                raise ConfigError(f"{source} holds values that are no finite numbers")
            noise = torch.randn(array.shape, generator=generator, dtype=array.dtype)
            if parameter.role == "moving_variance":
                array.mul_(noise.abs() + 0.5)
            else:
                array.add_(noise * max(0.1 * float(array.square().mean().sqrt()), 0.05))


class _Compared:
    """A module and its network, with the same values of the arrays."""

    def __init__(self, imported: Imported, module: torch.nn.Module, network: TorchNetwork) -> None:
        self._imported, self._module, self._network, self._steps = imported, module, network, 0
        self._parameters = {parameter.name: parameter for parameter in imported.architecture.arrays()}

    def step(self, inputs: torch.Tensor) -> float:
        """Return the largest difference of the logits, gradients and running statistics of a step of training."""
        self._module.train()
        self._network.train()
        self._module.zero_grad()
        self._network.zero_grad()
        rates = [node.attributes["rate"] for node in self._imported.architecture.nodes if node.op == "Dropout"]
        theirs, ours = self._outputs(inputs, rates)
        difference = _difference(theirs, ours)
        self._steps += 1
        if difference > TOLERANCE:
            if self._steps > 1:
                raise ConfigError(
                    "the module computes other values in a second step, or of another number of samples; a network "
                    "has the same layers in all steps"
                )
            traced = _traced_values(self._imported, self._module, inputs)
            raise ConfigError(_first_that_differs(self._imported, self._network, traced, inputs))
        direction = torch.from_numpy(np.random.default_rng(1).normal(size=theirs.shape))
        (theirs * direction).sum().backward()
        (ours * direction).sum().backward()
        return max(difference, self._arrays())

    def evaluation(self, inputs: torch.Tensor) -> float:
        """Return the difference of the logits in eval mode."""
        self._module.eval()
        self._network.eval()
        with torch.no_grad():
            difference = _difference(*self._outputs(inputs, []))
        if difference > TOLERANCE:
            raise ConfigError("in eval mode the module computes other layers than in training; a network has the same")
        return difference

    def _outputs(self, inputs: torch.Tensor, rates: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits of both. rates: of the module's dropout."""
        before = _random_states()
        with _WithoutDropout() as dropout:
            theirs = self._module(inputs)
        if _random_states() != before:
            raise ConfigError("the module draws random numbers; of random layers a network has Dropout alone")
        if dropout.rates != rates:
            mode = "training" if self._module.training else "eval mode"
            raise ConfigError(f"in {mode} the module drops at the rates {dropout.rates}, and not always at {rates}")
        return _logits(self._imported, theirs), _logits(self._imported, self._network(inputs)[0])

    def _arrays(self) -> float:
        """Return the largest difference of gradients and of running statistics."""
        state, largest = _state(self._module), 0.0
        # Before a normalisation, the gradient of a bias is 0 but for rounding.
        least = LEAST_SCALE * max(float(one.grad.abs().max()) for one in state.values() if one.grad is not None)
        for name, array in reversed(self._imported.arrays.items()):
            parameter = self._parameters[name]
            theirs, ours = state[array.source], self._network.array_of(parameter)
            if parameter.trained:
                theirs, ours = theirs.grad, ours.grad
            if theirs is None:
                raise ConfigError(f"{array.source} has no gradient in the module; in a network all arrays are trained")
            found = outputs_last(parameter, ours.detach().numpy())
            difference = _difference(torch.from_numpy(array.of(theirs)), torch.from_numpy(found), least)
            largest = max(largest, difference)
            if difference > TOLERANCE:
                what = "gradient" if parameter.trained else "running statistics"
                raise ConfigError(
                    f"the {what} of {array.source} is another one than that of the layer {parameter.layer}: the "
                    "module has a backward pass of its own, or keeps gradients back, there or in a layer after it"
                )
        return largest


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _logits(imported: Imported, output: torch.Tensor) -> torch.Tensor:
    """Return what is compared: of two logits (0, z) the second one, if the module gives one logit z."""
    if imported.architecture.nodes[-1].op == "BinaryLogits":
        return output.reshape(len(output), -1)[:, -1:]
    return F.log_softmax(output, 1) if imported.log_probabilities else output


def _difference(first: torch.Tensor, second: torch.Tensor, least: float = 1e-30) -> float:
    if first.shape != second.shape:
        return float("inf")
    scale = max(float(first.detach().abs().max()), least)
    difference = float((first - second).detach().abs().max()) / scale
    return difference if difference == difference else float("inf")


class _WithoutDropout(TorchFunctionMode):  # type: ignore[misc]
    """Leaves out the dropout of what is called, and collects its rates."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, or pass the input of dropout on."""
        kwargs = kwargs or {}
        if func not in (F.dropout, torch.dropout, torch.dropout_):
            return func(*args, **kwargs)
        named = {"p": 0.5, "training": True, **dict(zip(("input", "p", "training"), args, strict=False)), **kwargs}
        if named.get("train", named["training"]) and named["p"]:
            self.rates.append(named["p"])
        return named["input"]


def _random_states() -> tuple:
    """Return the states of the generators that a module may draw from."""
    return random.getstate(), str(np.random.get_state(legacy=False)), torch.get_rng_state().numpy().tobytes()


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
