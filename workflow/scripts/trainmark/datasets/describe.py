"""Write the catalogue entry for existing data: guess the format from the files and read the rest from them."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from trainmark.datasets.catalogue import SPLITS, known_formats
from trainmark.datasets.formats import idx, npz
from trainmark.datasets.formats._arrays import array_files, file_names, labels_of, named_in_messages, open_array
from trainmark.datasets.prepare import check_labels, labels_in, read_dataset
from trainmark.datasets.samples import Folders
from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of

CHANNELS = (1, 3)
"""Channels of grey and of colour images: an axis of this length is taken for the channel axis."""


def describe(name: str, paths: Sequence[Path]) -> dict:
    """The catalogue entry of a folder (`folder`), or of files (`files`, with their SHA-256 and sizes in bytes).

    The data are read as `prepare` reads them, image files excepted, which are not decoded. Raises DataError if no
    format fits or the data are not right.
    """
    if missing := [path for path in paths if not path.exists()]:
        raise DataError(f"{missing[0]} does not exist; name a folder, or the files of the dataset")
    with TemporaryDirectory() as temporary, named_in_messages({f"{temporary}/": ""}):
        is_folder = len(paths) == 1 and paths[0].is_dir()
        folder = paths[0].absolute() if is_folder else _linked(paths, Path(temporary, "files"))
        folders = Folders(folder, Path(temporary, "unpacked"))
        entry: dict[str, Any] = {
            "title": name.replace("-", " ").capitalize(),
            "format": _guess_format(folder),
            "folder": str(folder),
        }
        if entry["format"] != "image_folder":
            entry |= _sizes(entry, folders)
        dataset = read_dataset(folders, entry)
        check_labels(name, entry, dataset)
        entry["classes"] = len(dataset.class_names)
        entry["samples"] = {split: len(labels_in(dataset, split)) for split in SPLITS}
    if not is_folder:
        del entry["folder"]
        entry["files"] = [_file(path) for path in paths]
    keys = ("title", "format", "image_shape", "classes", "samples", "folder", "files")
    return {key: entry[key] for key in keys if key in entry}


def _linked(paths: Sequence[Path], folder: Path) -> Path:
    """A folder with links to the files. Raises DataError if one of them is a folder, or two have one name."""
    folder.mkdir()
    for path in paths:
        if path.is_dir() or Path(folder, path.name).exists():
            raise DataError(f"{path} is a folder, or a second file of this name; name one folder alone, or files alone")
        Path(folder, path.name).symlink_to(path.absolute())
    return folder


def _file(path: Path) -> dict:
    address = path.absolute().as_uri()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path), "urls": [address]}


def _guess_format(folder: Path) -> str:
    """Name of the one format that the files fit. Raises DataError if none or several do."""
    names = file_names(folder, {"folder": folder})
    patterns = {form.name: form.own_files for form in known_formats().values() if form.own_files}
    fitting = [form for form, pattern in patterns.items() if any(fnmatch(name, pattern) for name in names)]
    if (folder / "train").is_dir() or (not fitting and any(path.is_dir() for path in folder.glob("[!.]*"))):
        return "image_folder"
    if len(fitting) != 1:
        raise DataError(
            f"{folder}: its files fit {' and '.join(fitting) or 'no format'}; allowed: four .npy files or one .npz "
            "file (arrays train_images, train_labels, test_images and test_labels), four -ubyte.gz files as MNIST has "
            "them, or a folder with train/<class>/ and val/<class>/ or with <class>/; for other formats see "
            "docs/datasets.md"
        )
    return fitting[0]


def _sizes(entry: Mapping, folders: Folders) -> dict:
    """Image shape, classes and samples of a dataset in arrays; `read_dataset` needs them."""
    if entry["format"] == "idx":
        labels = {split: idx.read_idx(folders.raw / label_file) for split, (_, label_file) in idx.FILES.items()}
        image_shape = [1, *idx.read_idx(folders.raw / idx.FILES["train"][0]).shape[1:]]
    elif entry["format"] == "npz":
        with npz.unpacked_arrays(folders, entry) as arrays:
            labels, image_shape = _of_npy(arrays)
    else:
        labels, image_shape = _of_npy(folders.raw)
    classes = 1 + max(int(values.max(initial=0)) for values in labels.values())
    samples = {split: len(values) for split, values in labels.items()}
    return {"image_shape": image_shape, "classes": classes, "samples": samples}


def _of_npy(folder: Path) -> tuple[dict[str, np.ndarray], list[int]]:
    """(labels by split, image shape) of .npy files. Raises DataError if it is unclear which axis has the channels."""
    files = array_files(folder, file_names(folder, {"folder": folder}))
    labels = {split: labels_of(label_file) for split, (_, label_file) in files.items()}
    shape = open_array(files["train"][0]).shape[1:]
    if len(shape) == 2:
        return labels, [1, *shape]
    if len(shape) == 3 and shape[0] in CHANNELS:
        return labels, list(shape)
    if len(shape) == 3 and shape[2] in CHANNELS:
        return labels, [shape[2], *shape[:2]]
    raise DataError(
        f"{files['train'][0]} holds samples of the shape {shape}, whose channels are ambiguous; allowed: (height, "
        "width), (channels, height, width) or (height, width, channels) with 1 or 3 channels, or an entry written by "
        "hand"
    )
