"""The tuned loop of Keras on JAX: steps without Keras's `fit`, which update their state in place."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import jax
import keras
import numpy as np

from trainmark.frameworks.keras_layers import dense
from trainmark.frameworks.keras_losses import mean_cross_entropy

THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Rotations of Threefry-2x32's rounds, by turns (Salmon et al. 2011, table 2)."""


IN_PLACE = {"xla_cpu_copy_insertion_use_region_analysis": True}
"""Compiler option with which XLA sees that weights are read for the last time before they are updated in place."""


def threefry(key: jax.Array, counts: jax.Array) -> jax.Array:
    """Return the random bits of `jax.random.bits(key, shape)`, uint32, for the counts 0, 1, ... in that shape.

    JAX's own function loops over the rounds on the CPU, and passes over the whole arrays in each. Written out here,
    XLA computes all 20 rounds in one pass. Source of the algorithm: Salmon et al. 2011, Parallel random numbers: as
    easy as 1, 2, 3.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    first, second = keys[0], counts + keys[1]
    for group in range(5):
        for rotation in THREEFRY_ROTATIONS[group % 2]:
            first = first + second
            second = first ^ (second << np.uint32(rotation) | second >> np.uint32(32 - rotation))
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + np.uint32(group + 1)
    return first ^ second


class Dropout(keras.layers.Dropout):
    """Dropout with the masks that Keras's own layer draws in float32, in a fraction of its time on the CPU.

    Without the barrier, XLA would draw the masks a second time for the gradient, instead of reading them.
    """

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Drop values in training."""
        if not training or not self.rate:
            return inputs
        counts = jax.lax.iota("uint32", inputs.size).reshape(inputs.shape)
        bits = threefry(self.seed_generator.next(), counts)
        kept = bits >> np.uint32(9) < np.uint32(np.ceil(np.float32(1 - self.rate) * 2**23))  # as jax.random.bernoulli
        return jax.numpy.where(jax.lax.optimization_barrier(kept), inputs / (1 - self.rate), 0)


NARROW = 32
"""A layer with at least this many times as many inputs as units is narrow (tests/benchmarks/narrow_layers.py)."""


@jax.custom_vjp
def narrow_product(inputs: jax.Array, kernel: jax.Array) -> jax.Array:
    """Return inputs (samples, size) times kernel (size, units), with a gradient of the kernel that is computed faster.

    On the CPU, XLA takes up to 15 times as long for a matrix of few columns as for its transpose. The barrier keeps it
    from exchanging the two.
    """
    return inputs @ kernel


def _forward(inputs: jax.Array, kernel: jax.Array) -> tuple:
    return inputs @ kernel, (inputs, kernel)


def _backward(operands: tuple, gradient: jax.Array) -> tuple:
    inputs, kernel = operands
    return gradient @ kernel.T, jax.lax.optimization_barrier(gradient.T @ inputs).T


narrow_product.defvjp(_forward, _backward)


class Dense(keras.layers.Dense):
    """A dense layer of Keras that computes its product by `narrow_product` if it is narrow."""

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Multiply by the kernel and add the bias."""
        if inputs.shape[-1] < NARROW * self.units:
            return super().call(inputs, training)
        outputs = narrow_product(inputs, self.kernel.value)
        return outputs + self.bias.value if self.use_bias else outputs


class JaxPrograms:
    """See `keras_tuned.Programs`."""

    layers: Mapping[str, Mapping[str, Callable]] = MappingProxyType(
        {
            "masks": {"Dropout": lambda node, rank: Dropout(node.attributes["rate"], name=node.name)},
            "narrow": {"Dense": lambda node, rank: dense(node, Dense)},
        }
    )

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        auxiliary_weights: tuple,
        steps: Collection[str],
    ) -> None:
        self._variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
        self._state: tuple = ()

        def loss(trained: list, others: list, inputs: Any, labels: Any) -> tuple:
            outputs, others = model.stateless_call(trained, others, inputs, training=True)
            return mean_cross_entropy(labels, outputs, auxiliary_weights), others

        differentiated = jax.value_and_grad(loss, has_aux=True)

        def step(state: tuple, inputs: Any, labels: Any) -> tuple:
            trained, others, constants = state
            (value, others), gradients = differentiated(trained, others, inputs, labels)
            trained, constants = optimizer.stateless_apply(constants, gradients, trained)
            return (trained, others, constants), value

        def loop(state: tuple, batches: Any, last: Any, count: Any, arrays: tuple) -> tuple:
            inputs, labels = arrays

            def body(i: Any, carried: tuple) -> tuple:
                state, losses = carried
                state, value = step(state, inputs[batches[i]], labels[batches[i]])
                return state, losses.at[i].set(value)

            losses = jax.numpy.zeros(len(batches), keras.config.floatx())
            state, losses = jax.lax.fori_loop(0, count, body, (state, losses))
            if len(last):
                state, value = step(state, inputs[last], labels[last])
                losses = jax.numpy.append(losses, value)
            return state, losses

        options = IN_PLACE if "copies" in steps else None
        self._step, self._loop = (
            jax.jit(function, donate_argnums=0, compiler_options=options) for function in (step, loop)
        )

    def loop(self, batches: np.ndarray, last: np.ndarray, count: int, arrays: tuple) -> Any:
        self._state, losses = self._loop(self._state, batches, last, count, arrays)
        return losses

    def step(self, inputs: Any, labels: Any) -> Any:
        self._state, loss = self._step(self._state, inputs, labels)
        return loss

    def send(self, inputs: np.ndarray, labels: np.ndarray) -> tuple:
        return jax.block_until_ready(jax.device_put((inputs, labels)))

    def begin(self) -> None:
        self._state = tuple([variable.value for variable in variables] for variables in self._variables)

    def finish(self) -> None:
        for variables, values in zip(self._variables, self._state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        self._state = ()
