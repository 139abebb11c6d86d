"""Chainer's update rules on the CPU, each compiled by LLVM into one loop.

In numpy each operation of a rule reads and writes whole arrays, of a network's size. The loops compute the same values
in the same order, so their results are the same, bit for bit. They run in one thread: others would disturb those of
OpenBLAS. On the GPU Chainer's rules are one kernel each already.
"""

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir

from trainmark.frameworks.chainer_layers import chainer

INDEX = ir.IntType(64)
REALS = {"float32": (ir.FloatType(), ctypes.c_float), "float64": (ir.DoubleType(), ctypes.c_double)}
"""LLVM's and C's type of a dtype."""


class Value:
    """A number in a loop that is being written. Its operators write LLVM's instructions."""

    def __init__(self, builder: ir.IRBuilder, register: ir.Value) -> None:
        self.builder, self.register = builder, register

    def __add__(self, other: "Value") -> "Value":
        return Value(self.builder, self.builder.fadd(self.register, other.register))

    def __sub__(self, other: "Value") -> "Value":
        return Value(self.builder, self.builder.fsub(self.register, other.register))

    def __mul__(self, other: "Value") -> "Value":
        return Value(self.builder, self.builder.fmul(self.register, other.register))

    def __truediv__(self, other: "Value") -> "Value":
        return Value(self.builder, self.builder.fdiv(self.register, other.register))

    def sqrt(self) -> "Value":
        """Return the square root."""
        root = self.builder.module.declare_intrinsic("llvm.sqrt", [self.register.type])
        return Value(self.builder, self.builder.call(root, [self.register]))


Values = tuple[Value, ...]


def _adam(
    weight: Value, gradient: Value, first: Value, second: Value, rate: Value, part_1: Value, part_2: Value,
    epsilon: Value,
) -> Values:  # fmt: skip
    first += part_1 * (gradient - first)
    second += part_2 * (gradient * gradient - second)
    return weight - rate / (second.sqrt() + epsilon) * first, first, second


def _rmsprop(
    weight: Value, gradient: Value, square: Value, rate: Value, rho: Value, part: Value, epsilon: Value
) -> Values:
    square = square * rho + part * gradient * gradient
    return weight - rate * gradient / (square.sqrt() + epsilon), square


class Rule(NamedTuple):
    """An update rule.

    update: function (weight, gradient, each state, each constant) -> (new weight, each new state).
    states: names of the states in Chainer.
    constants: function of Chainer's rule that returns the constants.
    """

    update: Callable[..., Values]
    states: tuple[str, ...]
    constants: Callable[[chainer.UpdateRule], tuple[float, ...]]


def _constants_of_adam(rule: chainer.UpdateRule) -> tuple[float, ...]:
    constants = rule.hyperparam
    return rule.alpha_t, 1 - constants.beta1, 1 - constants.beta2, constants.eps


def _constants_of_rmsprop(rule: chainer.UpdateRule) -> tuple[float, ...]:
    constants = rule.hyperparam
    return constants.lr, constants.alpha, 1 - constants.alpha, constants.eps


RULES = {
    "adam": Rule(_adam, ("m", "v"), _constants_of_adam),
    "adam_algorithm_1": Rule(_adam, ("m", "v"), _constants_of_adam),
    "rmsprop": Rule(_rmsprop, ("ms",), _constants_of_rmsprop),
}
"""The update rules that are compiled, by their names in recipes."""


def _written(rule: Rule, constants: int, real: ir.Type) -> ir.Module:
    """Return a module of a function `update` (size, pointer to each array, each constant). size: at least 1."""
    module, arrays = ir.Module(), 2 + len(rule.states)
    kinds = [INDEX, *[real.as_pointer()] * arrays, *[real] * constants]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "update")
    size, pointers, numbers = function.args[0], function.args[1 : 1 + arrays], function.args[1 + arrays :]
    for pointer in pointers:
        pointer.add_attribute("noalias")
    before, loop, after = (function.append_basic_block() for _ in range(3))
    ir.IRBuilder(before).branch(loop)
    builder = ir.IRBuilder(loop)
    i = builder.phi(INDEX)
    places = [builder.gep(pointer, [i], source_etype=real) for pointer in pointers]
    loaded = [builder.load(place, typ=real) for place in places]
    results = rule.update(*(Value(builder, register) for register in (*loaded, *numbers)))
    for place, result in zip([places[0], *places[2:]], results, strict=True):  # all but the gradient
        builder.store(result.register, place)
    following = builder.add(i, INDEX(1))
    i.add_incoming(INDEX(0), before)
    i.add_incoming(following, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, size), loop, after)
    ir.IRBuilder(after).ret_void()
    return module


@cache
def _compiled(rule: Rule, constants: int, dtype: str) -> tuple[Callable[..., None], Any]:
    """Return (the function `update` for arrays of a dtype, what must live as long as it)."""
    real, c_real = REALS[dtype]
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.parse_assembly(str(_written(rule, constants, real)))
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    pointers = [ctypes.c_void_p] * (2 + len(rule.states))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *pointers, *[c_real] * constants)
    return prototype(engine.get_function_address("update")), engine


def _update(rule: Rule, of_chainer: chainer.UpdateRule, parameter: chainer.Parameter) -> None:
    constants = rule.constants(of_chainer)
    update, _ = _compiled(rule, len(constants), parameter.dtype.name)
    gradient = parameter.grad.ravel()  # a copy, unless it is contiguous
    arrays = [parameter.array, gradient, *(of_chainer.state[name] for name in rule.states)]
    assert all(array.flags.c_contiguous for array in arrays)  # as Chainer allocates them; the loop takes addresses
    update(parameter.size, *(array.ctypes.data for array in arrays), *constants)


def fuse_updates(network: chainer.Link, name: str) -> None:
    """Let the optimizer of a network update its parameters with compiled loops, if its rule has one.

    name: of the rule, as in recipes.
    """
    for parameter in network.params() if name in RULES else ():
        parameter.update_rule.update_core_cpu = partial(_update, RULES[name], parameter.update_rule)
