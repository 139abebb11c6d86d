"""The packed store: decoded and resized images in one array, from which slices are read without decoding."""

import os
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from trainmark.console import say_when_long
from trainmark.datasets.catalogue import STORED_SIDE
from trainmark.datasets.images.lists import CHUNK, load_checked
from trainmark.datasets.images.parallel import chunks, in_order
from trainmark.errors import DataError, expect_damage
from trainmark.files.disk import new_array
from trainmark.files.whole import written_whole

IMAGE_SHAPE = (STORED_SIDE, STORED_SIDE, 3)
IMAGE_BYTES = STORED_SIDE * STORED_SIDE * 3

BLOCK_IMAGES = 256
"""Images that `read_blocks` reads at a time: 48 MiB."""


def pack(paths: Sequence[Path], out: Path, workers: int, title: str = "packing images") -> None:
    """Write the images, in their order, as uint8 (samples, STORED_SIDE, STORED_SIDE, 3) to an .npy file.

    title: text of the progress bar. The file gets its real name when it is complete. Raises DataError if the disk is
    too small, before anything is written, and if an image was damaged after it had been prepared.
    """
    with written_whole(out) as part:
        begin = new_array(part, np.uint8, (len(paths), *IMAGE_SHAPE), f"the packed store {out}")
        with open(part, "r+b") as file:

            def load(numbered: list[tuple[int, Path]]) -> int:
                for number, path in numbered:
                    pixels = np.ascontiguousarray(load_checked(path)).data
                    os.pwrite(file.fileno(), pixels, begin + number * IMAGE_BYTES)
                return len(numbered)

            bar = tqdm(total=len(paths), desc=title, unit=" images", disable=None)
            with say_when_long(f"{title} ({len(paths)})", shows_bar=True), bar:
                for count in in_order(load, chunks(enumerate(paths), CHUNK), workers):
                    bar.update(count)


def open_store(path: Path) -> np.memmap:
    """Memory-map a packed store: uint8 (samples, STORED_SIDE, STORED_SIDE, 3). Raises DataError for anything else."""
    again = "delete it and run snakemake again"
    try:
        store = np.lib.format.open_memmap(path, mode="r")  # refuses arrays that would have to be unpickled
    except (OSError, ValueError, tokenize.TokenError) as error:
        expect_damage(error, path)
        raise DataError(f"{path} is not a complete packed store ({error}); {again}") from error
    if store.dtype != np.uint8 or store.shape[1:] != IMAGE_SHAPE:
        raise DataError(
            f"{path} holds {store.dtype} {store.shape}; a packed store is uint8 (samples, *{IMAGE_SHAPE}); {again}"
        )
    return store


def read_blocks(path: Path) -> Iterator[np.ndarray]:
    """The images of a packed store, BLOCK_IMAGES at a time; read, because mapped pages would count as memory."""
    store = open_store(path)
    with open(path, "rb") as file:
        file.seek(store.offset)
        for start in range(0, len(store), BLOCK_IMAGES):
            count = min(BLOCK_IMAGES, len(store) - start)
            yield np.fromfile(file, np.uint8, count * IMAGE_BYTES).reshape(count, *IMAGE_SHAPE)
