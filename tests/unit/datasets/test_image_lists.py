"""Lists of image files: what a line may be, and that every image is looked at before it is trusted."""

import numpy as np
import pytest
from messages import message_of
from PIL import Image

from trainmark.datasets.formats._trees import checked_name
from trainmark.datasets.images.lists import read_list, scan, write_list

ALLOWED = "a line is a path, a space or tab and a label, a whole number from 0 to 999999"


def save(path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    Image.fromarray(colours).resize((40, 30)).save(path)


@pytest.fixture
def root(tmp_path):
    """Forty images, more than two chunks, in two classes."""
    for number in range(40):
        save(tmp_path / f"{number:02}.png", number)
    return tmp_path


def entries_of(root) -> list[tuple[str, int]]:
    return [(path.name, number % 2) for number, path in enumerate(sorted(root.glob("*.png")))]


def test_a_list_comes_back_as_it_was_written(tmp_path):
    entries = [("train/cat/1.jpg", 0), ("with spaces .jpg", 3), (" 1 2 3", 4), ("Schöne Grüße/画像.jpg", 999_999)]
    for some in (entries, []):
        write_list(tmp_path / "train.txt", some)
        assert read_list(tmp_path / "train.txt") == some


@pytest.mark.parametrize(
    "name",
    [
        "Screenshot 9.41.00\u202fAM.png", "Snímek v\u00a013.05.png", "全角\u3000空白", "a\u200bb\ufeff", "\u202e",
        "👩\u200d🔬", "\U0001fae8", "\U0001fadc", "\U0003fff0", "\uf8ff", "Ba\u0308ume", "CON", "a\\b:c?", " ",
    ],
)  # fmt: skip
def test_a_name_is_refused_only_if_it_breaks_a_list(tmp_path, name):
    entries = [(checked_name(path, tmp_path), label) for label, path in enumerate((f"{name}/1", f"{name}."))]
    write_list(tmp_path / "train.txt", entries)
    assert read_list(tmp_path / "train.txt") == entries
    for mark in "\n\r\t\0\v\x1c\x85\u2028\udce9":
        assert "has characters that cannot stand in a list" in message_of(checked_name, name + mark, tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"a.jpg 0\nb c.jpg 1",
        b"\xef\xbb\xbfa.jpg 0\r\nb c.jpg 1\r\n",  # by Windows, with its mark at the start
        b"a.jpg\t0 \nb c.jpg\t1\t\n",
    ],
)
def test_lists_of_other_programs_are_read(tmp_path, content):
    (tmp_path / "train.txt").write_bytes(content)
    assert read_list(tmp_path / "train.txt") == [("a.jpg", 0), ("b c.jpg", 1)]


@pytest.mark.parametrize(
    "line",
    [
        "b.jpg", "b.jpg -1", "b.jpg 1.0", "b.jpg ²", "b.jpg ٣", "b.jpg 1000000", " 7", "",
    ],
)  # fmt: skip
def test_a_line_that_is_none_is_named(tmp_path, line):
    path = tmp_path / "val.txt"
    path.write_text(f"a.jpg 0\n{line}\nc.jpg 1\n", encoding="utf-8")
    assert message_of(read_list, path) == f"{path}, line 2: found {line!r}; {ALLOWED}"


def test_what_can_not_be_decoded_is_taken_out_with_its_reason(root):
    (root / "03.png").write_bytes(b"")
    (root / "20.png").write_bytes((root / "20.png").read_bytes()[:-60])
    (root / "39.png").unlink()
    train, test = entries_of(root)[:30], [*entries_of(root)[30:], ("39.png", 1)]
    scanned = scan(root, {"train": train, "test": test}, workers=2)
    assert scanned.unreadable == [
        ("train", "03.png", "empty file"),
        ("train", "20.png", scanned.unreadable[1][2]),
        ("test", "39.png", "can't be read (No such file or directory)"),
    ]
    assert scanned.unreadable[1][2].startswith("cut off or damaged (")
    assert scanned.splits == {
        "train": [entry for entry in train if entry[0] not in ("03.png", "20.png")],
        "test": test[:-1],
    }


def test_the_content_hash_changes_with_a_label_the_order_the_number_the_split_and_a_byte(root):
    entries = entries_of(root)
    changed = [
        {"train": entries},
        {"train": [(entries[0][0], 1), *entries[1:]]},
        {"train": [*entries[1:], entries[0]]},
        {"train": entries[:-1]},
        {"train": entries[:30], "test": entries[30:]},
        {"train": entries[:29], "test": entries[29:]},
    ]
    found = [scan(root, splits, 2).content_sha256 for splits in changed]
    with open(root / entries[5][0], "ab") as stream:
        stream.write(b"\0")  # behind the image's end: the pixels are the same
    found.append(scan(root, changed[0], 2).content_sha256)
    assert len(set(found)) == len(changed) + 1
