"""Own arrays as npy and npz: what comes back, and the one sentence for each thing that may be wrong with them."""

import pickle

import numpy as np
import pytest
from messages import message_of

from trainmark.datasets.catalogue import own_files
from trainmark.datasets.formats import npy, npz
from trainmark.datasets.prepare import prepare
from trainmark.datasets.prepared import read_split
from trainmark.datasets.samples import Folders

COLOUR = {"title": "Colours", "image_shape": [3, 4, 5], "classes": 3}
GREY = {"title": "Grey", "image_shape": [1, 4, 5], "classes": 3}
FORMATS = {"npy": npy, "npz": npz}
NAMES = ("train_images", "train_labels", "test_images", "test_labels")
KERAS_NAMES = ("x_train", "y_train", "x_test", "y_test")
NEEDED = (
    "needed, one of each pair: train_images or x_train, train_labels or y_train, test_images or x_test, "
    "test_labels or y_test"
)


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
def read(tmp_path, form):
    """A function that writes arrays into a folder of one's own and reads the dataset."""

    def read(content, entry=COLOUR):
        write(tmp_path / "own", form, content)
        folders = Folders(tmp_path / "raw", tmp_path / "unpacked")
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


# --- what comes back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [NAMES, KERAS_NAMES])
@pytest.mark.parametrize(
    ("entry", "shape"), [(COLOUR, (3, 4, 5)), (COLOUR, (4, 5, 3)), (GREY, (1, 4, 5)), (GREY, (4, 5)), (GREY, (4, 5, 1))]
)
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


def test_channels_come_first_where_both_layouts_fit(read):
    content = arrays(3, 3, 3)
    dataset = read(content, {**COLOUR, "image_shape": [3, 3, 3]})
    assert np.array_equal(dataset.splits["train"][0], content["train_images"])


@pytest.mark.parametrize("dtype", ["uint8", "int32", ">i8", "uint64"])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_labels_of_any_integer_type_in_a_row_or_a_column(read, dtype, shape):
    content = arrays(3, 4, 5)
    labels = read(content | {"train_labels": content["train_labels"].astype(dtype).reshape(shape)}).splits["train"][1]
    assert labels.dtype == np.int64 and labels.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_other_files_and_arrays_are_passed_over(tmp_path, read):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "notes.txt").write_text("mine")
    (tmp_path / "own" / ".train_labels.npy").write_bytes(b"")
    assert len(read(arrays(3, 4, 5) | {"val_images": np.zeros(3)}).splits["test"][0]) == 3


@pytest.mark.parametrize("form", FORMATS)
def test_files_that_were_fetched(tmp_path, form):
    write(tmp_path / "raw", form, arrays(3, 4, 5))
    write(tmp_path / "raw", form, arrays(3, 4, 5))
    names = [{"name": path.name} for path in (tmp_path / "raw").iterdir()]
    (tmp_path / "raw" / "x_train.npy").write_bytes(b"of an earlier entry")
    dataset = FORMATS[form].read(Folders(tmp_path / "raw", tmp_path / "unpacked"), COLOUR | {"files": names})
    assert np.array_equal(dataset.splits["train"][0], arrays(3, 4, 5)["train_images"])


def test_another_file_of_the_same_size_is_read_anew(read):
    content = arrays(3, 4, 5)
    read(content)
    changed = {name: array[::-1] for name, array in content.items()}
    assert np.array_equal(read(changed).splits["train"][0], changed["train_images"])


def test_they_are_prepared_and_their_content_is_checked(tmp_path, read, form):
    content = arrays(4, 5, 3)
    entry = {**COLOUR, "format": form, "samples": {"train": 7, "test": 3}}
    manifest = prepare(tmp_path / "prepared", "own", entry, read(content), [], 1)
    images, labels = read_split(tmp_path / "prepared", "train")
    assert np.array_equal(images, content["train_images"].transpose(0, 3, 1, 2))
    assert labels.tolist() == content["train_labels"].tolist()
    assert manifest["sample_shape"] == [3, 4, 5]


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


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "other"), list(zip(NAMES, KERAS_NAMES, strict=True)))
def test_an_array_that_is_missing(read, place, name, other):
    content = arrays(3, 4, 5)
    del content[name]
    assert message_of(read, content) == f"{place}: found neither {name} nor {other} (.npy); {NEEDED}"


def test_an_array_under_both_names(read, place):
    content = arrays(3, 4, 5)
    message = message_of(read, content | {"x_test": content["test_images"]})
    assert message == f"{place}: found both test_images and x_test (.npy); {NEEDED}"


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "bool"])
def test_images_of_another_type(read, before_name, dtype):
    content = arrays(3, 4, 5)
    assert message_of(read, content | {"train_images": content["train_images"].astype(dtype)}) == (
        f"{before_name}train_images.npy holds {dtype}; images must be uint8, with values from 0 to 255"
    )


@pytest.mark.parametrize(
    ("entry", "shape", "allowed"),
    [
        (COLOUR, (4, 5), "(samples, 3, 4, 5) or (samples, 4, 5, 3)"),
        (COLOUR, (3, 5, 4), "(samples, 3, 4, 5) or (samples, 4, 5, 3)"),
        (COLOUR, (60,), "(samples, 3, 4, 5) or (samples, 4, 5, 3)"),
        (GREY, (3, 4, 5), "(samples, 1, 4, 5), (samples, 4, 5) or (samples, 4, 5, 1)"),
    ],
)
def test_images_of_another_shape(read, before_name, entry, shape, allowed):
    assert message_of(read, arrays(*shape), entry) == (
        f"{before_name}train_images.npy has the shape {(7, *shape)}; allowed for the image_shape "
        f"{entry['image_shape']} of the dataset's entry: {allowed}"
    )


