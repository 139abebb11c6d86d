"""Images in class folders, the user's own or out of an archive: what is found, what is drawn, and what is refused."""

import io
import shutil
import zipfile

import mirrors
import pytest
from messages import message_of
from PIL import Image

from trainmark.datasets.formats.image_folder import read
from trainmark.datasets.prepare import read_dataset
from trainmark.files.checksums import sha256_of


def put(root, *names) -> None:
    """Files that look like images to whoever lists names."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"image")


@pytest.fixture
def root(tmp_path):
    """A folder of the user's with two classes."""
    root = tmp_path / "own"
    put(root, "train/dog/2.png", "train/dog/10.png", "train/cat/a b.png", "val/cat/1.png", "val/dog/1.png")
    return root


def own(folder, **options) -> dict:
    return {"title": "Mine", "format": "image_folder", "folder": str(folder), **options}


TRAIN = [("train/cat/a b.png", 0), ("train/dog/10.png", 1), ("train/dog/2.png", 1)]
TEST = [("val/cat/1.png", 0), ("val/dog/1.png", 1)]


def test_images_may_lie_in_folders_of_a_class(root, folders):
    """Tiny ImageNet has train/<class>/images. A hidden folder above hides nothing."""
    root = root.rename(root.with_name(".own"))
    put(root, "train/emu/images/1.png", "val/emu/images/1.png")
    assert read(folders, own(root)).splits["test"] == [*TEST, ("val/emu/images/1.png", 2)]
    shutil.rmtree(root / "train" / "emu")
    shutil.rmtree(root / "val" / "emu")
    put(root, "train/cat/winter/b.png", "train/cat/summer/deep/c.png")
    assert read(folders, own(root)).splits["train"] == [
        ("train/cat/a b.png", 0), ("train/cat/summer/deep/c.png", 0), ("train/cat/winter/b.png", 0), *TRAIN[1:],
    ]  # fmt: skip


ADDED = [
    ".x", "@eaDir/1.png/SYNOPHOTO_THUMB_M.jpg", "__MACOSX/train/cat/._1.png", "train/#recycle/1.png",
    "train/.cache/x.png", "train/cat/.DS_Store", "train/cat/deep/.ipynb_checkpoints/1-checkpoint.png", "val/.git/x",
]  # fmt: skip


def test_what_is_hidden_and_what_systems_add_is_passed_over_at_every_depth(root, folders, capsys):
    put(root, *ADDED, "train/list.csv", "train/cat/deep/1.png")
    dataset = read_dataset(folders, own(root))
    train = [TRAIN[0], ("train/cat/deep/1.png", 0), *TRAIN[1:]]
    assert dataset.class_names == ["cat", "dog"] and dataset.splits == {"train": train, "test": TEST}
    assert len(dataset.passed_over) == len(ADDED)
    assert "Mine: passed over 8 files and folders" in capsys.readouterr().err


def test_names_of_classes_are_compared_in_one_form_of_unicode(root, folders):
    put(root, f"train/{COMPOSED}/1.png", f"val/{DECOMPOSED}/2.png")
    dataset = read(folders, own(root))
    assert dataset.class_names == [COMPOSED, "cat", "dog"]
    assert dataset.splits["test"] == [(f"val/{DECOMPOSED}/2.png", 0), ("val/cat/1.png", 1), ("val/dog/1.png", 2)]


def test_links_are_followed(root, folders, tmp_path):
    """As where large data lie on another disk, or in a store of files by content."""
    put(tmp_path / "disk", "birds/1.png", "birds/2.png", "more/3.png", "file")
    (root / "train" / "bird").symlink_to(tmp_path / "disk" / "birds")
    (root / "val" / "bird").mkdir()
    (root / "val" / "bird" / "link.png").symlink_to(tmp_path / "disk" / "file")
    (root / "train" / "cat" / "more").symlink_to(tmp_path / "disk" / "more")
    (tmp_path / "link").symlink_to(root)
    dataset = read(folders, own(tmp_path / "link"))
    assert dataset.class_names == ["bird", "cat", "dog"]
    assert dataset.splits["train"][:4] == [
        ("train/bird/1.png", 0), ("train/bird/2.png", 0), ("train/cat/a b.png", 1), ("train/cat/more/3.png", 1),
    ]  # fmt: skip
    assert dataset.splits["test"][0] == ("val/bird/link.png", 0)


def test_a_link_that_leads_round_in_a_circle_is_refused(root, folders):
    again = root / "train" / "cat" / "again"
    again.symlink_to(root / "train")
    message = message_of(read, folders, own(root))
    assert message.startswith(f"{again / 'cat'} is a link to {root / 'train' / 'cat'}, which contains it; ")


