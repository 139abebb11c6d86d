"""Helpers of formats whose samples are arrays: npy, npz and idx."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import numpy as np

from trainmark.datasets.formats._trees import own_folder
from trainmark.datasets.samples import Arrays, Folders, class_names_of, expect_each_class
from trainmark.errors import DataError, expect_damage

NAMES = {
    "train": (("train_images", "x_train"), ("train_labels", "y_train")),
    "test": (("test_images", "x_test"), ("test_labels", "y_test")),
}
"""By split, the allowed names of the array of images and of the array of labels. x_train and so on are the names in
the .npz files of Keras.
"""


def source_folder(folders: Folders, entry: Mapping) -> Path:
    """The folder that holds the files of an entry: the user's own, or that of the downloaded files."""
    return own_folder(entry) if "folder" in entry else folders.raw


def file_names(folder: Path, entry: Mapping) -> list[str]:
    """Names of the files of an entry: those it lists, or those in the user's own folder, without hidden ones."""
    if "folder" not in entry:
        return [file["name"] for file in entry["files"]]
    return sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def read_arrays(folder: Path, names: Collection[str], entry: Mapping) -> Arrays:
    """Memory-map the images and labels of both splits from the .npy files in `folder`.

    names: the files in `folder` that belong to the dataset. Raises DataError if one of the four arrays is missing or
    has a wrong type, shape or length, or if a class has no label.
    """
    splits = {}
    files = array_files(folder, names)
    for split, (image_file, label_file) in files.items():
        images = images_of(image_file, entry["image_shape"])
        labels = labels_of(label_file)
        if len(images) != len(labels):
            raise DataError(
                f"{folder}: {image_file.name} holds {len(images)} images and {label_file.name} {len(labels)} labels; "
                "each image needs one label"
            )
        splits[split] = (images, labels)
    expect_each_class(files["train"][1], [labels.tolist() for _, labels in splits.values()], entry["classes"])
    return Arrays(splits, class_names_of(entry))


def array_files(folder: Path, names: Collection[str]) -> dict[str, tuple[Path, Path]]:
    """By split, the .npy files of images and labels. Raises DataError if one is missing or is there twice."""
    return {
        split: (_only_one(folder, names, image_names), _only_one(folder, names, label_names))
        for split, (image_names, label_names) in NAMES.items()
    }


def _only_one(folder: Path, names: Collection[str], allowed: tuple[str, str]) -> Path:
    present = [name for name in allowed if f"{name}.npy" in names]
    if len(present) != 1:
        raise DataError(f"{folder}: needs one array of the names {' and '.join(allowed)} (.npy); found {len(present)}")
    return folder / f"{present[0]}.npy"


@contextmanager
def named_in_messages(names: Mapping[str, str]) -> Iterator[None]:
    """Call paths in messages of the body by other names: temporary ones mean nothing to the user."""
    try:
        yield
    except DataError as error:
        raise DataError(reduce(lambda text, pair: text.replace(*pair), names.items(), str(error))) from error


def open_array(path: Path) -> np.ndarray:
    """Memory-map a .npy file; nothing is unpickled. Raises DataError if it holds no numbers or is damaged."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # numpy evaluates the header as a Python literal, which may raise many types
        expect_damage(error, path)
        why = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(
            f"{path} is not a complete .npy file of numbers ({why}); write it again with numpy, without Python objects"
        ) from error


def images_of(path: Path, image_shape: tuple[int, int, int]) -> np.ndarray:
    """The images of a .npy file, uint8 (samples, channels, height, width), memory-mapped.

    The file may hold them in this layout, as (samples, height, width) if there is one channel, or as (samples, height,
    width, channels). If several layouts fit, the first of these counts. Raises DataError for another shape or type.
    """
    images = open_array(path)
    channels, height, width = image_shape
    if images.dtype != np.uint8:
        raise DataError(f"{path} holds {images.dtype}; images must be uint8, with values from 0 to 255")
    shape = images.shape[1:]
    if shape == (channels, height, width):
        return images
    if shape == (height, width) and channels == 1:
        return images[:, np.newaxis]
    if shape == (height, width, channels):
        return np.moveaxis(images, -1, 1)
    raise DataError(
        f"{path} has the shape {images.shape}; allowed for the image_shape {list(image_shape)} of the dataset's entry: "
        f"(samples, {channels}, {height}, {width}), (samples, {height}, {width}, {channels}), or without one channel"
    )


def labels_of(path: Path) -> np.ndarray:
    """The labels of a .npy file, int64 (samples,); (samples, 1) is allowed too. Raises DataError."""
    labels = open_array(path)
    if labels.dtype.kind not in "iu" or labels.shape[1:] not in ((), (1,)) or not labels.ndim:
        raise DataError(
            f"{path} holds {labels.dtype} of shape {labels.shape}; labels must be integers from 0 of shape (samples,): "
            "argmax(axis=1) of one-hot labels, numbers in place of names"
        )
    return np.asarray(labels, np.int64).reshape(-1)
