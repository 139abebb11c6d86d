"""Initial weights, drawn by numpy from the run's seed, the same for every framework."""

from collections.abc import Callable

import numpy as np

from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Parameter

Weights = dict[str, np.ndarray]
"""Arrays by name, such as "dense1.kernel" or "bn1.moving_mean", in the shapes of `ops.Parameter`."""

Initializer = Callable[[np.random.Generator, Parameter], np.ndarray]


def _lecun_normal(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    """Normal with standard deviation sqrt(1 / fan_in), not truncated: Chainer's LeCunNormal."""
    return generator.normal(0.0, np.sqrt(1 / parameter.fan_in), parameter.shape)


def _he_normal(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    """Normal with standard deviation sqrt(2 / fan_in), not truncated: Chainer's HeNormal (He et al. 2015)."""
    return generator.normal(0.0, np.sqrt(2 / parameter.fan_in), parameter.shape)


def _he_normal_convolutions(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    """HeNormal for convolutions and LeCunNormal for dense layers, as Chainer's ResNet-50 has them."""
    return (_lecun_normal if len(parameter.shape) == 2 else _he_normal)(generator, parameter)


def _glorot_uniform(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16)."""
    limit = np.sqrt(6 / (parameter.fan_in + parameter.fan_out))
    return generator.uniform(-limit, limit, parameter.shape)


def _small_uniform(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    """Uniform in +-.05: what Keras's Embedding draws (its RandomUniform)."""
    return generator.uniform(-0.05, 0.05, parameter.shape)


def _zeros(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    return np.zeros(parameter.shape)


def _ones(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    return np.ones(parameter.shape)


KERNEL_INITIALIZERS: dict[str, Initializer] = {
    "lecun_normal": _lecun_normal,
    "he_normal": _he_normal,
    "he_normal_convolutions": _he_normal_convolutions,
    "glorot_uniform": _glorot_uniform,
}
"""Allowed values of a recipe's `initializer`, which draws the kernels."""

OTHER_INITIALIZERS: dict[str, Initializer] = {
    "bias": _zeros,
    "embeddings": _small_uniform,
    "gamma": _ones,
    "beta": _zeros,
    "moving_mean": _zeros,
    "moving_variance": _ones,
}
"""Initializers of the arrays with other roles, the same in every recipe."""


def draw_initial_weights(architecture: Architecture, initializer: str, seed: tuple[int, ...]) -> Weights:
    """Return all arrays of a network, float64, drawn in the order of the graph. Adapters cast them to the run's dtype.

    initializer: name of the initializer of the kernels, a key of KERNEL_INITIALIZERS.
    seed: the run's seed sequence (see `batch_order.run_seed`).
    """
    generator = np.random.default_rng([*seed, 0])
    initializers = {**OTHER_INITIALIZERS, "kernel": KERNEL_INITIALIZERS[initializer]}
    return {parameter.name: initializers[parameter.role](generator, parameter) for parameter in architecture.arrays()}
