"""Lists of image files, one `<path> <label>` a line, and looking at every image in them before it is trusted."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from trainmark.datasets import prepared
from trainmark.datasets.images.decoding import UnreadableImage, decode_stored, load_stored, read_file
from trainmark.datasets.images.parallel import chunks, in_order
from trainmark.datasets.waiting import say_while
from trainmark.errors import DataError
from trainmark.files.whole import write_text

ImageList = list[tuple[str, int]]
"""(path relative to the list's root, label from 0) of each image."""

LABEL_DIGITS = 6
"""No set of images has a million classes, and as many classes are made as the largest label says."""

CHUNK = 16
"""Images that a worker takes at a time: sharing out costs as little as a hundredth of decoding them."""


def read_list(path: Path) -> ImageList:
    """The entries of a list file. Raises DataError, with the line, where a line is no path and label."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # sig: Windows may begin it with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} can't be read as a list of images in UTF-8 ({error})") from error
    return [_entry(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def _entry(line: str, where: str) -> tuple[str, int]:
    path, _, label = line.rpartition(" ")
    if not path.strip() or not (label.isascii() and label.isdigit() and len(label) <= LABEL_DIGITS):
        raise DataError(
            f"{where}: found {line[:80]!r}; a line is a path, a space and a label, a whole number from 0 to "
            f"{10**LABEL_DIGITS - 1}"
        )
    return path, int(label)


def write_list(path: Path, entries: ImageList) -> None:
    """Write a list file that `read_list` gives back."""
    write_text(path, "".join(f"{name} {label}\n" for name, label in entries))


@dataclass(frozen=True)
class Scanned:
    """What is left of a dataset's lists after every image was decoded.

    splits: what can be decoded. unreadable: (split, path, reason) of what can't. content_sha256: of the labels and the
    SHA-256 of each file that is left, in the lists' order.
    """

    splits: dict[str, ImageList]
    unreadable: list[tuple[str, str, str]]
    content_sha256: str


def scan(root: Path, splits: Mapping[str, ImageList], workers: int, title: str = "checking images") -> Scanned:
    """Decode every image of the lists once, in `workers` threads, and take out what can't be decoded.

    title: what the progress bar says.
    """
    digest = hashlib.sha256()
    readable: dict[str, ImageList] = {}
    unreadable = []
    for split, entries in splits.items():
        readable[split] = []
        looked_at = _looked_at(root, entries, workers, title)
        for (path, label), (sha256, reason) in zip(entries, looked_at, strict=True):
            if reason:
                unreadable.append((split, path, reason))
            else:
                readable[split].append((path, label))
                digest.update(f"{split} {label} {sha256}\n".encode())
    return Scanned(readable, unreadable, digest.hexdigest())


def _looked_at(root: Path, entries: ImageList, workers: int, title: str) -> Iterator[tuple[str, str | None]]:
    """(SHA-256, why it can't be decoded or None) of each image."""

    def look(chunk: ImageList) -> list[tuple[str, str | None]]:
        return [_look(root / path) for path, _ in chunk]

    bar = tqdm(total=len(entries), desc=title, unit=" images", disable=None)
    with say_while(f"{title} ({len(entries)})", shows_bar=True), bar:
        for results in in_order(look, chunks(entries, CHUNK), workers):
            yield from results
            bar.update(len(results))


def _look(path: Path) -> tuple[str, str | None]:
    try:
        data = read_file(path)
        decode_stored(data)
    except UnreadableImage as error:
        return "", str(error)
    return hashlib.sha256(data).hexdigest(), None


def load_checked(path: Path) -> np.ndarray:
    """An image that was readable when it was prepared, uint8 (STORED_SIDE, STORED_SIDE, 3). Raises DataError."""
    try:
        return load_stored(path)
    except UnreadableImage as error:
        raise DataError(
            f"{path}: {error}; it could be decoded when it was prepared: put it back, or prepare the dataset anew "
            "(run snakemake again with --forcerun prepare_dataset)"
        ) from error


def prepared_list(folder: Path, split: str) -> ImageList:
    """A split's list of a prepared dataset. Raises DataError where it is no longer what was prepared."""
    return read_list(prepared.checked_list(folder, split))


def prepared_paths(folder: Path, split: str) -> list[Path]:
    """The image files of a split of a prepared dataset. Raises DataError like `prepared_list`."""
    return paths_of(prepared.image_root(folder, prepared.read_manifest(folder)), prepared_list(folder, split))


def paths_of(root: Path, entries: Iterable[tuple[str, int]]) -> list[Path]:
    """The files of a list."""
    return [root / path for path, _ in entries]
