"""Own arrays as npy and npz: what comes back, and the one sentence for each thing that may be wrong with them."""

import os

import numpy as np
import pytest
from messages import message_of

from trainmark.datasets.catalogue import own_files
from trainmark.datasets.formats import npy, npz
from trainmark.datasets.prepare import prepare
from trainmark.datasets.prepared import read_split


class Gadget:
    """Calls `function(*arguments)` where it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


COLOUR = {"title": "Colours", "image_shape": [3, 4, 5], "classes": 3}
GREY = {"title": "Grey", "image_shape": [1, 4, 5], "classes": 3}
FORMATS = {"npy": npy, "npz": npz}
NAMES = ("train_images", "train_labels", "test_images", "test_labels")
KERAS_NAMES = ("x_train", "y_train", "x_test", "y_test")


def arrays(*shape, names=NAMES) -> dict:
    """7 training and 3 test images of a shape, with labels 0, 1, 2, 0 ..., by name."""
    generator = np.random.default_rng(0)
    splits = [(generator.integers(0, 256, (count, *shape), np.uint8), np.arange(count) % 3) for count in (7, 3)]
    return dict(zip(names, (array for split in splits for array in split), strict=True))


def write(folder, form, content) -> None:
    folder.mkdir(exist_ok=True)
    if form == "npz":
        np.savez_compressed(folder / "own.npz", **content)
    else:
        for name, array in content.items():
            np.save(folder / f"{name}.npy", array)


@pytest.fixture(params=FORMATS)
def form(request) -> str:
    return request.param


@pytest.fixture
def read(tmp_path, folders, form):
    """A function that writes arrays into a folder of one's own and reads the dataset."""

    def read(content, entry=COLOUR):
        write(tmp_path / "own", form, content)
        return FORMATS[form].read(folders, {"format": form, "folder": str(tmp_path / "own"), **entry})

    return read


@pytest.fixture
def place(tmp_path, form):
    """What messages name: the folder of the .npy files, or the .npz file."""
    return str(tmp_path / ("own" if form == "npy" else "own/own.npz"))


@pytest.fixture
def before_name(place, form):
    """What messages name before an array."""
    return place + ("/" if form == "npy" else ": ")


@pytest.mark.parametrize(
    ("entry", "shape", "names"),
    [
        (COLOUR, (3, 4, 5), NAMES), (COLOUR, (4, 5, 3), KERAS_NAMES), (GREY, (4, 5), NAMES), (GREY, (4, 5, 1), NAMES),
        ({**COLOUR, "image_shape": [3, 3, 3]}, (3, 3, 3), NAMES),  # both layouts fit: channels come first
    ],
)  # fmt: skip
def test_images_of_each_layout(read, entry, shape, names):
    content = arrays(*shape, names=names)
    dataset = read(content, entry)
    assert (list(dataset.splits), dataset.kind, dataset.class_names) == (["train", "test"], "images", ["0", "1", "2"])
    for (images, labels), image_name, label_name in zip(dataset.splits.values(), names[::2], names[1::2], strict=True):
        expected = content[image_name]
        if len(shape) == 3 and shape != tuple(entry["image_shape"]):
            expected = expected.transpose(0, 3, 1, 2)
        assert images.dtype == np.uint8 and labels.dtype == np.int64
        assert np.array_equal(images, expected.reshape(-1, *entry["image_shape"]))
        assert np.array_equal(labels, content[label_name])
        assert isinstance(images, np.memmap)


@pytest.mark.parametrize(("dtype", "shape"), [("uint8", (-1,)), (">i8", (-1, 1))])
def test_labels_of_any_integer_type_in_a_row_or_a_column(read, dtype, shape):
    labels = (np.arange(7) % 3).astype(dtype).reshape(shape)
    found = read(arrays(3, 4, 5) | {"train_labels": labels}).splits["train"][1]
    assert found.dtype == np.int64 and found.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_another_file_of_the_same_size_is_read_anew_and_what_is_read_can_be_prepared(tmp_path, read, form):
    read(arrays(4, 5, 3))
    content = {name: array[::-1] for name, array in arrays(4, 5, 3).items()}
    prepare(tmp_path / "prepared", "own", {**COLOUR, "format": form}, read(content), [], 1)
    images, labels = read_split(tmp_path / "prepared", "train")
    assert np.array_equal(images, content["train_images"].transpose(0, 3, 1, 2))
    assert labels.tolist() == content["train_labels"].tolist()


