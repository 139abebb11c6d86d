"""The mean image of a training set. Integer sums make it exact for any order and any number of workers."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from trainmark.console import say_when_long
from trainmark.datasets import prepared
from trainmark.datasets.images.lists import CHUNK, load_checked, prepared_paths
from trainmark.datasets.images.packed import IMAGE_SHAPE, open_store, read_blocks
from trainmark.datasets.images.parallel import chunks, in_order
from trainmark.files.whole import written_whole

BLOCK = 4096
"""Images of an array that are summed at a time, to bound memory; with integer sums it does not change the result."""


def mean_of_dataset(folder: Path, packed: Path | None, workers: int) -> np.ndarray:
    """Mean training image of a prepared dataset, float64 (channels, height, width).

    packed: the packed store, if there is one; the result is the same from the files.
    """
    manifest = prepared.read_manifest(folder)
    title = f"{manifest['dataset']}: mean image"
    if manifest["kind"] == "images":
        return mean_image(prepared.read_split(folder, "train")[0], title)
    if packed:
        sums = ((len(block), block.sum(axis=0, dtype=np.uint64)) for block in read_blocks(packed))
        mean = _mean(sums, len(open_store(packed)), title)
    else:
        mean = mean_of_files(prepared_paths(folder, "train"), workers, title)
    return np.ascontiguousarray(np.moveaxis(mean, -1, 0))


def mean_image(images: np.ndarray, title: str = "mean image") -> np.ndarray:
    """Mean over the first axis of uint8 images, float64. title: text of the progress bar."""
    blocks = (images[start : start + BLOCK] for start in range(0, len(images), BLOCK))
    return _mean(((len(block), block.sum(axis=0, dtype=np.uint64)) for block in blocks), len(images), title)


def mean_of_files(paths: Sequence[Path], workers: int, title: str = "mean image") -> np.ndarray:
    """Mean of image files at the stored size, float64 IMAGE_SHAPE, in `workers` threads.

    Raises DataError if a file was damaged after it had been prepared.
    """

    def sum_of(chunk: list[Path]) -> tuple[int, np.ndarray]:
        total = np.zeros(IMAGE_SHAPE, np.uint16)  # holds 257 images
        for path in chunk:
            np.add(total, load_checked(path), out=total)
        return len(chunk), total

    return _mean(in_order(sum_of, chunks(paths, CHUNK), workers), len(paths), title)


def _mean(sums: Iterable[tuple[int, np.ndarray]], samples: int, title: str) -> np.ndarray:
    """Mean of `samples` images from (number of images, sum) of their parts; a single division rounds once."""
    total: np.ndarray = np.zeros((), np.uint64)  # holds 2**56 images
    bar = tqdm(total=samples, desc=title, unit=" images", disable=None)
    with say_when_long(f"{title} of {samples} images", shows_bar=True), bar:
        for count, part in sums:
            total = total + part
            bar.update(count)
    return total / np.float64(samples)


def save_picture(mean: np.ndarray, path: Path) -> None:
    """Write the mean image as a PNG: in colour for three channels, else grey; small images are enlarged."""
    pixels = np.moveaxis(mean, 0, -1) if len(mean) == 3 else mean.mean(axis=0)
    picture = Image.fromarray(np.rint(pixels).astype(np.uint8))
    factor = max(1, 224 // picture.width)
    size = (picture.width * factor, picture.height * factor)
    with written_whole(path) as part:
        picture.resize(size, Image.Resampling.NEAREST).save(part, "PNG")
