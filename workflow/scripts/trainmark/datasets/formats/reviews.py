"""The raw IMDB reviews: a tar archive of one text file a review, and the word index that turns words into ids.

Source: the README in aclImdb_v1.tar.gz, https://ai.stanford.edu/~amaas/data/sentiment/. The archive is read member by
member and never unpacked to disk.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from trainmark.datasets.archives import open_archive
from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.samples import Arrays, Folders
from trainmark.datasets.tokens import Vocabulary, read_word_index
from trainmark.errors import DataError

FORMAT = {
    "kind": "tokens",
    "required": ["files", "classes", "samples", "sequence_length", "vocabulary_size"],
    "optional": [],
}

CLASS_NAMES = ["negative", "positive"]
LABELS = {"neg": 0, "pos": 1}

REVIEW = re.compile(r"(?:\./)?aclImdb/(train|test)/(neg|pos)/([0-9]{1,9})_[0-9]{1,2}\.txt")
"""Split, class and number of a review, in its member's name; the rating after the number is not used."""

MAX_REVIEW_BYTES = 1 << 20
"""Of one review; the longest of the 50,000 has under 14 KiB."""


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The reviews of each split as token ids, sorted by label and number. Raises DataError where a file is unfit."""
    archive = only_file(folders, entry, r"\.tar|\.tgz$", "tar archive")
    word_index = only_file(folders, entry, r"\.json$", "word index (.json)")
    vocabulary = Vocabulary(read_word_index(word_index), entry["vocabulary_size"])
    encoded: dict[str, dict] = {split: {} for split in SPLITS}
    for review, content in _reviews(archive):
        split, folder, number = review.groups()
        place = (LABELS[folder], int(number))
        if place in encoded[split]:
            raise DataError(f"{archive} holds review {number} of {split}/{folder} twice; download it again")
        encoded[split][place] = vocabulary.encode(_text(content, archive, review[0]), entry["sequence_length"])
    splits = {split: _sorted(encoded[split], archive, split) for split in SPLITS}
    return Arrays(splits, CLASS_NAMES, "tokens", vocabulary)


def only_file(folders: Folders, entry: Mapping, pattern: str, what: str) -> Path:
    """The path of the entry's one file whose name fits a pattern. Raises DataError where none or several do."""
    names = [file["name"] for file in entry["files"]]
    fitting = [name for name in names if re.search(pattern, name)]
    if len(fitting) != 1:
        raise DataError(
            f"{folders.raw}: the files of the catalogue entry are {', '.join(names) or 'none'}; "
            f"the format {entry['format']} needs exactly one {what} among them"
        )
    return Path(folders.raw, fitting[0])


def _sorted(encoded: Mapping, archive: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(ids, labels) in an order that does not depend on the archive's; `encoded` maps (label, number) to ids."""
    if not encoded:
        raise DataError(f"{archive} holds no review aclImdb/{split}/{{neg,pos}}/NUMBER_RATING.txt; is it another file?")
    places = sorted(encoded)
    return np.stack([encoded[place] for place in places]), np.array([label for label, _ in places], np.int64)


def _text(content: bytes, archive: Path, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{archive}: {name} is not UTF-8 text at byte {error.start}; download the archive again"
        ) from error


def _reviews(path: Path) -> Iterator[tuple[re.Match[str], bytes]]:
    """(match of the member's name, content) of every review, in the archive's order. Raises DataError."""
    try:
        with open_archive(path, f"reading {path.name}") as members:
            for member, content in members:
                if member.isdir() or not (review := REVIEW.fullmatch(member.name)):
                    continue
                if member.size > MAX_REVIEW_BYTES:
                    raise DataError(
                        f"{path}: {member.name} has {member.size} bytes, and {MAX_REVIEW_BYTES} are allowed; "
                        "get the archive from another place"
                    )
                yield review, content.read()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); download it again") from error