SPLITS = "which may be classes or splits; rename folders: allowed are train beside val or test, "
LEAD = "; `folder` or `root` must lead to a folder that holds train beside val or test, "
UNCLEAR = "; it is unclear which folders are classes: let `folder` or `root` lead to the one that holds them "

COMPOSED, DECOMPOSED = "G\u00e4nse", "Ga\u0308nse"
BOTH = "cat/1.png, cat/2.png, dog/1.png, dog/2.png, "
NAMES_OF_SPLITS = [
    ("Testing", "Training"), ("train", "validation"), ("test_set", "training_set"), ("train2017", "tst2017"),
]  # fmt: skip
WRONG = [
    ("1.png, 2.png", "{root} holds 0 folders ()" + LEAD),
    ("cat/1.png, cat/2.png", "{root} holds 1 folders (cat)" + LEAD),
    ("train/cat/1.png", "{root} holds 1 folders (train), " + SPLITS),
    ("bus/1.png, train/1.png", "{root} holds 1 folders (train), " + SPLITS),
    *((f"{a}/c/1.png, {b}/c/1.png", f"{{root}} holds 2 folders ({a}, {b}), " + SPLITS) for a, b in NAMES_OF_SPLITS),
    ("i/train/a/1.png, i/val/a/1.png, x/1.png", "{root}/i holds 2 folders (train, val)" + UNCLEAR),
    (BOTH + "pets/cat/1.png, pets/dog/1.png", "{root}/pets holds 2 folders (cat, dog)" + UNCLEAR),
    ("train/n/a/1.png, train/n/b/1.png, val/n/1.png", "{root}/train/n holds 2 folders (a, b)" + UNCLEAR),
    ("n/a/1, n/b/1, n/c/1, n/d/1, n/e/1, s/1.png", "{root}/n holds 5 folders (a, b, c, ...)" + UNCLEAR),
    ("train/Cat/1.png, train/dog/1.png, val/cat/1.png, val/dog/1.png", "{root}/val has the class cat, which "),
    ("train/cat/1.png, val/1.png", "{root}/val holds 0 folders (), and none of a class in {root}/train; move the test"),
    ("train/cat/1.png, val/images/1.png", "{root}/val holds 1 folders (images), and none of a class in {root}/train; "),
    ("cat/1.png, cat/2.png, dog/1.png", "{root}/dog holds one image; each class needs two or more, of which "),
    ("cat/1.png, cat/2.png, dog/", "{root}/dog holds no image; every class needs some in own"),
    ("train/1.png, val/1.png", "{root}/train holds no folder; each class of images needs one"),
    ("caf\u00e9/1.png, cafe\u0301/1.png", "{root} holds two folders café, in two forms of Unicode"),
    ("train/cat/1.png, val/cat/1.png, val/emu/1.png", "{root}/val has the class emu, which {root}/train lacks; "),
    ("train/cat/1.png, train/dog/1.png, val/cat/1.png", "{root}/val/dog holds no image; every class needs some in val"),
    ("train/cat/.1.png, val/cat/1.png", "{root}/train/cat holds no image; every class needs some in train"),
    ("train/cat/new\nline.png, val/cat/1", r"{root}/train: the file name 'train/cat/new\nline.png' has characters "),
    ("train/cat/1.png, val/cat/caf\udce9.png", r"{root}/val: the file name 'val/cat/caf\udce9.png' has characters "),
]


@pytest.mark.parametrize(("files", "message"), WRONG, ids=[ascii(files) for files, _ in WRONG])
def test_a_folder_that_is_laid_out_otherwise(root, folders, files, message):
    """A name that ends with a slash is that of an empty folder."""
    shutil.rmtree(root)
    for name in files.split(", "):
        if name.endswith("/"):
            (root / name).mkdir(parents=True)
        else:
            put(root, name)
    assert message_of(read, folders, own(root)).startswith(message.replace("{root}", str(root)))


@pytest.fixture
def undivided(tmp_path):
    """A folder of the user's with three classes, of 10, 3 and 2 images, and no train and val."""
    root = tmp_path / "own"
    put(root, *(f"cat/{i}.png" for i in range(10)), *(f"dog/{i}.png" for i in range(3)), "emu/a.png", "emu/deep/b.png")
    return root


