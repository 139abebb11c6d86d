"""Lists of image files, with a `<path> <label>` on each line, and the check that every image can be decoded."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from trainmark.console import say_when_long
from trainmark.datasets import prepared
from trainmark.datasets.images.decoding import UnreadableImage, decode_stored, load_stored, read_file
from trainmark.datasets.images.parallel import chunks, in_order
from trainmark.errors import DataError, expect_damage
from trainmark.files.whole import write_text

ImageList = list[tuple[str, int]]
"""(path relative to the list's root, label from 0) of each image."""

LABEL_DIGITS = 6
"""Most digits of a label. The largest label decides the number of classes, and no dataset has a million."""

ENTRY = re.compile(rf"(.*)[ \t]([0-9]{{1,{LABEL_DIGITS}}})[ \t]*")
"""A line of a list. No path has a tab (`checked_name`)."""

CHUNK = 16
"""Images that a worker takes at a time; handing them out then costs about a hundredth of decoding them."""


def read_list(path: Path) -> ImageList:
    """Read the entries of a list file. Raises DataError, with the line number, if a line is not a path and a label."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # sig: on Windows it may begin with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        expect_damage(error, path)
        raise DataError(
            f"{path} cannot be read as a list of images in UTF-8 ({error}); save it there as UTF-8"
        ) from error
    return [_entry(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def _entry(line: str, where: str) -> tuple[str, int]:
    entry = ENTRY.fullmatch(line)
    if not entry or not entry[1].strip():
        raise DataError(
            f"{where}: found {line[:80]!r}; a line is a path, a space or tab and a label, a whole number from 0 to "
            f"{10**LABEL_DIGITS - 1}"
        )
    return entry[1], int(entry[2])


def write_list(path: Path, entries: ImageList) -> None:
    """Write a list file that `read_list` reads back."""
    write_text(path, "".join(f"{name} {label}\n" for name, label in entries))


@dataclass(frozen=True)
class Scanned:
    """A dataset's lists after every image was decoded once.

    splits: the images that can be decoded.
    unreadable: (split, path, reason) of each image that cannot.
    identical: (path, path of a training image of the same SHA-256) of each such test image.
    content_sha256: SHA-256 over label and SHA-256 of each image that can be decoded, in the order of the lists.
    """

    splits: dict[str, ImageList]
    unreadable: list[tuple[str, str, str]]
    identical: list[tuple[str, str]]
    content_sha256: str


def scan(root: Path, splits: Mapping[str, ImageList], workers: int, title: str = "checking images") -> Scanned:
    """Decode every image of the lists once, in `workers` threads, and sort out those that cannot be decoded."""
    digest = hashlib.sha256()
    readable: dict[str, ImageList] = {}
    unreadable = []
    trained: dict[str, str] = {}
    identical = []
    for split, entries in splits.items():
        readable[split] = []
        checked = _check_images(root, entries, workers, title)
        for (path, label), (sha256, reason) in zip(entries, checked, strict=True):
            if reason:
                unreadable.append((split, path, reason))
            else:
                readable[split].append((path, label))
                digest.update(f"{split} {label} {sha256}\n".encode())
                if split == "train":
                    trained[sha256] = path
                elif sha256 in trained:
                    identical.append((path, trained[sha256]))
    return Scanned(readable, unreadable, identical, digest.hexdigest())


def _check_images(root: Path, entries: ImageList, workers: int, title: str) -> Iterator[tuple[str, str | None]]:
    """(SHA-256, reason why it cannot be decoded or None) of each image."""

    def check_one(path: Path) -> tuple[str, str | None]:
        try:
            data = read_file(path)
            decode_stored(data)
        except UnreadableImage as error:
            return "", str(error)
        return hashlib.sha256(data).hexdigest(), None

    def check(chunk: ImageList) -> list[tuple[str, str | None]]:
        return [check_one(root / path) for path, _ in chunk]

    bar = tqdm(total=len(entries), desc=title, unit=" images", disable=None)
    with say_when_long(f"{title} ({len(entries)})", shows_bar=True), bar:
        for results in in_order(check, chunks(entries, CHUNK), workers):
            yield from results
            bar.update(len(results))


def load_checked(path: Path) -> np.ndarray:
    """An image that was readable when it was prepared, uint8 (STORED_SIDE, STORED_SIDE, 3). Raises DataError."""
    try:
        return load_stored(path)
    except UnreadableImage as error:
        raise DataError(
            f"{path}: {error}; it could be decoded when it was prepared: restore it, or delete the folder of "
            "the prepared dataset, and snakemake prepares it again"
        ) from error


def prepared_list(folder: Path, split: str) -> ImageList:
    """A split's list of a prepared dataset. Raises DataError if it was changed."""
    return read_list(prepared.checked_list(folder, split))


def prepared_paths(folder: Path, split: str) -> list[Path]:
    """The image files of a split of a prepared dataset. Raises DataError like `prepared_list`."""
    root = prepared.image_root(folder, prepared.read_manifest(folder))
    return [root / path for path, _ in prepared_list(folder, split)]
