"""What the loops on JAX share: an epoch as one program, its losses, and the maxima over time of a convolution."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np


def compiled(step: Callable[..., tuple]) -> tuple[Callable[..., tuple], Callable[..., Callable[..., tuple]]]:
    """Return (step, epoch): a step as a program, and a function that compiles the program of a whole epoch.

    Both programs update the state in place.

    step: a function (state, inputs, labels) -> (state, loss).

    `epoch` takes (state, batches, last, (inputs, labels)) and trains nothing: it returns the program for arrays of
    these shapes, compiled at the first call. The program takes the same arguments and returns (state, losses), after a
    step for each of the batches, sample indices (steps, batch size), and one for `last`, those of a smaller batch, if
    it is not empty.
    """

    def epoch(state: Any, batches: jax.Array, last: jax.Array, arrays: tuple) -> tuple:
        def step_of(state: Any, batch: jax.Array) -> tuple:
            return step(state, *(array[batch] for array in arrays))

        # The number of steps is part of the program: otherwise a GPU would ask the host before each whether to go on.
        whole: tuple = jax.lax.scan(step_of, state, batches)
        if not len(last):
            return whole
        state, losses = whole
        state, loss = step_of(state, last)
        return state, jax.numpy.append(losses, loss)

    jitted_step, jitted_epoch = (jax.jit(function, donate_argnums=0) for function in (step, epoch))
    programs: dict[tuple, Callable[..., tuple]] = {}

    def program(state: Any, batches: np.ndarray, last: np.ndarray, arrays: tuple) -> Callable[..., tuple]:
        types = tuple(map(jax.typeof, (batches, last, *arrays)))
        if types not in programs:
            programs[types] = jitted_epoch.lower(state, batches, last, arrays).compile()
        return programs[types]

    return jitted_step, program


LOSSES_AT_ONCE = 64
"""Number of losses that `fetched` copies at once."""


@jax.jit
def _stacked(losses: Sequence[jax.Array]) -> jax.Array:
    return jax.numpy.stack(losses)


def fetched(losses: Sequence[jax.Array]) -> np.ndarray:
    """Return the losses of single steps, float64, (steps,).

    They are stacked on the device, LOSSES_AT_ONCE by one program, because JAX would copy each by itself. The last
    group is filled up, so that any number of losses needs that program alone, which `Adapter.compile` then compiles.
    """
    groups = [losses[start : start + LOSSES_AT_ONCE] for start in range(0, len(losses), LOSSES_AT_ONCE)]
    stacks = [_stacked([*group, *[group[-1]] * (LOSSES_AT_ONCE - len(group))]) for group in groups]
    return np.concatenate(jax.device_get(stacks), dtype=np.float64)[: len(losses)]


def largest_outputs(outputs: jax.Array, inputs: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Return the largest output of each filter of a convolution of sequences, (samples, 1, filters), without bias.

    Its gradient is that of one window per filter.

    outputs: those of the convolution without padding, (samples, length, filters).
    inputs: (samples, length, channels). kernel: (size, channels, filters).
    """
    samples, length, channels = inputs.shape
    places = jax.lax.stop_gradient(outputs).argmax(1)[..., np.newaxis] * stride + np.arange(len(kernel))
    rows = np.arange(samples)[:, np.newaxis, np.newaxis] * length + places
    windows = inputs.reshape(-1, channels)[rows]
    return jax.numpy.einsum("nfsc,scf->nf", windows, kernel)[:, np.newaxis]