@pytest.mark.parametrize(
    ("form", "names"), [("npy", ["train_images.npy", "x.npy"]), ("npz", ["a.npz"]), ("idx", ["t-ubyte.gz"])]
)
def test_snakemake_is_told_of_the_files_in_a_folder_of_ones_own(tmp_path, monkeypatch, form, names):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own").mkdir()
    for name in ("train_images.npy", "x.npy", "a.npz", "t-ubyte.gz", "notes.txt", "._x.npy", "._a.npz", "._t-ubyte.gz"):
        (tmp_path / "own" / name).touch()
    catalogue = {"own": {"format": form, "folder": "~/own"}, "fetched": {"format": form, "files": []}}
    assert own_files("own", catalogue) == [str(tmp_path / "own" / name) for name in names]
    assert own_files("fetched", catalogue) == []
    assert own_files("own", {"own": {"format": form, "folder": str(tmp_path / "nowhere")}}) == []
    assert own_files("own", {"own": {"format": "image_folder", "folder": "~/own"}}) == []


@pytest.mark.parametrize(("name", "other"), list(zip(NAMES, KERAS_NAMES, strict=True))[1:3])
def test_an_array_that_is_missing_or_there_under_both_names(read, place, name, other):
    content = arrays(3, 4, 5)
    array = content.pop(name)
    for arrays_held, count in ((content, 0), (content | {name: array, other: array}, 2)):
        expected = f"{place}: needs one array of the names {name} and {other} (.npy); found {count}"
        assert message_of(read, arrays_held) == expected


@pytest.mark.parametrize(
    ("entry", "shape", "allowed"),
    [
        (COLOUR, (3, 5, 4), "[3, 4, 5] of the dataset's entry: (samples, 3, 4, 5), (samples, 4, 5, 3), or without "),
        (GREY, (3, 4, 5), "[1, 4, 5] of the dataset's entry: (samples, 1, 4, 5), (samples, 4, 5, 1), or without one "),
    ],
)
def test_images_of_another_shape(read, before_name, entry, shape, allowed):
    message = message_of(read, arrays(*shape), entry)
    assert message.startswith(f"{before_name}train_images.npy has the shape {(7, *shape)}; ") and allowed in message


SPLITS = "the labels of both splits run from"
OTHERS = [
    ("images", np.zeros((7, 3, 4, 5), "float32"), "holds float32; images must be uint8, with values from 0 to 255"),
    ("labels", np.zeros(7), "holds float64 of shape (7,); labels must be integers from 0 of shape (samples,): "),
    ("labels", np.zeros((7, 3), int), "holds int64 of shape (7, 3); "),
    ("labels", np.int64(1), "holds int64 of shape (); "),
    ("labels", np.array([1, 2, 3, 1, 2, 3, 1]), f": {SPLITS} 1 to 3 and lack 0; labels count from 0, "),
    ("labels", np.array([-1, 1, 1, -1, 1, 1, 1]), f": {SPLITS} -1 to 1 and lack 0; "),
    ("labels", np.array([0, 1, 1, 0, 1, 1, 1]), f": {SPLITS} 0 to 1 and lack 2; "),
]


@pytest.mark.parametrize("name", ["train_images", "train_labels"])
def test_python_objects_are_never_unpickled(tmp_path, read, before_name, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    message = message_of(read, arrays(3, 4, 5) | {name: np.array([Gadget(os.mkdir, "run")] * 7)})
    assert message.startswith(f"{before_name}{name}.npy is not a complete .npy file of numbers (")
    assert message.endswith("); write it again with numpy, without Python objects")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\3\4", b"\x93NUMPY\x01\0\x0a\0{'descr': \n", None])
def test_a_file_that_holds_no_array_or_is_cut_off(tmp_path, folders, content):
    write(tmp_path / "own", "npy", arrays(3, 4, 5))
    path = tmp_path / "own" / "test_images.npy"
    path.write_bytes(path.read_bytes()[:-1] if content is None else content)
    message = message_of(npy.read, folders, COLOUR | {"folder": str(tmp_path / "own")})
    assert message.startswith(f"{path} is not a complete .npy file of numbers (")


def test_a_folder_without_one_npz_file(tmp_path, folders):
    (tmp_path / "own").mkdir()
    for count in (0, 2):
        for number in range(count):
            np.savez(tmp_path / "own" / f"{number}.npz", **arrays(3, 4, 5))
        message = message_of(npz.read, folders, COLOUR | {"folder": str(tmp_path / "own")})
        assert message.startswith(f"{tmp_path}/own holds {count} .npz files; the format npz needs exactly one ")
