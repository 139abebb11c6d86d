"""Makes a graph of layers of a torch.nn.Module, from the operations that torch.export records."""

import logging
import operator
import os
import re
import site
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.fx.node import map_arg
from torch.nn import functional as F

from trainmark.errors import ConfigError
from trainmark.importing.places import Constant, Unsayable, Value, canonical, flattened, in_order, whole
from trainmark.importing.rules import MOVES, RULES
from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape

SAMPLES = 3
"""Number of samples with which a module is traced; more than one, as normalisation needs."""

LIBRARY = [str(Path(torch.__file__).parent), *site.getsitepackages(), str(Path(os.__file__).parent)]
"""Beginnings of the paths of files that are not the user's."""


@torch.library.custom_op("trainmark::local_response_norm", mutates_args=())  # type: ignore[untyped-decorator]
def _local_response_norm(
    input: torch.Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> torch.Tensor:
    """Stand for the operations of which torch.export would make it, which no rule has."""
    return torch.empty_like(input)


_local_response_norm.register_fake(lambda input, *_, **__: torch.empty_like(input))


@dataclass(frozen=True)
class Array:
    """Where an array of a layer comes from. index: for each value, its place in the flat parameter or buffer."""

    source: str
    index: np.ndarray

    def of(self, parameter: torch.Tensor) -> np.ndarray:
        """Return the array of this value, or gradient, of the parameter."""
        taken: np.ndarray = parameter.detach().numpy().reshape(-1)[self.index]
        return taken


@dataclass(frozen=True)
class Imported:
    """A network that was imported.

    arrays: of the layers, by name, such as "conv1.kernel".
    values: the output of each node as a tensor of the module, by the operation that computes it; where: the place of
        that in the user's file, and its module.
    program: what torch.export recorded. log_probabilities: whether the module takes a log-softmax of its logits.
    """

    architecture: Architecture
    arrays: dict[str, Array]
    values: dict[str, Value]
    where: dict[str, str]
    program: Any
    log_probabilities: bool


@dataclass(frozen=True)
class Broken:
    """The result of an operation that no layer computes. It matters only if the output depends on it."""

    reason: str


def traced(module: torch.nn.Module, inputs: torch.Tensor) -> Any:
    """Return the program of a module in training. Raises ConfigError if torch.export can't record it."""
    _refuse(module)
    try:
        logging.disable()  # of the ways in which a tensor's values decide what is computed
        kept_whole = mock.patch.object(F, "local_response_norm", torch.ops.trainmark.local_response_norm)
        with kept_whole, redirect_stderr(StringIO()):
            program = torch.export.export(module.train(), (inputs,))
    except Exception as error:  # the user's code, or what torch.export says of it
        reason = _first_line(error)
        place = _users_line("\n".join([str(error), *traceback.format_tb(error.__traceback__)]))
        raise ConfigError(f"{f'{place}: ' if place else ''}PyTorch can't trace the module: {reason}") from error
    finally:
        logging.disable(logging.NOTSET)
    if not program.call_spec.out_spec.is_leaf() or not program.graph.output_node().all_input_nodes:
        raise ConfigError("the module returns no tensor, or other things beside it; a network returns its logits alone")
    program.graph.eliminate_dead_code()
    return program


def _refuse(module: torch.nn.Module) -> None:
    """Raise ConfigError for what no operation shows that torch.export records."""
    held: dict[int, str] = {}
    for name, parameter in module.named_parameters():
        if parameter.device.type != "cpu":
            raise ConfigError(f"the parameter {name} is on the device {parameter.device.type}; allowed: cpu")
        if not parameter.requires_grad:
            raise ConfigError(f"the parameter {name} is not trained (requires_grad); in a network all parameters are")
        other = held.setdefault(parameter.data_ptr(), name)
        if other != name and parameter.numel():
            raise ConfigError(f"the parameters {other} and {name} have the same memory; layers share no arrays")
    if not held:
        raise ConfigError("the module has no parameters to train")
    for name, one in module.named_modules():
        if isinstance(one, torch.nn.modules.batchnorm._BatchNorm) and one.momentum is None:
            raise ConfigError(
                f"{name} ({type(one).__name__}) averages over all steps; allowed: a number as its momentum"
            )


def _first_line(error: Exception) -> str:
    if type(error).__name__ in ("GuardOnDataDependentSymNode", "UserError", "PendingUnbackedSymbolNotFound"):
        return "what it computes next depends on values of a tensor; a network has the same layers for all inputs"
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _users_line(trace: str) -> str:
    """Return the last place in a stack that lies in the user's code: "model.py, line 12"."""
    own = Path(__file__).parents[2]
    found = [
        f"{Path(file).name}, line {line}"
        for file, line in re.findall(r'File "([^"]+)", line (\d+)', trace)
        if not file.startswith((*LIBRARY, str(own), "<"))
    ]
    return found[-1] if found else ""


class Builder:
    """Builds the graph, one operation after the other; the `Network` of rules."""

    def __init__(self, program: Any, input_shape: Shape) -> None:
        self.samples = SAMPLES
        self.result: Shape = ()
        self._program, self._graph = program, Graph(input_shape)
        self._operands: dict[Any, Any] = {}
        self._uses: dict[str, str] = {}
        self._names: set[str] = {"input"}
        self.arrays: dict[str, Array] = {}
        self.values: dict[str, Value] = {}
        self.where: dict[str, str] = {}
        self.log_probabilities: Any = None
        self._moved: dict[Any, tuple[str, Shape]] = {}
        self._module, self._latest = ("", False), ""

    # --- as rules see it --------------------------------------------------------------------------------------------

    def add(self, op: str, *inputs: Value, **attributes: float) -> tuple[str, Shape]:
        """See `places.Network`. A part of a tensor, or a tensor as a sequence, is made once."""
        moves = op in ("Flatten", "Sequence", "SliceChannels", "SelectToken")
        key = (op, inputs[0].node, *attributes.items())
        if moves and key in self._moved:
            return self._moved[key]
        module, is_layer = self._module
        name = module if is_layer and not moves else "_".join(filter(None, [module, op.lower()]))
        count = 2
        while name in self._names:
            name, count = f"{name.rstrip('0123456789').rstrip('_')}_{count}", count + 1
        self._names.add(name)
        self._graph.add(name, op, after=tuple(value.node for value in inputs), **attributes)
        self._moved[key] = name, self._graph.shape(name)
        return self._moved[key]

    def take(self, node: str, role: str, source: str, places: torch.Tensor) -> None:
        """See `places.Network`."""
        if not torch.equal(places.flatten().sort().values, in_order(self._sizes[source])):
            raise Unsayable(f"takes a part of {source}, or some of its values twice")
        if source in self._uses:
            raise Unsayable(f"uses {source}, as {self._uses[source]} does; layers share no arrays")
        self._uses[source] = node
        self.arrays[f"{node}.{role}"] = Array(source, places.numpy())

    # --- the walk ---------------------------------------------------------------------------------------------------

    def build(self, name: str) -> Imported:
        """Return the network. Raises ConfigError with the first operation that no layer computes."""
        self._start()
        output: Any = None
        for node in self._program.graph.nodes:
            if node.op == "call_function":
                self._operands[node] = self._operated(node)
            elif node.op == "output":
                output = node.args[0]
        self._check_output(output)
        unused = [one for one in self._program.graph_signature.parameters if one not in self._uses]
        if unused:
            raise ConfigError(f"the parameter {unused[0]} takes no part in the output of training; remove it")
        architecture = self._graph.architecture(name)
        is_log = self.log_probabilities is not None
        return Imported(architecture, self.arrays, self.values, self.where, self._program, is_log)

    def _start(self) -> None:
        signature, state = self._program.graph_signature, {**self._program.state_dict, **self._program.constants}
        sources = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        sources |= signature.inputs_to_lifted_tensor_constants
        self._sizes = {name: tensor.numel() for name, tensor in state.items()}
        for node in self._program.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in sources:
                tensor = state[sources[node.name]].detach()
                is_number = node.name in signature.inputs_to_lifted_tensor_constants
                places = None if is_number else in_order(*tensor.shape)
                self._operands[node] = Constant(tensor, places, "" if is_number else sources[node.name])
            else:
                self._operands[node] = canonical(self, ("input", self._graph.shape("input")))

    def _check_output(self, outputs: Any) -> None:
        """Raise ConfigError unless the module returns the output of the last layer, as logits."""
        value = self._operands[outputs[0]]
        if isinstance(value, Broken):
            raise ConfigError(value.reason)
        if self.log_probabilities not in (None, outputs[0]):
            place = self.where[self.log_probabilities.name]
            raise ConfigError(f"{place}: log_softmax is no layer; allowed: of the output")
        if isinstance(value, Value) and value.places.dim() == 1:  # one logit
            value = replace(value, places=value.places[:, None])
        if not isinstance(value, Value) or value.factor != 1 or value.places.dim() != 2:
            raise ConfigError("the module returns no logits (samples, classes)")
        try:
            value = flattened(self, whole(self, value))
        except Unsayable as error:
            raise ConfigError(f"the output of the module {error}") from error
        if value.node != self._graph.last:
            raise ConfigError("the module computes layers whose results it does not return")
        if value.shape == (1,):  # of a binary cross entropy
            self._graph.add("binary_logits", "BinaryLogits")

    def _operated(self, node: Any) -> Any:
        """Return the result of an operation: of a rule or, if no operand depends on the input, of PyTorch."""
        if node.target is not operator.getitem and not hasattr(node.target, "_schema"):
            return Broken(
                f"{_place(node) or 'the module'}: {node.target} is computed by no layer; it stands for a part under "
                "torch.no_grad, autocast or a checkpoint"
            )
        values = [self._operands[one] for one in node.all_input_nodes]
        broken = next((value for value in values if isinstance(value, Broken)), None)
        if broken:
            return broken
        if node.target is operator.getitem:
            return self._operands[node.args[0]][node.args[1]]
        name = node.target._schema.name.partition("::")[2]
        if all(isinstance(value, Constant) for value in values):
            return self._computed(name, node)
        self._latest = self.where[node.name] = _place(node)
        path, kind = _module_of(node)
        is_layer = kind.startswith("torch.nn.") and not kind.endswith(".MultiheadAttention")
        self._module = path.replace(".", "_"), is_layer
        try:
            result = self._by_rule(name, node)
        except (Unsayable, ValueError) as error:
            said = re.sub(r"^layer '\w+':? ?", "", str(error))
            result = Broken(f"{self._latest}: {name.rstrip('_')} {said}")
        if name.endswith("_"):
            self._changed_in_place(node.args[0], result)
        return result

    def _changed_in_place(self, node: Any, result: Any) -> None:
        """Let what names a tensor name its new value from now on, and refuse what it was a view of."""
        self._operands[node] = result
        while node.op == "call_function" and node.target.is_view:
            node = node.args[0]
            self._operands[node] = Broken(f"{self._latest}: changes a tensor in place through a view of it")

    def _by_rule(self, name: str, node: Any) -> Any:
        if name in ("log_softmax", "special_log_softmax") and node.args[1] in (1, -1):
            self.log_probabilities = node
            return self._operands[node.args[0]]
        rule = RULES.get(name) or RULES.get(name.rstrip("_"))
        try:
            if name in MOVES and isinstance(moved := self._operands[node.args[0]], Value):
                return self._moved_places(node, moved)
            if rule is None:
                raise Unsayable("is computed by no layer")
            self.result = tuple(node.meta["val"].shape)
            args, kwargs = map_arg((node.args, node.kwargs), self._operands.__getitem__)
            result = rule(self, *args, **kwargs)
        except (AttributeError, TypeError, LookupError, RuntimeError) as error:
            raise Unsayable("is used in a way that no layer has") from error
        if isinstance(result, Value) and result.places.shape != self.result:
            raise Unsayable("gives another shape than the layer")
        if isinstance(result, Value) and result.factor == 1:
            self.values[node.name] = result
        return result

    def _computed(self, name: str, node: Any) -> Any:
        """Return what an operation on constants gives. One that moves the values of a parameter gives these."""
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            return Broken(
                f"{_place(node)}: {node.target} draws random numbers; of random layers there is Dropout alone"
            )
        operands = {one: self._operands[one] for one in node.all_input_nodes}
        tensors = self._called(node, {one: held.tensor.clone() for one, held in operands.items()})
        first = operands.get(node.args[0]) if node.args else None
        source = next((held.source for held in operands.values() if held.source), "")
        if first is None or first.places is None or name not in MOVES | {"embedding"}:
            return _each(partial(Constant, source=source), tensors)
        places = self._called(node, {one: held.tensor for one, held in operands.items()} | {node.args[0]: first.places})
        return _each(partial(Constant, source=first.source), tensors, places)

    def _moved_places(self, node: Any, moved: Value) -> Any:
        """Return the tensors whose places an operation moves."""
        operands = {one: getattr(self._operands[one], "tensor", one.meta["val"]) for one in node.all_input_nodes}
        places = self._called(node, operands | {node.args[0]: moved.places})
        return _each(lambda one: replace(moved, places=one), places)

    def _called(self, node: Any, operands: Mapping[Any, Any]) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), operands.__getitem__)
        is_view = node.target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
        target = torch.ops.aten.reshape.default if is_view else node.target  # places lie otherwise in the memory
        return target(*args, **{key: value for key, value in kwargs.items() if key != "device"})


def _each(make: Callable[..., Any], *tensors: Any) -> Any:
    """Return what is made of tensors, or of each of several."""
    return list(map(make, *tensors)) if isinstance(tensors[0], tuple | list) else make(*tensors)


def _module_of(node: Any) -> tuple[str, str]:
    """Return the path and the type of the innermost module that an operation belongs to."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path, kind = stack[-1] if stack else ("", "")
    return path, str(kind)


def _place(node: Any) -> str:
    """Return where an operation is: "model.py, line 12, conv1 (Conv2d)"."""
    path, kind = _module_of(node)
    name = kind.rpartition(".")[2]
    line = _users_line(node.meta.get("stack_trace") or "")
    return ", ".join(filter(None, [line, f"{path} ({name})" if path else name]))
