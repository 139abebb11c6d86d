"""The mean image of a training set. Integer sums make it exact for any order and any number of workers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from trainmark.console import say_when_long
from trainmark.datasets import prepared
from trainmark.datasets.images.lists import CHUNK, load_checked, prepared_paths
from trainmark.datasets.images.packed import IMAGE_SHAPE, open_store, read_blocks
from trainmark.datasets.images.parallel import chunks, in_order
from trainmark.files.disk import require_free_disk, write_arrays
from trainmark.files.whole import written_whole

BLOCK = 4096
"""Images of an array that are summed at a time, to bound memory; with integer sums it does not change the result."""

CHECKPOINT_IMAGES = 1 << 15
"""Number of images after which the sum so far is saved: about 20 s of work for two cores."""


@dataclass(frozen=True)
class Checkpoint:
    """File with the sum over the first images of a list, from which a stopped computation continues.

    key: identifies what is summed (the content hash of the list); a checkpoint with another key is not used.
    """

    path: Path
    key: str

    def load(self) -> tuple[int, np.ndarray]:
        """(images summed, their sum uint64 IMAGE_SHAPE); zeros if there is no complete checkpoint of this key."""
        nothing = 0, np.zeros(IMAGE_SHAPE, np.uint64)
        try:
            with np.load(self.path, allow_pickle=False) as saved:
                key, done, total = str(saved["key"]), int(saved["done"]), saved["total"]
        except Exception:  # there is none, or it is damaged: zipfile and numpy raise many types
            return nothing
        return (done, total) if key == self.key and total.shape == IMAGE_SHAPE and total.dtype == np.uint64 else nothing

    def save(self, done: int, total: np.ndarray) -> None:
        """Replace the checkpoint atomically."""
        with written_whole(self.path) as part:
            write_arrays(part, {"key": self.key, "done": done, "total": total})


def mean_of_dataset(folder: Path, packed: Path | None, workers: int, checkpoint: Path) -> np.ndarray:
    """Mean training image of a prepared dataset, float64 (channels, height, width).

    packed: the packed store, if there is one; the result is the same from the files. checkpoint: file for the sum over
    image files so far; the caller may remove it once the mean is written.
    """
    manifest = prepared.read_manifest(folder)
    title = f"{manifest['dataset']}: mean image"
    if manifest["kind"] == "images":
        return mean_image(prepared.read_split(folder, "train")[0], title)
    if packed:
        return _channels_first(_mean(read_blocks(packed), len(open_store(packed)), title))
    paths = prepared_paths(folder, "train")
    return _channels_first(mean_of_files(paths, workers, Checkpoint(checkpoint, manifest["content_sha256"]), title))


def mean_image(images: np.ndarray, title: str = "mean image") -> np.ndarray:
    """Mean over the first axis of uint8 images, float64. title: text of the progress bar."""
    return _mean((images[start : start + BLOCK] for start in range(0, len(images), BLOCK)), len(images), title)


def _mean(blocks: Iterable[np.ndarray], samples: int, title: str) -> np.ndarray:
    """Mean over the first axis of all blocks. A uint64 sum holds 2**56 images; a single division rounds once."""
    total: np.ndarray = np.zeros((), np.uint64)
    bar = tqdm(total=samples, desc=title, unit=" images", disable=None)
    with say_when_long(f"{title} of {samples} images", shows_bar=True), bar:
        for block in blocks:
            total = total + block.sum(axis=0, dtype=np.uint64)
            bar.update(len(block))
    return total / np.float64(samples)


def mean_of_files(paths: Sequence[Path], workers: int, checkpoint: Checkpoint, title: str = "mean image") -> np.ndarray:
    """Mean of image files at the stored size, float64 IMAGE_SHAPE, in `workers` threads.

    Continues from the checkpoint. Raises DataError if a file was damaged after it had been prepared.
    """
    done, total = checkpoint.load()
    saved = done
    bar = tqdm(total=len(paths), initial=done, desc=title, unit=" images", disable=None)
    with say_when_long(f"{title} of {len(paths)} images", shows_bar=True), bar:
        for count, part in _sums(paths[done:], workers):
            total += part
            done += count
            bar.update(count)
            if done - saved >= CHECKPOINT_IMAGES:
                checkpoint.save(done, total)
                saved = done
    return total / np.float64(len(paths))


def _sums(paths: Iterable[Path], workers: int) -> Iterator[tuple[int, np.ndarray]]:
    """(number of images, sum uint16 IMAGE_SHAPE) of each chunk; a uint16 sum holds 257 images."""

    def sum_of(chunk: list[Path]) -> tuple[int, np.ndarray]:
        total = np.zeros(IMAGE_SHAPE, np.uint16)
        for path in chunk:
            np.add(total, load_checked(path), out=total)
        return len(chunk), total

    return in_order(sum_of, chunks(paths, CHUNK), workers)


def _channels_first(mean: np.ndarray) -> np.ndarray:
    """(height, width, channels) as a contiguous (channels, height, width)."""
    return np.ascontiguousarray(np.moveaxis(mean, -1, 0))


def save_mean(mean: np.ndarray, path: Path) -> None:
    """Write the mean image as .npy. Raises StorageError if the disk is too small."""
    require_free_disk(path.parent, mean.nbytes, f"the mean image {path}")
    with written_whole(path) as part, open(part, "wb") as stream:
        np.save(stream, mean, allow_pickle=False)


def save_picture(mean: np.ndarray, path: Path) -> None:
    """Write the mean image as a PNG: in colour for three channels, else grey; small images are enlarged."""
    pixels = np.moveaxis(mean, 0, -1) if len(mean) == 3 else mean.mean(axis=0)
    picture = Image.fromarray(np.rint(pixels).astype(np.uint8))
    factor = max(1, 224 // picture.width)
    size = (picture.width * factor, picture.height * factor)
    with written_whole(path) as part:
        picture.resize(size, Image.Resampling.NEAREST).save(part, "PNG")
