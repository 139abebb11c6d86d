"""Transforms stored samples to network inputs."""

import numpy as np

from trainmark.recipes.recipe import InputTransform


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
    """Return network inputs: images transformed by `apply`, token ids as they are stored, copied into memory.

    stored: images, or token ids int32 (samples, length).
    mean_image, dtype: see `apply`.
    transform: None for token ids.
    """
    if transform is None:
        return np.array(stored, np.int32)
    return apply(stored, mean_image, transform, dtype)


def apply(images: np.ndarray, mean_image: np.ndarray | None, transform: InputTransform, dtype: str) -> np.ndarray:
    """Return (window of the image - window of the mean image) * scale.

    images: uint8, (samples, channels, height, width).
    mean_image: float64, (channels, height, width); may be None if the transform does not subtract it.
    dtype: dtype of the result, (samples, channels, window height, window width).

    The arithmetic is float64 and the result is rounded once, so that every framework gets the same bits.
    """
    top, left, height, width = centre_window(images.shape[2:], transform.crop)
    window = images[:, :, top : top + height, left : left + width]
    out = np.empty(window.shape, dtype)
    mean: np.ndarray | float = 0.0
    if transform.subtract_mean:
        assert mean_image is not None
        mean_top, mean_left = (top, left) if transform.mean_window == "same" else (0, 0)
        mean = mean_image[:, mean_top : mean_top + height, mean_left : mean_left + width]
    # In blocks, because a float64 copy of a whole dataset may not fit into memory.
    for start in range(0, len(window), 4096):
        block = slice(start, start + 4096)
        out[block] = (window[block] - mean) * transform.scale
    return out
