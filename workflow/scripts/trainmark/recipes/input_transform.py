"""Transforms stored samples to network inputs."""

from dataclasses import dataclass

import numpy as np

from trainmark.recipes.recipe import InputTransform


@dataclass(frozen=True)
class Windows:
    """The window that is taken from each image of a split in one epoch.

    tops, lefts: position of the first row and column, int64, (samples,).
    flips: whether it is mirrored left to right, bool, (samples,).
    """

    tops: np.ndarray
    lefts: np.ndarray
    flips: np.ndarray


def draw_windows(
    samples: int, image_shape: tuple[int, int], transform: InputTransform, seed: tuple[int, ...]
) -> Windows:
    """Draw the windows of an epoch, by sample index: each position in the image is equally likely, the last included.

    image_shape: (height, width) of the stored images.
    seed: `EpochFeed.augmentation_seed`.
    """
    generator = np.random.default_rng(seed)
    height, width = transform.crop or image_shape
    top, left, _, _ = centre_window(image_shape, transform.crop)
    tops, lefts, flips = np.full(samples, top), np.full(samples, left), np.zeros(samples, bool)
    if transform.random_crop:
        tops = generator.integers(image_shape[0] - height, size=samples, endpoint=True)
        lefts = generator.integers(image_shape[1] - width, size=samples, endpoint=True)
    if transform.random_flip:
        flips = generator.random(samples) < 0.5
    return Windows(tops, lefts, flips)


def centre_window(image_shape: tuple[int, int], crop: tuple[int, int] | None) -> tuple[int, int, int, int]:
    """Return (top, left, height, width) of the centred window in an image of (height, width).

    crop: (height, width) of the window; None for the whole image.
    """
    if crop is None:
        return (0, 0, *image_shape)
    return ((image_shape[0] - crop[0]) // 2, (image_shape[1] - crop[1]) // 2, *crop)


def network_inputs(
    stored: np.ndarray, mean_image: np.ndarray | None, transform: InputTransform | None, dtype: str
) -> np.ndarray:
    """Return (window of the image - window of the mean image) * scale; token ids as they are, copied into memory.

    stored: images, uint8 (samples, channels, height, width), or token ids, int32 (samples, length).
    mean_image: float64, (channels, height, width); may be None if the transform does not subtract it.
    transform: None for token ids.
    dtype: dtype of the inputs, (samples, channels, window height, window width).

    The arithmetic is float64 and the result is rounded once, so that every framework gets the same bits.
    """
    if transform is None:
        return np.array(stored, np.int32)
    window = centre_window(stored.shape[2:], transform.crop)
    stored, mean = cut(stored, window), None
    if transform.subtract_mean:
        assert mean_image is not None
        mean = cut(mean_image, mean_position(transform, window))
    out = np.empty(stored.shape, dtype)
    # In blocks, because a float64 copy of a whole dataset may not fit into memory.
    for start in range(0, len(stored), 4096):
        block = slice(start, start + 4096)
        scaled_difference(stored[block], mean, transform.scale, out[block], np.empty(out[block].shape))
    return out


def cut(images: np.ndarray, window: tuple[int, int, int, int]) -> np.ndarray:
    """Return a view on a window (top, left, height, width) of images (..., height, width)."""
    top, left, height, width = window
    return images[..., top : top + height, left : left + width]


def mean_position(transform: InputTransform, window: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Return the window of the mean image that is subtracted from this window of an image."""
    return window if transform.mean_window == "same" else (0, 0, *window[2:])


def scaled_difference(
    stored: np.ndarray, mean: np.ndarray | None, scale: float, out: np.ndarray, scratch: np.ndarray
) -> None:
    """Write (stored - mean) * scale into `out`, computed in float64 and rounded once.

    scratch: float64, in the shape of `out`; its content is overwritten. This is the fastest of the equal ways in numpy.
    """
    scratch[...] = stored
    if mean is not None:
        np.subtract(scratch, mean, out=scratch)
    np.multiply(scratch, scale, out=scratch)
    out[...] = scratch