@pytest.mark.parametrize(
    "labels", [np.zeros(7), np.zeros(7, bool), np.zeros((7, 3), int), np.int64(1), np.array(["a"] * 7)]
)
def test_labels_of_another_type_or_shape(read, before_name, labels):
    assert message_of(read, arrays(3, 4, 5) | {"train_labels": labels}) == (
        f"{before_name}train_labels.npy holds {labels.dtype} of shape {labels.shape}; labels must be integers from 0 "
        "of shape (samples,): argmax(axis=1) of one-hot labels, numbers in place of names"
    )


@pytest.mark.parametrize(
    ("train", "test", "found"),
    [
        ([1, 2, 3, 1, 2, 3, 1], [1, 2, 3], "run from 1 to 3 and lack 0"),
        ([1, 2, 2, 1, 2, 1, 1], [1, 2, 2], "run from 1 to 2 and lack 0"),
        ([-1, 1, 1, -1, 1, 1, 1], [1, -1, 1], "run from -1 to 1 and lack 0 (and 1 more)"),
        ([0, 2, 2, 0, 2, 2, 2], [0, 2, 2], "run from 0 to 2 and lack 1"),
        ([0, 1, 1, 0, 1, 1, 1], [0, 1, 1], "run from 0 to 1 and lack 2"),
    ],
)
def test_a_class_without_labels(read, before_name, train, test, found):
    labels = {"train_labels": np.array(train), "test_labels": np.array(test)}
    message = message_of(read, arrays(3, 4, 5) | labels)
    assert message.startswith(
        f"{before_name}train_labels.npy: the labels of both splits {found}; labels count from 0, "
    )


def test_images_and_labels_of_different_lengths(read, place):
    content = arrays(3, 4, 5)
    assert message_of(read, content | {"test_labels": np.arange(2)}) == (
        f"{place}: test_images.npy holds 3 images and test_labels.npy 2 labels; each image needs one label"
    )


class Planted:
    """What writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("name", ["train_images", "train_labels"])
def test_python_objects_are_never_unpickled(tmp_path, read, before_name, name):
    planted = Planted(tmp_path / "planted")
    pickle.loads(pickle.dumps(planted)).close()
    assert planted.path.exists(), "it does write when it is unpickled"
    planted.path.unlink()
    message = message_of(read, arrays(3, 4, 5) | {name: np.array([planted] * 7)})
    assert message.startswith(f"{before_name}{name}.npy is not a complete .npy file of numbers (")
    assert message.endswith("); write it again with numpy, without Python objects")
    assert not planted.path.exists()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\3\4", b"\x93NUMPY\x01\0\x0a\0{'descr': \n"])
def test_a_file_that_holds_no_array(tmp_path, content):
    write(tmp_path / "own", "npy", arrays(3, 4, 5))
    (tmp_path / "own" / "train_images.npy").write_bytes(content)
    message = message_of(npy.read, Folders(tmp_path, tmp_path), COLOUR | {"folder": str(tmp_path / "own")})
    assert message.startswith(f"{tmp_path}/own/train_images.npy is not a complete .npy file of numbers (")


def test_a_file_that_is_cut_off(tmp_path):
    write(tmp_path / "own", "npy", arrays(3, 4, 5))
    path = tmp_path / "own" / "test_images.npy"
    path.write_bytes(path.read_bytes()[:-1])
    message = message_of(npy.read, Folders(tmp_path, tmp_path), COLOUR | {"folder": str(tmp_path / "own")})
    assert message.startswith(f"{path} is not a complete .npy file of numbers (")


@pytest.mark.parametrize("split", ["train", "test"])
def test_no_sample(tmp_path, read, split):
    content = arrays(3, 4, 5)
    content |= {f"{split}_{part}": content[f"{split}_{part}"][:0] for part in ("images", "labels")}
    assert "found no sample" in message_of(
        lambda: prepare(tmp_path / "prepared", "own", {**COLOUR, "format": "npy"}, read(content), [], 1)
    )


@pytest.mark.parametrize(("label", "found"), [(3, "0 to 3"), (-1, "-1 to 2")])
def test_a_label_that_no_class_has(tmp_path, read, label, found):
    content = arrays(3, 4, 5)
    content["train_labels"][0] = label
    entry = {**COLOUR, "format": "npy"}
    assert message_of(prepare, tmp_path / "prepared", "own", entry, read(content), [], 1) == (
        f"own, train: labels run from {found}; allowed for 3 classes: 0 to 2"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_that_is_not_there(tmp_path, form):
    entry = COLOUR | {"folder": str(tmp_path / "nowhere")}
    assert message_of(FORMATS[form].read, Folders(tmp_path, tmp_path), entry) == (
        f"{tmp_path}/nowhere, the `folder` of Colours, does not exist or cannot be read"
    )


@pytest.mark.parametrize("count", [0, 2])
def test_a_folder_without_one_npz_file(tmp_path, count):
    (tmp_path / "own").mkdir()
    for number in range(count):
        np.savez(tmp_path / "own" / f"{number}.npz", **arrays(3, 4, 5))
    entry = COLOUR | {"folder": str(tmp_path / "own")}
    assert message_of(npz.read, Folders(tmp_path, tmp_path), entry) == (
        f"{tmp_path}/own holds {count} .npz files; the format npz needs exactly one for each dataset"
    )


def test_an_npz_file_that_is_cut_off(tmp_path):
    write(tmp_path / "own", "npz", arrays(3, 4, 5))
    path = tmp_path / "own" / "own.npz"
    path.write_bytes(path.read_bytes()[:-30])
    message = message_of(npz.read, Folders(tmp_path, tmp_path / "u"), COLOUR | {"folder": str(tmp_path / "own")})
    assert message.startswith(f"{path} is not a complete tar or zip archive (")
