"""First weights, made once with numpy from the run's seed, the same for every framework."""

from collections.abc import Callable

import numpy as np

from trainmark.architecture import Architecture, Parameter

Weights = dict[str, np.ndarray]
"""Arrays by parameter name ("dense1.kernel"), in the canonical shapes of `architecture.Parameter`."""


def _lecun_normal(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    """Normal with standard deviation sqrt(1 / fan_in), not truncated: Chainer's LeCunNormal."""
    return generator.normal(0.0, np.sqrt(1 / parameter.fan_in), parameter.shape)


def _glorot_uniform(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16)."""
    limit = np.sqrt(6 / (parameter.fan_in + parameter.fan_out))
    return generator.uniform(-limit, limit, parameter.shape)


INITIALIZERS: dict[str, Callable[[np.random.Generator, Parameter], np.ndarray]] = {
    "lecun_normal": _lecun_normal,
    "glorot_uniform": _glorot_uniform,
}


def first_weights(architecture: Architecture, initializer: str, seed: tuple[int, ...]) -> Weights:
    """Kernels from the named initializer, biases zero; float64, drawn in the order of the graph.

    `seed` is the run's seed sequence (see `batches.run_seed`). Adapters cast to the run's dtype.
    """
    generator = np.random.default_rng([*seed, 0])
    return {
        parameter.name: INITIALIZERS[initializer](generator, parameter)
        if parameter.role == "kernel"
        else np.zeros(parameter.shape)
        for parameter in architecture.parameters()
    }
