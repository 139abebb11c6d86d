"""Initial weights, the same for every framework: drawn by numpy from the run's seed, or read from a file."""

import hashlib
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trainmark.errors import DataError, why
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Parameter
from trainmark.recipes.initializers import KERNEL_INITIALIZERS, OTHERS_OF, Initializer
from trainmark.recipes.weights_file import initial_weights_file, is_weight, why_unfit

Weights = dict[str, np.ndarray]
"""Arrays by name, such as "dense1.kernel" or "bn1.moving_mean", in the shapes of `ops.Parameter`."""


def sha256_of_weights(weights: Weights) -> str:
    """Return a digest of names, shapes and values. Frameworks that hold the same float32 weights have the same."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name], "<f4")
        digest.update(f"{name} {array.shape} ".encode())
        digest.update(array.data)
    return digest.hexdigest()


def random_signs(weights: Weights, seed: int) -> Weights:
    """Return 1 or -1 for each value, drawn by numpy."""
    generator = np.random.default_rng(seed)
    return {name: 2 * generator.integers(0, 2, array.shape) - 1 for name, array in weights.items()}


def perturb(weights: Weights, change: float, seed: int) -> Weights:
    """Return a copy with each value changed by `change` of itself, up or down at random; zeros stay zero."""
    signs = random_signs(weights, seed)
    return {name: (array * (1 + change * signs[name])).astype(array.dtype) for name, array in weights.items()}


def _zeros(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    return np.zeros(parameter.shape)


def _uniform(generator: np.random.Generator, parameter: Parameter) -> np.ndarray:
    return generator.uniform(-0.05, 0.05, parameter.shape)


OTHER_INITIALIZERS: dict[str, Initializer] = {
    "bias": _zeros,
    "embeddings": _uniform,
    "positions": _uniform,
    "token": _uniform,
    "gamma": lambda generator, parameter: np.ones(parameter.shape),
    "beta": _zeros,
    "moving_mean": _zeros,
    "moving_variance": lambda generator, parameter: np.ones(parameter.shape),
}
"""Initializers of the arrays with other roles. Keras's Embedding draws in +-.05."""


def draw_initial_weights(architecture: Architecture, initializer: str, seed: tuple[int, ...]) -> Weights:
    """Return all arrays of a network, float64, drawn in the order of the graph. Adapters cast them to the run's dtype.

    initializer: name of the initializer of the kernels, a key of KERNEL_INITIALIZERS.
    seed: the run's seed sequence (see `ResolvedTraining.seed`).
    """
    generator = np.random.default_rng([*seed, 0])
    others = {**OTHER_INITIALIZERS, **OTHERS_OF.get(initializer, {})}
    initializers = {**others, "kernel": KERNEL_INITIALIZERS[initializer]}
    return {parameter.name: initializers[parameter.role](generator, parameter) for parameter in architecture.arrays()}


def initial_weights_of(
    settings: Mapping, architecture: Architecture, initializer: str, seed: tuple[int, ...], *, resized: bool = False
) -> Weights:
    """Return the weights from which a run starts: those of the file `initial_weights`, or drawn ones, float64.

    settings: the experiment's settings by key.
    resized: the network has another input size than in runs, as in certified steps. Kernels of Dense layers may then
        have other shapes; arrays that do not have the shape of the file's are drawn.

    Raises DataError if the file is missing or damaged, has numbers that are not finite, or is of another network.
    """
    file = initial_weights_file(settings)
    if file is None:
        return draw_initial_weights(architecture, initializer, seed)
    if not resized and (why := why_unfit(file, architecture)):
        raise _unusable(file, why)
    stored = _read_finite(file)
    if not resized:
        return {parameter.name: stored[parameter.name] for parameter in architecture.arrays()}
    drawn = draw_initial_weights(architecture, initializer, seed)
    fits = {name: name in stored and stored[name].shape == array.shape for name, array in drawn.items()}
    return {name: stored[name] if fits[name] else array for name, array in drawn.items()}


def read_arrays(file: Path) -> Weights:
    """Return the network's arrays in a file of weights, by name. Raises ValueError if it is damaged or has objects."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if is_weight(name)}
    except (AttributeError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error  # AttributeError: a single array instead of an archive


def _read_finite(file: Path) -> Weights:
    try:
        weights = {name: array.astype(np.float64) for name, array in read_arrays(file).items()}
    except OSError as error:
        raise _unusable(file, f"can't be read {why(error)}") from error
    except ValueError as error:
        raise _unusable(file, f"is damaged ({error})") from error
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise _unusable(file, f"has NaN or infinity in {name}: its training diverged")
    return weights


def _unusable(file: Path, why: str) -> DataError:
    return DataError(
        f"initial_weights: {file} {why}; give weights.npz of a run of the same network and number of classes"
    )
