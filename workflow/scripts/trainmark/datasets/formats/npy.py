"""The user's own arrays, in four .npy files: train_images, train_labels, test_images and test_labels.

x_train, y_train, x_test and y_test are other names for the same. Images are uint8, labels are integers from 0. The
files are memory-mapped and never unpickled.
"""

from collections.abc import Mapping

from trainmark.datasets.formats._arrays import file_names, read_arrays, source_folder
from trainmark.datasets.samples import Arrays, Folders

FORMAT = {
    "kind": "images",
    "required": ["files|folder", "image_shape", "classes"],
    "optional": ["class_names"],
    "own_files": "*.npy",
}


def read(folders: Folders, entry: Mapping) -> Arrays:
    """The arrays of the user's folder or of the entry's files. Raises DataError if they are not right."""
    folder = source_folder(folders, entry)
    return read_arrays(folder, file_names(folder, entry), entry)
