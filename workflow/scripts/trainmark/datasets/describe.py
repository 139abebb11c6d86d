"""Write the catalogue entry for existing data: guess the format from the files and read the rest from them."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from trainmark.datasets.catalogue import SPLITS, known_formats
from trainmark.datasets.formats import idx, npz
from trainmark.datasets.formats._arrays import (
    array_files,
    file_names,
    labels_of,
    named_in_messages,
    open_array,
    source_folder,
)
from trainmark.datasets.prepare import check_labels, labels_in, read_dataset
from trainmark.datasets.samples import Folders
from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of

CHANNELS = (1, 3)
"""Channels of grey and of colour images: an axis of this length is taken for the channel axis."""

MOST_EXPANSION = 1032
"""A gzip file unpacks to at most so many times its size: the limit of deflate, https://zlib.net/zlib_tech.html."""


def describe(name: str, paths: Sequence[Path]) -> dict:
    """The catalogue entry of a folder (`folder`), or of files (`files`, with their SHA-256 and sizes in bytes).

    The data are read as `prepare` reads them, image files excepted, which are not decoded. Raises DataError if no
    format fits or the data are not right.
    """
    with TemporaryDirectory() as temporary, named_in_messages(_own_names(paths, Path(temporary, "raw"))):
        folders = Folders(Path(temporary, "raw"), Path(temporary, "unpacked"))
        source = _source(paths, folders)
        form = _guess_format(paths, source)
        entry = {"title": name.replace("-", " ").capitalize(), "format": form, **source}
        if form != "image_folder":
            entry |= _sizes(entry, folders)
        dataset = read_dataset(folders, entry)
        check_labels(name, entry, dataset)
        entry["classes"] = len(dataset.class_names)
        entry["samples"] = {split: len(labels_in(dataset, split)) for split in SPLITS}
    keys = ("title", "format", "image_shape", "classes", "samples", "folder", "files")
    return {key: entry[key] for key in keys if key in entry}


def _source(paths: Sequence[Path], folders: Folders) -> dict:
    """The entry's `folder` or `files`, the files linked into `folders.raw`. Raises DataError for a missing path."""
    if missing := [path for path in paths if not path.exists()]:
        raise DataError(f"{missing[0]} does not exist; name a folder, or the files of the dataset")
    if len(paths) == 1 and paths[0].is_dir():
        return {"folder": str(paths[0].absolute())}
    if some := [path for path in paths if path.is_dir()]:
        raise DataError(f"{some[0]} is a folder; name one folder alone, or files alone")
    folders.raw.mkdir()
    names = [path.name for path in paths]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"several of the files are named {twice[0]}; give each file once, under a name of its own")
    for path in paths:
        Path(folders.raw, path.name).symlink_to(path.absolute())
    return {"files": [_file(path) for path in paths]}


def _own_names(paths: Sequence[Path], raw: Path) -> dict[str, str]:
    """What the user calls the files that `_source` linked into `raw`, and that folder itself."""
    return {**{str(raw / path.name): str(path) for path in paths}, str(raw): _all(paths)}


def _all(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and the other files"


def _file(path: Path) -> dict:
    address = path.absolute().as_uri()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path), "urls": [address]}


def _guess_format(paths: Sequence[Path], source: Mapping) -> str:
    """Name of the one format that the files fit. Raises DataError if none or several do."""
    if "folder" in source and (paths[0] / "train").is_dir():
        return "image_folder"
    names = file_names(paths[0], source)
    patterns = {form.name: form.own_files for form in known_formats().values() if form.own_files}
    fitting = [form for form, pattern in patterns.items() if any(fnmatch(name, pattern) for name in names)]
    if not fitting and "folder" in source and any(path.is_dir() for path in paths[0].glob("[!.]*")):
        return "image_folder"
    if len(fitting) != 1:
        found = f"holds files of several formats ({', '.join(fitting)})" if fitting else "fits no known format"
        raise DataError(
            f"{_all(paths)}: {found}; allowed: four .npy files or one .npz file (arrays train_images, train_labels, "
            "test_images and test_labels), four -ubyte.gz files as MNIST has them, or a folder with train/<class>/ and "
            "val/<class>/ or with <class>/; for other formats see docs/datasets.md"
        )
    return fitting[0]


def _sizes(entry: Mapping, folders: Folders) -> dict:
    """Image shape, classes and samples of a dataset in arrays; `read_dataset` needs them."""
    labels, image_shape = (_of_idx if entry["format"] == "idx" else _of_arrays)(entry, folders)
    classes = 1 + max(int(values.max(initial=0)) for values in labels.values())
    samples = {split: len(values) for split, values in labels.items()}
    return {"image_shape": image_shape, "classes": classes, "samples": samples}


def _of_arrays(entry: Mapping, folders: Folders) -> tuple[dict[str, np.ndarray], list[int]]:
    """(labels by split, image shape) of .npy files, which an .npz file is unpacked into."""
    if entry["format"] == "npz":
        with npz.unpacked_arrays(folders, entry) as arrays:
            return _of_npy(arrays, [path.name for path in arrays.iterdir()])
    folder = source_folder(folders, entry)
    return _of_npy(folder, file_names(folder, entry))


def _of_npy(folder: Path, names: Sequence[str]) -> tuple[dict[str, np.ndarray], list[int]]:
    files = array_files(folder, names)
    labels = {split: labels_of(label_file) for split, (_, label_file) in files.items()}
    return labels, _guess_image_shape(files["train"][0])


def _guess_image_shape(path: Path) -> list[int]:
    """Channels, height and width of the images in a .npy file. Raises DataError if they are ambiguous."""
    shape = open_array(path).shape[1:]
    if len(shape) == 2:
        return [1, *shape]
    if len(shape) == 3 and shape[0] in CHANNELS:
        return list(shape)
    if len(shape) == 3 and shape[2] in CHANNELS:
        return [shape[2], *shape[:2]]
    raise DataError(
        f"{path} holds samples of the shape {shape}, whose channels are ambiguous; allowed: (height, width), "
        "(channels, height, width) or (height, width, channels) with 1 or 3 channels, or an entry written by hand"
    )


def _of_idx(entry: Mapping, folders: Folders) -> tuple[dict[str, np.ndarray], list[int]]:
    """(labels by split, image shape) of the four IDX files."""
    folder = source_folder(folders, entry)
    labels = {split: _read_idx(folder / label_file) for split, (_, label_file) in idx.FILES.items()}
    images = _read_idx(folder / idx.FILES["train"][0])
    return labels, [1, *images.shape[1:]]


def _read_idx(path: Path) -> np.ndarray:
    return idx.read_idx(path, MOST_EXPANSION * path.stat().st_size if path.is_file() else 0)
