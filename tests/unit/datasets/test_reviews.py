"""The raw reviews: every one of them in a fixed order, and one sentence for an archive that is damaged or hostile."""

import io
import json
import tarfile
from itertools import chain

import messages
import numpy as np
import pytest

from trainmark.config.load import REPOSITORY
from trainmark.datasets.formats import reviews
from trainmark.datasets.samples import Folders
from trainmark.datasets.tokens import Vocabulary

TEXTS = {
    "train/pos/10_9": "A great film, and it's not a bad one!<br /><br />Great.",
    "train/pos/2_10": "Great great GREAT",
    "train/neg/7_1": "Bad. The film is bad and nobody likes it",
    "train/neg/11_2": "",
    "test/pos/0_8": "The film",
    "test/neg/0_1": "The bad film: une déception",
}
WORD_INDEX = {"the": 1, "film": 2, "bad": 3, "great": 4, "a": 5, "and": 6, "br": 7, "it's": 8, "not": 9, "one": 10}
ENTRY = {
    "format": "reviews",
    "classes": 2,
    "samples": {"train": 4, "test": 2},
    "sequence_length": 6,
    "vocabulary_size": 12,
    "files": [{"name": "reviews.tar.gz"}, {"name": "index.json"}],
}
REAL = REPOSITORY.parent / "shared" / "data" / "imdb"


def member(name: str, content: bytes = b"", **fields) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def review_members(texts=TEXTS, prefix="aclImdb/") -> list[tuple[tarfile.TarInfo, bytes]]:
    return [member(f"{prefix}{name}.txt", text.encode()) for name, text in texts.items()]


def write_raw(folder, members=None, mode="w:gz") -> Folders:
    with tarfile.open(folder / "reviews.tar.gz", mode) as archive:
        for info, content in review_members() if members is None else members:
            archive.addfile(info, io.BytesIO(content))
    (folder / "index.json").write_text(json.dumps(WORD_INDEX))
    return Folders(raw=folder, unpacked=folder / "unpacked")


def message_of(folders, entry=ENTRY) -> str:
    return messages.message_of(reviews.read, folders, entry)


def test_reviews_by_hand(tmp_path):
    found = reviews.read(write_raw(tmp_path), ENTRY)
    assert found.kind == "tokens" and found.class_names == ["negative", "positive"]
    assert list(found.splits) == ["train", "test"]
    ids, labels = found.splits["train"]
    assert ids.tolist() == [
        [2, 6, 9, 2, 2, 2],  # neg/7, its last six words: is (unknown) bad and nobody likes it (all three unknown)
        [0, 0, 0, 0, 0, 1],  # neg/11: nothing but the start
        [0, 0, 1, 7, 7, 7],  # pos/2 before pos/10: by number
        [8, 6, 2, 10, 10, 7],  # pos/10: a bad one (13, too rare) br br great
    ]
    assert labels.tolist() == [0, 0, 1, 1]
    ids, labels = found.splits["test"]
    assert ids.tolist() == [[1, 4, 6, 5, 2, 2], [0, 0, 0, 1, 4, 5]]
    assert labels.tolist() == [0, 1]
    for ids, labels in found.splits.values():
        assert ids.dtype == np.int32 and labels.dtype == np.int64
    assert found.vocabulary == Vocabulary(WORD_INDEX, 12)


def test_everything_else_is_passed_over_and_the_archives_order_does_not_matter(tmp_path):
    others = [
        "README", "imdb.vocab", "train/labeledBow.feat", "train/urls_pos.txt", "train/unsup/0_0.txt",
        "train/pos/a_1.txt", "train/pos/3.txt", "train/pos/3_1.txt.bak", "train/pos/deep/3_1.txt", "valid/pos/3_1.txt",
        "train/pos/-3_1.txt", "train/pos/\u0663_1.txt",
    ]  # fmt: skip
    members = [member(f"aclImdb/{name}", b"\xff great") for name in others]
    members += [member("aclImdb/train/pos", type=tarfile.DIRTYPE)]
    members += [member("aclImdb/train/pos/3_1.txt", type=tarfile.DIRTYPE)]
    expected = reviews.read(write_raw(tmp_path), ENTRY)
    found = reviews.read(write_raw(tmp_path, [*members, *review_members(prefix="./aclImdb/")[::-1]]), ENTRY)
    assert all(map(np.array_equal, chain(*found.splits.values()), chain(*expected.splits.values())))


