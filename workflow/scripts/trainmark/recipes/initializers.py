"""The initializers of kernels, by name. Imports no numpy, so that a config is checked without it."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from trainmark.networks.ops import Parameter

if TYPE_CHECKING:
    from numpy import ndarray
    from numpy.random import Generator

Initializer: TypeAlias = Callable[["Generator", Parameter], "ndarray"]


def _lecun_normal(generator: "Generator", parameter: Parameter) -> "ndarray":
    """Normal with standard deviation sqrt(1 / fan_in), not truncated: Chainer's LeCunNormal."""
    return generator.normal(0.0, math.sqrt(1 / parameter.fan_in), parameter.shape)


def _he_normal(generator: "Generator", parameter: Parameter) -> "ndarray":
    """Normal with standard deviation sqrt(2 / fan_in), not truncated: Chainer's HeNormal (He et al. 2015)."""
    return generator.normal(0.0, math.sqrt(2 / parameter.fan_in), parameter.shape)


def _he_normal_convolutions(generator: "Generator", parameter: Parameter) -> "ndarray":
    """HeNormal for convolutions and LeCunNormal for dense layers, as Chainer's ResNet-50 has them."""
    return (_lecun_normal if len(parameter.shape) == 2 else _he_normal)(generator, parameter)


def _glorot_uniform(generator: "Generator", parameter: Parameter) -> "ndarray":
    """Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16)."""
    limit = math.sqrt(6 / (parameter.fan_in + parameter.fan_out))
    return generator.uniform(-limit, limit, parameter.shape)


def _torch(generator: "Generator", parameter: Parameter) -> "ndarray":
    """Uniform in +-1 / sqrt(fan_in), as torch.nn.Linear and Conv2d draw (kaiming_uniform with a = sqrt(5))."""
    limit = 1 / math.sqrt(parameter.fan_in)
    return generator.uniform(-limit, limit, parameter.shape)


KERNEL_INITIALIZERS: dict[str, Initializer] = {
    "lecun_normal": _lecun_normal,
    "he_normal": _he_normal,
    "he_normal_convolutions": _he_normal_convolutions,
    "glorot_uniform": _glorot_uniform,
    "torch": _torch,
}
"""Allowed values of a recipe's `initializer`, which draws the kernels."""

OTHERS_OF: dict[str, dict[str, Initializer]] = {
    "torch": {
        "bias": _torch,
        "embeddings": lambda generator, parameter: generator.normal(0.0, 1.0, parameter.shape),
    }
}
"""The arrays of other roles that an initializer draws, too. torch.nn.Embedding is normal."""
