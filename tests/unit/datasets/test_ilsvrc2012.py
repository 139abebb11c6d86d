"""ILSVRC2012, small: three archives laid out as the real ones, or a folder, and labels in the order of the wnids."""

import gzip
import hashlib
import io
from functools import partial

import mirrors
import numpy as np
import pytest
from messages import message_of
from PIL import Image
from scipy.io import savemat

from trainmark.datasets.formats.ilsvrc2012 import KIT, TEST, TRAIN, read
from trainmark.datasets.samples import Folders

WNIDS = ["n01440764", "n02084071", "n03445777"]
ID_OF_WNID = {"n03445777": 1, "n01440764": 2, "n02084071": 3, "n00001740": 4}
"""The kit's own numbers are another order; the last one groups others, as ImageNet's inner nodes do."""

TRUTH = [2, 1, 3, 1]
DATA = "ILSVRC2012_devkit_t12/data"

tar = partial(mirrors.tar, mode="w")


def jpeg(seed: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (20, 10), (seed, 100, 200)).save(stream, "JPEG")
    return stream.getvalue()


def meta(id_of_wnid=ID_OF_WNID, **variables) -> bytes:
    """The kit's meta.mat: a struct array `synsets` of column layout, as MATLAB writes it."""
    fields = "ILSVRC2012_ID,WNID,words,gloss,num_children,children,wordnet_height,num_train_images"
    synsets = np.zeros((len(id_of_wnid), 1), [(field, object) for field in fields.split(",")])
    for row, (wnid, number) in enumerate(id_of_wnid.items()):
        children = np.array([[1.0, 2.0]]) if wnid == "n00001740" else np.zeros((1, 0))
        synsets[row, 0] = (
            np.uint16(number), wnid, "some, words", "a gloss", float(children.size), children, 0.0, 1300.0,
        )  # fmt: skip
    stream = io.BytesIO()
    savemat(stream, variables or {"synsets": synsets}, do_compression=True)
    return stream.getvalue()


def kit(table: bytes | None = None, truth: bytes = "".join(f"{number}\n" for number in TRUTH).encode()) -> bytes:
    files = {
        f"{DATA}/meta.mat": meta() if table is None else table,
        f"{DATA}/ILSVRC2012_validation_ground_truth.txt": truth,
        "ILSVRC2012_devkit_t12/readme.txt": b"ILSVRC2012",
    }
    return gzip.compress(tar(files))


@pytest.fixture
def folders(tmp_path):
    """Folders with the three archives in them: images in an order that is not that of their names."""
    (tmp_path / "raw").mkdir()
    classes = {
        f"{wnid}.tar": tar({f"{wnid}_{number}.JPEG": jpeg(number) for number in (18, 2)}) for wnid in reversed(WNIDS)
    }
    validation = {f"ILSVRC2012_val_{number:08}.JPEG": jpeg(number) for number in (3, 1, 4, 2)}
    for name, content in ((TRAIN, tar(classes)), (TEST, tar(validation)), (KIT, kit())):
        (tmp_path / "raw" / name).write_bytes(content)
    return Folders(tmp_path / "raw", tmp_path / "unpacked")


def entry(folders) -> dict:
    """The catalogue's entry, of three classes."""
    files = []
    for name, kind in ((TRAIN, "sha256"), (TEST, "sha256"), (KIT, "md5")):
        files.append({"name": name, kind: hashlib.new(kind, (folders.raw / name).read_bytes()).hexdigest(), "urls": []})
    return {"title": "Small", "format": "ilsvrc2012", "classes": 3, "files": files}


TRAIN_LIST = [(f"train/{wnid}/{wnid}_{number}.JPEG", label) for label, wnid in enumerate(WNIDS) for number in (18, 2)]
LABELS = [0, 2, 1, 2]
"""TRUTH as places among the sorted wnids: id 2 is n01440764, the first; id 1 n03445777, the last."""


def test_classes_are_numbered_in_the_order_of_their_wnids(folders):
    dataset = read(folders, entry(folders))
    assert (dataset.root, dataset.class_names) == (folders.unpacked, WNIDS)
    assert not list(folders.unpacked.rglob("*.tar")), "the class archives are not kept a second time"
    assert all((folders.unpacked / path).is_file() for entries in dataset.splits.values() for path, _ in entries)
    assert dataset.splits == {
        "train": TRAIN_LIST,
        "test": [(f"val/ILSVRC2012_val_{number:08}.JPEG", label) for number, label in enumerate(LABELS, 1)],
    }


def test_a_folder_of_classes(folders, tmp_path):
    for split in ("train", "val"):
        for wnid in reversed(WNIDS):
            (tmp_path / "own" / split / wnid).mkdir(parents=True)
            (tmp_path / "own" / split / wnid / "1.JPEG").write_bytes(jpeg(1))
    dataset = read(folders, {**entry(folders), "folder": str(tmp_path / "own")})
    assert dataset.root == tmp_path / "own" and dataset.class_names == WNIDS
    assert dataset.splits["test"] == [(f"val/{wnid}/1.JPEG", label) for label, wnid in enumerate(WNIDS)]
    assert not folders.unpacked.exists(), "the archives are not touched"


def broken_bits(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 0xFF for byte in content[middle : middle + 8]) + content[middle + 8 :]


TABLES = {
    "nothing": (b"", "MatReadError"),
    "damaged": (broken_bits(meta()), ""),
    "no synsets": (meta(other=1.0), "KeyError"),
    "synsets without ids": (meta(synsets={"WNID": "n01440764"}), "AttributeError"),
    "not there": (None, "OSError"),
}


@pytest.mark.parametrize(("table", "kind"), TABLES.values(), ids=TABLES)
def test_a_table_of_synsets_that_is_none(folders, table, kind):
    content = gzip.compress(tar({"readme.txt": b"another kit"})) if table is None else kit(table)
    (folders.raw / KIT).write_bytes(content)
    message = message_of(read, folders, entry(folders))
    path = folders.unpacked / "devkit" / DATA / "meta.mat"
    assert message.startswith(f"{path} is not the development kit's table of synsets ({kind}")


NO_CLASS, OTHER_LENGTH = "does not give a trained class for every image ({})", "has {} labels, and {{val}} 4 images"


@pytest.mark.parametrize(
    ("truth", "why"),
    [
        (b"2\n1\n3\n9\n", NO_CLASS.format("KeyError(9)")),
        (b"2\n1\n3\n4\n", NO_CLASS.format("KeyError('n00001740')")),
        (b"2\n1\n3\n", OTHER_LENGTH.format(3)),
    ],
    ids=["an id that is none", "an id that groups others", "one less"],
)
def test_a_ground_truth_that_is_none(folders, truth, why):
    (folders.raw / KIT).write_bytes(kit(truth=truth))
    path = folders.unpacked / "devkit" / DATA / "ILSVRC2012_validation_ground_truth.txt"
    expected = f"{path} {why.replace('{val}', str(folders.unpacked / 'val'))}"
    assert message_of(read, folders, entry(folders)).startswith(expected)
