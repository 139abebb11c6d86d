"""The packed store: decoded and resized images in one array, which is read by slice instead of decoding."""

import os
import tokenize
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from trainmark.disk import new_array
from trainmark.errors import DataError
from trainmark.images.lists import CHUNK, load_checked
from trainmark.parallel import chunks, in_order
from trainmark.stored import STORED_SIDE

IMAGE_SHAPE = (STORED_SIDE, STORED_SIDE, 3)
IMAGE_BYTES = STORED_SIDE * STORED_SIDE * 3
SHOWN_SHAPE = f"(samples, {STORED_SIDE}, {STORED_SIDE}, 3)"
AGAIN = "delete it and run snakemake again"


def pack(paths: Sequence[Path], out: Path, workers: int, title: str = "packing images") -> None:
    """Write the images, in their order, as uint8 (samples, STORED_SIDE, STORED_SIDE, 3) to an .npy file.

    title: what the progress bar says. The real name appears when everything is written. Raises DataError where the disk
    is too small, before it is filled, and where an image was damaged after it had been prepared.
    """
    part = out.with_name(f"{out.name}.part")
    store = new_array(part, np.uint8, (len(paths), *IMAGE_SHAPE), f"the packed store {out}")

    def load(numbered: list[tuple[int, Path]]) -> int:
        for number, path in numbered:
            store[number] = load_checked(path)
        return len(numbered)

    with tqdm(total=len(paths), desc=title, unit=" images", disable=None) as bar:
        for done in in_order(load, chunks(enumerate(paths), CHUNK), workers):
            bar.update(done)
    store.flush()
    os.replace(part, out)


def open_store(path: Path) -> np.memmap:
    """A packed store, memory-mapped: uint8 (samples, STORED_SIDE, STORED_SIDE, 3). DataError for anything else."""
    try:
        store = np.lib.format.open_memmap(path, mode="r")  # refuses what would have to be unpickled
    except (OSError, ValueError, tokenize.TokenError) as error:
        raise DataError(f"{path} is no whole packed store ({error}); {AGAIN}") from error
    if store.dtype != np.uint8 or store.shape[1:] != IMAGE_SHAPE:
        raise DataError(f"{path} holds {store.dtype} {store.shape}, and a packed store uint8 {SHOWN_SHAPE}; {AGAIN}")
    return store


def read_batch(store: np.memmap, indices: np.ndarray) -> np.ndarray:
    """The images at `indices`, in that order: uint8 (len(indices), STORED_SIDE, STORED_SIDE, 3)."""
    return store[indices]
