"""The raw IMDB reviews: a tar archive with one text file for each review, and the word index that gives words ids.

Source: the README in aclImdb_v1.tar.gz, https://ai.stanford.edu/~amaas/data/sentiment/. The archive is read member by
member and never unpacked to disk.
"""

import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from trainmark.console import say_when_long
from trainmark.datasets.archives import DAMAGE, members_of
from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.samples import Arrays, Folders
from trainmark.datasets.tokens import Vocabulary, read_word_index
from trainmark.errors import DataError, expect_damage

FORMAT = {
    "kind": "tokens",
    "required": ["files", "classes", "samples", "sequence_length", "vocabulary_size"],
    "optional": [],
}

CLASS_NAMES = ["negative", "positive"]
LABELS = {"neg": 0, "pos": 1}

REVIEW = re.compile(r"(?:\./)?aclImdb/(train|test)/(neg|pos)/([0-9]{1,9})_[0-9]{1,2}\.txt")
"""Name of a review in the archive: split, class and number. The rating after the number is not used."""


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The reviews of each split as token ids, sorted by label and number. Raises DataError if a file is not right."""
    archive = only_file(folders, entry, r"\.tar|\.tgz$", "tar archive")
    word_index = only_file(folders, entry, r"\.json$", "word index (.json)")
    vocabulary = Vocabulary(read_word_index(word_index), entry["vocabulary_size"])
    encoded: dict[str, dict] = {split: {} for split in SPLITS}
    for review, text in _reviews(archive):
        split, folder, number = review.groups()
        key = (LABELS[folder], int(number))
        if key in encoded[split]:
            raise DataError(f"{archive} holds review {number} of {split}/{folder} twice; download it again")
        encoded[split][key] = vocabulary.encode(text, entry["sequence_length"])
    splits = {split: _sorted(encoded[split], archive, split) for split in SPLITS}
    return Arrays(splits, CLASS_NAMES, "tokens", vocabulary)


def only_file(folders: Folders, entry: Mapping, pattern: str, what: str) -> Path:
    """Path of the one file of an entry whose name matches a pattern. Raises DataError if none or several do."""
    names = [file["name"] for file in entry["files"]]
    matching = [name for name in names if re.search(pattern, name)]
    if len(matching) != 1:
        raise DataError(f"the files of the entry are {names}; the format {entry['format']} needs exactly one {what}")
    return Path(folders.raw, matching[0])


def _sorted(encoded: Mapping, archive: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(ids, labels) sorted by label and number, whatever the order in the archive. encoded: ids by (label, number)."""
    if not encoded:
        raise DataError(f"{archive} holds no review aclImdb/{split}/{{neg,pos}}/NUMBER_RATING.txt; is it another file?")
    keys = sorted(encoded)
    return np.stack([encoded[key] for key in keys]), np.array([label for label, _ in keys], np.int64)


def _reviews(path: Path) -> Iterator[tuple[re.Match[str], str]]:
    """(match of the name, text) of every review in the order of the archive. Raises DataError."""
    try:
        with say_when_long(f"reading {path.name}"), tarfile.open(path) as tar:
            for member in members_of(tar):
                if (
                    member.isreg()
                    and (review := REVIEW.fullmatch(member.name))
                    and (content := tar.extractfile(member))
                ):
                    yield review, content.read().decode("utf-8")
    except DAMAGE as error:
        expect_damage(error, path)
        raise DataError(
            f"{path} is not a complete tar archive of texts in UTF-8 ({error}); download it again"
        ) from error