def texts_of(split) -> dict:
    return {name: text for name, text in TEXTS.items() if name.startswith(split)}


@pytest.mark.parametrize(
    ("texts", "others", "why"),
    [
        (texts_of("train"), [], " holds no review aclImdb/test/{neg,pos}/NUMBER_RATING.txt; is it another file?"),
        (TEXTS, [member("aclImdb/test/pos/5_7.txt", b"x\xe9")], " is not a complete tar archive of texts in UTF-8 ("),
        (TEXTS, [member("aclImdb/test/pos/00_7.txt", b"great")], " holds review 00 of test/pos twice; download it "),
        (
            TEXTS, [member("aclImdb/train/pos/3_1.txt", type=tarfile.SYMTYPE, linkname="/etc/passwd")],
            " is not a complete tar archive of texts in UTF-8 ('aclImdb/train/pos/3_1.txt' is neither a ",
        ),
    ],
    ids=["no test", "no UTF-8", "twice", "a link"],
)  # fmt: skip
def test_reviews_that_are_not_right(tmp_path, texts, others, why):
    message = message_of(write_raw(tmp_path, [*review_members(texts), *others]))
    assert message.startswith(f"{tmp_path}/reviews.tar.gz{why}")


def test_cut_off_or_not_there(tmp_path):
    folders = write_raw(tmp_path)
    path = tmp_path / "reviews.tar.gz"
    path.write_bytes(path.read_bytes()[:300])
    assert message_of(folders).startswith(f"{path} is not a complete tar archive of texts in UTF-8 (")
    path.unlink()
    assert "No such file or directory" in message_of(folders)


FIRST_OF_KERAS = [
    1, 14, 22, 16, 43, 530, 973, 1622, 1385, 65, 458, 4468, 66, 3941, 4, 173, 36, 256, 5, 25, 100, 43, 838, 112, 50,
    670, 2, 9, 35, 480, 284, 5, 150, 4, 172, 112, 167, 2, 336, 385, 39, 4, 172, 4536, 1111, 17, 546, 38, 13, 447, 4,
    192, 50, 16, 6, 147, 2025, 19, 14, 22,
]  # fmt: skip
"""Beginning of the first training review that keras.datasets.imdb.load_data(num_words=5000) gives, as is often printed:
"this film was just brilliant,casting,location scenery,story,direction,everyone's really suited the part".
"""


@pytest.fixture(scope="module")
def real():
    """(folders, entry) of the real reviews."""
    if not REAL.is_dir():
        pytest.skip(f"there are no real reviews at {REAL}")
    entry = {
        **ENTRY, "samples": {"train": 25_000, "test": 25_000}, "sequence_length": 400, "vocabulary_size": 5000,
        "files": [{"name": "aclImdb_labelled_50000.tar.xz"}, {"name": "imdb_word_index.json"}],
    }  # fmt: skip
    return Folders(raw=REAL, unpacked=REAL), entry


@pytest.mark.real_data
def test_the_50_000_reviews(real):
    found = reviews.read(*real)
    for split, unknown_share in (("train", 0.0968), ("test", 0.0985)):
        ids, labels = found.splits[split]
        assert ids.shape == (25_000, 400) and ids.dtype == np.int32
        assert ids.min() == 0 and ids.max() == 4999
        assert not (ids == 3).any(), "no word has id 3"
        assert labels.tolist() == [0] * 12_500 + [1] * 12_500
        assert round((ids == 2).sum() / (ids > 0).sum(), 4) == unknown_share
    # Review 576_10.txt of train/pos; numbers run from 0, so it is the 577th of the positive ones.
    ids = found.splits["train"][0][12_500 + 576]
    assert ids[: 400 - 218].tolist() == [0] * (400 - 218)
    assert ids[400 - 218 :][: len(FIRST_OF_KERAS)].tolist() == FIRST_OF_KERAS
