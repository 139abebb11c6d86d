"""Image files in lists of `<path> <label>` lines: what is read, and what is refused before anything is trained."""

import pytest
from messages import message_of

from trainmark.datasets.catalogue import own_files
from trainmark.datasets.formats.image_list import read
from trainmark.datasets.prepare import prepare


@pytest.fixture
def root(tmp_path):
    """A folder with four files that look like images to whoever lists names, and two lists of them."""
    root = tmp_path / "own"
    for name in ("train/cat/a b.png", "train/dog/2.png", "val/cat/1.png", "val/dog/1.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"image")
    (root / "fit.txt").write_text("train/cat/a b.png 0\ntrain/dog/2.png 1\n")
    (root / "check.txt").write_text("val/cat/1.png 0\nval/dog/1.png 1\n")
    return root


@pytest.fixture
def listed(root):
    lists = {"test": "check.txt", "train": "fit.txt"}
    return {"title": "Mine", "format": "image_list", "folder": str(root), "lists": lists}


def test_lists_say_which_images_there_are(root, folders, listed):
    dataset = read(folders, listed)
    assert (dataset.root, dataset.kind, dataset.class_names) == (root, "image_lists", ["0", "1"])
    assert read(folders, {**listed, "class_names": ["a", "b"]}).class_names == ["a", "b"]
    assert list(dataset.splits.items()) == [
        ("train", [("train/cat/a b.png", 0), ("train/dog/2.png", 1)]),
        ("test", [("val/cat/1.png", 0), ("val/dog/1.png", 1)]),
    ], "in this order, however the config has it: the content hash hangs on it"


def test_images_start_at_the_root_and_lists_at_the_folder_or_elsewhere(root, folders, listed, tmp_path, monkeypatch):
    """As where the images are many people's, and each has lists of some classes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.txt").write_text("cat/a b.png 0\ndog/2.png 1\n")
    (root / "train.txt").write_text("cat/a b.png 0\ndog/2.png 1\n")
    for place in ("train.txt", "~/mine.txt", str(tmp_path / "mine.txt"), "../mine.txt"):
        dataset = read(folders, {**listed, "root": "train", "lists": {"train": "train.txt", "test": place}})
        assert dataset.root == root / "train" and dataset.splits["test"] == [("cat/a b.png", 0), ("dog/2.png", 1)]


def test_the_lists_may_start_at_different_folders(root, folders, listed):
    (root / "fit.txt").write_text("cat/a b.png 0\ndog/2.png 1\n")
    (root / "check.txt").write_text("cat/1.png 0\ndog/1.png 1\n")
    dataset = read(folders, {**listed, "roots": {"train": "train", "test": "val"}})
    assert dataset.splits["train"] == [("train/cat/a b.png", 0), ("train/dog/2.png", 1)]
    assert dataset.splits["test"] == [("val/cat/1.png", 0), ("val/dog/1.png", 1)]


def link_elsewhere(root):
    """{root}/link, which leads to a folder with an image beside `root`."""
    (root.parent / "elsewhere").mkdir()
    (root.parent / "elsewhere" / "1.png").write_bytes(b"image")
    (root.parent / "1.png").write_bytes(b"image")
    (root / "link").symlink_to(root.parent / "elsewhere")


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("{root}/train/cat/a b.png", "train/cat/a b.png"),
        ("{root}/../alias/train/cat/a b.png", "train/cat/a b.png"),
        ("../own/train/cat/a b.png", "train/cat/a b.png"),
        ("train/dog/../cat/a b.png", "train/cat/a b.png"),
        ("./train//cat/a b.png", "train/cat/a b.png"),
        ("link/1.png", "link/1.png"),
        (r"train\cat\a b.png", "train/cat/a b.png"),
        ("train/cat/B\u00e4r.png", "train/cat/Ba\u0308r.png"),
        ("train/cat/Schu\u0308ler.png", "train/cat/Sch\u00fcler.png"),
    ],
    ids=["absolute", "absolute, through another name", "up and down", "up", "dots and slashes", "the user's link",
         "of Windows", "NFC", "NFD"],
)  # fmt: skip
@pytest.mark.parametrize("relative", [False, True])
def test_a_path_is_judged_by_where_it_leads(root, folders, listed, monkeypatch, path, stored, relative):
    link_elsewhere(root)
    (root.parent / "alias").symlink_to(root)
    (root / stored).touch()
    (root / "fit.txt").write_text(f"{path} 0\ntrain/dog/2.png 1\n".replace("{root}", str(root)))
    monkeypatch.chdir(root.parent)
    listed["folder"] = "own" if relative else str(root)
    assert read(folders, listed).splits["train"] == [(stored, 0), ("train/dog/2.png", 1)]


def test_snakemake_notices_a_list_that_changes(root, listed, tmp_path):
    catalogue = {"mine": listed}
    assert own_files("mine", catalogue) == [str(root / "check.txt"), str(root / "fit.txt")]
    (root / "check.txt").rename(tmp_path / "elsewhere.txt")
    assert own_files("mine", catalogue) == [str(root / "fit.txt")], "preparing says that the other is missing"
    listed["lists"]["test"] = str(tmp_path / "elsewhere.txt")
    assert own_files("mine", catalogue) == [str(tmp_path / "elsewhere.txt"), str(root / "fit.txt")]


FIRST = "{list}, line 1: "
LABELS_OF_BOTH = "the labels of both splits run from 0 to 3 and lack 2; labels count from 0, and each of"
ONLY_TESTED = "mine: 1 labels occur in the test split and never in training (1); "
WRONG = {
    "an absolute path": (
        "train/cat/a b.png 0\n/etc/passwd 1\n",
        "{list}, line 2: /etc/passwd leads out of {root}, where paths start, to /etc/passwd",
    ),
    "the way up": ("../1.png 0\n", FIRST + "../1.png leads out of {root}, where paths start, to {root}/../1.png"),
    "the way up, of Windows": (
        "..\\1.png 0\n",
        FIRST + "..\\1.png leads out of {root}, where paths start, to {root}/..",
    ),
    "a path of Windows": ("C:\\a.png 0\n", FIRST + "there is no image {root}/C:\\a.png; correct the line, "),
    "an absolute path through a link": (
        "{root}/link/1.png 0\n",
        FIRST + "{root}/link/1.png leads out of {root}, where paths start, to {root}/../elsewhere/1.png",
    ),
    "the way up from a link": (
        "link/../1.png 0\n",
        FIRST + "link/../1.png leads out of {root}, where paths ",
    ),
    "two labels of an image": (
        "train/cat/a b.png 0\ntrain/dog/2.png 1\n./train/cat/a b.png 1\n",
        "{list}, line 3: train/cat/a b.png has the label 1, and 0 on a line above or in the other list; each",
    ),
    "odd characters": ("a\x1b[31m.png 0\n", "{list}: the file name 'a\\x1b[31m.png' has characters that cannot stand"),
    "a missing image": ("train/dog/3.png 1\n", FIRST + "there is no image {root}/train/dog/3.png; correct the line, "),
    "a folder": ("train/dog 0\n", FIRST + "there is no image {root}/train/dog; correct the line"),
    "a class only tested": ("train/cat/a b.png 0\ntrain/dog/2.png 0\n", ONLY_TESTED),
    "gaps between labels": ("train/cat/a b.png 0\ntrain/dog/2.png 3\n", "{list}: " + LABELS_OF_BOTH),
    "by PowerShell": (
        "\udcff\udcfea\0",
        "{list} cannot be read as a list of images in UTF-8 ('utf-8' codec can't decode byte 0xff in position 0: "
        "invalid start byte); save it there as UTF-8",
    ),
    "an empty list": ("", "mine, train: found no sample; each split needs one or more"),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_a_list_that_is_not_right(root, folders, listed, tmp_path, text, expected):
    link_elsewhere(root)
    (root / "fit.txt").write_text(text.replace("{root}", str(root)), errors="surrogateescape")
    message = message_of(lambda: prepare(tmp_path / "p", "mine", listed, read(folders, listed), [], 1))
    expected = expected.replace("{list}", str(root / "fit.txt")).replace("{root}/..", str(tmp_path))
    assert message.startswith(expected.replace("{root}", str(root)))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"classes": 4}, "the labels of both splits run from 0 to 1 and lack 2"),
        ({"class_names": ["a", "b", "c"]}, "the labels of both splits run from 0 to 1 and lack 2; labels count"),
    ],
)
def test_an_entry_with_more_classes_than_the_lists(root, folders, listed, keys, expected):
    assert message_of(read, folders, {**listed, **keys}).startswith(f"{root / 'fit.txt'}: {expected}")
