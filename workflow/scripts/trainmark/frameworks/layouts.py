"""The layouts of arrays. An architecture has images with the channels first, and kernels with the outputs last."""

import numpy as np

from trainmark.networks.ops import Parameter, Shape

KERNEL_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 2, 0, 1)}
"""Axes of a kernel with the outputs first, as in Chainer and torch, by their number: (units, inputs), (filters, inputs,
size), (filters, inputs, height, width)."""


def outputs_first(parameter: Parameter, array: np.ndarray) -> np.ndarray:
    """Return an array of the architecture, a kernel with its outputs first."""
    return array.transpose(_axes(parameter))


def outputs_last(parameter: Parameter, array: np.ndarray) -> np.ndarray:
    """Return a copy of what `outputs_first` returned in the layout of the architecture."""
    return np.array(array.transpose(np.argsort(_axes(parameter))))


def shape_with_outputs_last(parameter: Parameter, shape: Shape) -> Shape:
    """Return the shape of an array with its outputs first in the layout of the architecture."""
    return tuple(shape[axis] for axis in np.argsort(_axes(parameter)))


def _axes(parameter: Parameter) -> tuple[int, ...]:
    return KERNEL_AXES[len(parameter.shape)] if parameter.role == "kernel" else tuple(range(len(parameter.shape)))


def channels_last(shape: Shape) -> Shape:
    """Return a layer's shape with the channels last."""
    return (*shape[1:], shape[0]) if len(shape) > 1 else shape


def channels_first(shape: Shape) -> Shape:
    """Return a layer's shape with the channels first, from one with the channels last."""
    return (shape[-1], *shape[:-1])


def to_channels_last(batch: np.ndarray) -> np.ndarray:
    """Return a batch with the channels last."""
    return np.ascontiguousarray(np.moveaxis(batch, 1, -1)) if batch.ndim > 2 else batch


def to_channels_first(batch: np.ndarray) -> np.ndarray:
    """Return a batch with the channels first, from one with the channels last."""
    return np.moveaxis(batch, -1, 1) if batch.ndim > 2 else batch
