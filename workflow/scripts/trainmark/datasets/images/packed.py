"""The packed store: decoded and resized images in one array, from which slices are read without decoding."""

import json
import os
import tokenize
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

import numpy as np
from tqdm import tqdm

from trainmark.console import say_when_long
from trainmark.datasets.catalogue import STORED_SIDE
from trainmark.datasets.images.lists import CHUNK, load_checked
from trainmark.datasets.images.parallel import chunks, in_order
from trainmark.errors import DataError
from trainmark.files.disk import new_array
from trainmark.files.whole import give_name, part_of, write_text

IMAGE_SHAPE = (STORED_SIDE, STORED_SIDE, 3)
IMAGE_BYTES = STORED_SIDE * STORED_SIDE * 3
SHOWN_SHAPE = f"(samples, {STORED_SIDE}, {STORED_SIDE}, 3)"

NOTED_IMAGES = 1 << 13
"""Number of images after which progress is saved: 1.5 GiB, about 6 s of work for two cores."""

BLOCK_IMAGES = 256
"""Images that `read_blocks` reads at a time: 48 MiB."""

AGAIN = "delete it and run snakemake again"


def pack(paths: Sequence[Path], out: Path, workers: int, key: str = "", title: str = "packing images") -> None:
    """Write the images, in their order, as uint8 (samples, STORED_SIDE, STORED_SIDE, 3) to an .npy file.

    key: identifies what is packed (the content hash of the list); an earlier attempt with this key is continued.
    title: text of the progress bar. The file gets its real name when it is complete. Raises DataError if the disk is
    too small, before anything is written, and if an image was damaged after it had been prepared.
    """
    attempt = _Attempt(out, key, (len(paths), *IMAGE_SHAPE))
    begin, done = attempt.begin()
    with open(attempt.part, "r+b") as file:

        def load(numbered: list[tuple[int, Path]]) -> int:
            for number, path in numbered:
                os.pwrite(file.fileno(), np.ascontiguousarray(load_checked(path)).data, begin + number * IMAGE_BYTES)
            return len(numbered)

        rest = chunks(enumerate(paths[done:], done), CHUNK)
        bar = tqdm(total=len(paths), initial=done, desc=title, unit=" images", disable=None)
        with say_when_long(f"{title} ({len(paths)})", shows_bar=True), bar:
            for count in in_order(load, rest, workers):
                bar.update(count)
                done += count
                if done % NOTED_IMAGES < count:
                    os.fsync(file.fileno())
                    attempt.note(done)
    attempt.finish()


class _Attempt:
    """The file that is being filled, and a note next to it that says how many images it has."""

    def __init__(self, out: Path, key: str, shape: tuple[int, ...]) -> None:
        self._out, self._key, self._shape = out, key, shape
        self.part = part_of(out)
        self._note = out.with_name(f"{out.name}.part.json")

    def begin(self) -> tuple[int, int]:
        """(byte at which the images begin, images written so far), of an earlier attempt if one has this key."""
        try:
            note = json.loads(self._note.read_text())
            with open(self.part, "rb") as file:
                np.lib.format.read_magic(file)
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                begin = file.tell()
                complete = os.fstat(file.fileno()).st_size == begin + prod(self._shape)
            same = note["key"] == self._key and (shape, dtype) == (self._shape, np.dtype(np.uint8))
            if complete and same and 0 <= note["done"] <= self._shape[0]:
                return begin, note["done"]
        except (OSError, ValueError, LookupError, TypeError, tokenize.TokenError):
            pass  # there is none, or it was damaged when it was stopped
        self._note.unlink(missing_ok=True)
        return new_array(self.part, np.uint8, self._shape, f"the packed store {self._out}"), 0

    def note(self, done: int) -> None:
        """Save that the first `done` images are on the disk."""
        write_text(self._note, json.dumps({"key": self._key, "done": done}))

    def finish(self) -> None:
        """Give the file its real name."""
        give_name(self.part, self._out)
        self._note.unlink(missing_ok=True)


def open_store(path: Path) -> np.memmap:
    """Memory-map a packed store: uint8 (samples, STORED_SIDE, STORED_SIDE, 3). Raises DataError for anything else."""
    try:
        store = np.lib.format.open_memmap(path, mode="r")  # refuses arrays that would have to be unpickled
    except (OSError, ValueError, tokenize.TokenError) as error:
        raise DataError(f"{path} is not a complete packed store ({error}); {AGAIN}") from error
    if store.dtype != np.uint8 or store.shape[1:] != IMAGE_SHAPE:
        raise DataError(f"{path} holds {store.dtype} {store.shape}; a packed store is uint8 {SHOWN_SHAPE}; {AGAIN}")
    return store


def read_blocks(path: Path) -> Iterator[np.ndarray]:
    """The images of a packed store, BLOCK_IMAGES at a time; read, because mapped pages would count as memory."""
    store = open_store(path)
    with open(path, "rb") as file:
        file.seek(store.offset)
        for start in range(0, len(store), BLOCK_IMAGES):
            count = min(BLOCK_IMAGES, len(store) - start)
            yield np.fromfile(file, np.uint8, count * IMAGE_BYTES).reshape(count, *IMAGE_SHAPE)