@pytest.mark.parametrize(
    ("share", "test"), [({}, [2, 1, 1]), ({"test_share": 0.01}, [1, 1, 1]), ({"test_share": 0.99}, [9, 2, 1])]
)
def test_a_share_of_each_class_is_drawn_and_one_at_least(undivided, folders, share, test):
    dataset = read(folders, own(undivided, **share))
    assert dataset.class_names == ["cat", "dog", "emu"] and dataset.root == undivided
    labels = {split: [label for _, label in entries] for split, entries in dataset.splits.items()}
    assert labels == {
        "train": [0] * (10 - test[0]) + [1] * (3 - test[1]) + [2] * (2 - test[2]),
        "test": [0] * test[0] + [1] * test[1] + [2] * test[2],
    }
    everything = dataset.splits["train"] + dataset.splits["test"]
    assert len(set(everything)) == 15 and ("emu/deep/b.png", 2) in everything, "each image once, in one split"


def test_the_draw_is_that_of_its_seed_on_every_machine(undivided, folders):
    drawn = [name for name, _ in read(folders, own(undivided, seed=1)).splits["test"]]
    assert drawn == ["cat/5.png", "cat/6.png", "dog/1.png", "emu/deep/b.png"], "drawn on another machine"
    assert read(folders, own(undivided)).splits == read(folders, own(undivided, seed=1, test_share=0.2)).splits
    others = {tuple(read(folders, own(undivided, seed=seed)).splits["test"]) for seed in range(20)}
    assert len(others) > 10


def test_what_is_divided_already_is_not_drawn_from(root, folders):
    assert "; remove test_share and seed" in message_of(read, folders, own(root, test_share=0.3, seed=3))


def archive(path, files: dict[str, bytes]) -> dict:
    """Write a .tgz or .zip of files; what a catalogue says of it."""
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name, content in files.items():
                zipped.writestr(name, content)
    else:
        path.write_bytes(mirrors.tar(files))
    return {"name": path.name, "sha256": sha256_of(path), "urls": []}


def png(grey: int) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (8, 8), grey).save(stream, "PNG")
    return stream.getvalue()


PICTURES = {
    f"top/{split}/{name}/{number}.png": png(50 * number)
    for split in ("train", "val")
    for name in ("cat", "dog")
    for number in range(3)
}


@pytest.fixture
def packed(folders):
    """An entry of one archive."""
    file = archive(folders.raw / "pictures.tgz", PICTURES)
    return {"title": "Pictures", "format": "image_folder", "root": "top", "files": [file]}


def test_several_archives_are_unpacked_into_one_folder(folders):
    halves = [{name: PICTURES[name] for name in PICTURES if f"/{split}/" in name} for split in ("train", "val")]
    files = [archive(folders.raw / name, half) for name, half in zip(("1.tgz", "2.zip"), halves, strict=True)]
    entry = {"title": "P", "format": "image_folder", "root": "top", "files": files}
    dataset = read(folders, entry)
    assert dataset.root == folders.unpacked / "top" and dataset.class_names == ["cat", "dog"]
    for name, content in PICTURES.items():
        assert (folders.unpacked / name).read_bytes() == content
    assert [len(entries) for entries in dataset.splits.values()] == [6, 6]
    message = message_of(read, folders, {**entry, "root": "else"})
    assert message.startswith(f"{folders.unpacked / 'else'} can't be read (No such file or directory); ")


def test_an_encoding_of_names_that_is_given_later_unpacks_again(folders):
    name = "N" * 10
    file = archive(
        folders.raw / "1.zip", {f"{name}/{number}.png": png(number) for number in range(4)} | {"b/1": b"", "b/2": b""}
    )
    path = folders.raw / "1.zip"
    path.write_bytes(path.read_bytes().replace(name.encode(), "Bäume 2024".encode("cp850")))
    entry = {"title": "P", "format": "image_folder", "files": [file]}
    assert "has names that are not in UTF-8" in message_of(read, folders, entry)
    assert read(folders, {**entry, "encoding": "cp437"}).class_names == ["Bäume 2024", "b"]
    assert read(folders, {**entry, "encoding": "cp866"}).class_names == ["BДume 2024", "b"]


def test_archives_are_unpacked_once_and_others_anew_in_an_empty_folder(packed, folders):
    assert len(read(folders, packed).splits["train"]) == 6
    (folders.unpacked / "top" / "train" / "cat" / "0.png").unlink()
    assert len(read(folders, packed).splits["train"]) == 5, "nothing is unpacked again"
    others = {f"top/{split}/{name}/other.png": png(1) for split in ("train", "val") for name in ("cat", "dog")}
    packed["files"] = [archive(folders.raw / "pictures.tgz", others)]
    whole = (folders.raw / "pictures.tgz").read_bytes()
    (folders.raw / "pictures.tgz").write_bytes(whole[: len(whole) // 2])
    assert "pictures.tgz cannot be unpacked into " in message_of(read, folders, packed)
    (folders.raw / "pictures.tgz").write_bytes(whole)
    assert [len(entries) for entries in read(folders, packed).splits.values()] == [2, 2]
