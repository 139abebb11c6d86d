"""Load a piece of a batch: read each image, cut its window, subtract the mean, scale it and mirror it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainmark.loading.sources import Source
from trainmark.recipes.input_transform import Windows, cut, mean_position, scaled_difference
from trainmark.recipes.recipe import InputTransform


@dataclass(frozen=True)
class Piece:
    """Some consecutive samples of a batch.

    split: the split that they are from.
    keys: `Source.keys` of the samples.
    windows: (top, left, whether mirrored) of each.
    """

    split: str
    keys: Sequence[Any]
    windows: Sequence[tuple[int, int, bool]]


def windows_of(windows: Windows, samples: np.ndarray) -> list[tuple[int, int, bool]]:
    """Return the windows of some samples, as a `Piece` has them."""
    columns = (column[samples].tolist() for column in (windows.tops, windows.lefts, windows.flips))
    return list(zip(*columns, strict=True))


class SplitLoader:
    """Loads the samples of a split. Worker processes get a copy when they start.

    input_shape: (channels, height, width) of a network input.
    """

    def __init__(self, source: Source, mean_image: np.ndarray | None, transform: InputTransform, dtype: str) -> None:
        self.source, self._transform, self.dtype = source, transform, np.dtype(dtype)
        self._size = transform.crop or source.shape[1:]
        self.input_shape = (source.shape[0], *self._size)
        self.sample_bytes = int(np.prod(self.input_shape)) * self.dtype.itemsize
        self._means: tuple[np.ndarray, ...] = ()
        if transform.subtract_mean:
            assert mean_image is not None
            self._means = tuple(self._in_layout(image) for image in (mean_image, mean_image[:, :, ::-1]))

    def _in_layout(self, image: np.ndarray) -> np.ndarray:
        """Return an image (channels, height, width) whose values lie in memory like those of the stored images."""
        if not self.source.channels_last:
            return np.ascontiguousarray(image)
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(image, 0, -1)), -1, 0)

    def batch_in(self, memory: np.ndarray, samples: int) -> np.ndarray:
        """Return the beginning of `memory` (uint8) as network inputs (samples, channels, height, width).

        Their values lie in memory like those of the stored images, in which order they are copied fastest.
        """
        channels, height, width = self.input_shape
        values = memory[: samples * self.sample_bytes].view(self.dtype)
        if self.source.channels_last:
            return np.moveaxis(values.reshape(samples, height, width, channels), -1, 1)
        return values.reshape(samples, channels, height, width)

    def load(self, piece: Piece, out: np.ndarray) -> None:
        """Write the network inputs of a piece into `out`, (samples, channels, height, width)."""
        scratch = np.empty_like(out[0], np.float64)  # in the layout of `out`
        for key, window, target in zip(piece.keys, piece.windows, out, strict=True):
            self._transform_image(self.source.read(key), *window, target, scratch)

    def _transform_image(
        self, image: np.ndarray, top: int, left: int, mirrored: bool, out: np.ndarray, scratch: np.ndarray
    ) -> None:
        """Do what `input_transform.network_inputs` does, for a window anywhere, which is mirrored afterwards if asked.

        Mirroring the bytes, and subtracting a mean that is mirrored, too, gives the same at an eighth of the traffic.
        """
        window = (top, left, *self._size)
        stored, mean = cut(image, window), None
        if self._means:
            mean_top, mean_left, height, width = mean_position(self._transform, window)
            if mirrored:
                mean_left = image.shape[2] - width - mean_left
            mean = cut(self._means[mirrored], (mean_top, mean_left, height, width))
        if mirrored:
            stored = self.source.mirror(stored)
        scaled_difference(stored, mean, self._transform.scale, out, scratch)
