"""A prepared dataset of photographs with its packed stores, and one of arrays."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainmark.datasets.catalogue import store_file
from trainmark.datasets.images.lists import prepared_paths
from trainmark.datasets.images.packed import pack
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays, ImageLists

PHOTOGRAPHS = {"train": 21, "test": 7}


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset. packed: folder of its packed store; None for arrays."""

    folder: Path
    packed: Path | None

    def paths(self, split: str) -> list[Path]:
        """The files of a split."""
        return prepared_paths(self.folder, split)


@pytest.fixture(scope="session")
def shared_photographs(tmp_path_factory) -> Dataset:
    """Photographs of several sizes and orientations, in both splits."""
    folder = tmp_path_factory.mktemp("photographs")
    generator = np.random.default_rng(0)
    splits = {}
    for split, samples in PHOTOGRAPHS.items():
        (folder / split).mkdir(parents=True)
        for number in range(samples):
            coarse = Image.fromarray(generator.integers(0, 256, (5, 7, 3), np.uint8))
            coarse.resize((300 + number, 260), Image.Resampling.BICUBIC).save(folder / split / f"{number:02}.jpg")
        splits[split] = [(f"{split}/{number:02}.jpg", number % 3) for number in range(samples)]
    entry = {"title": "Small", "format": "image_folder", "classes": 3}
    prepare(folder / "prepared", "small", entry, ImageLists(folder, splits, ["a", "b", "c"]), [], 1)
    dataset = Dataset(folder / "prepared", folder)
    for split in PHOTOGRAPHS:
        pack(dataset.paths(split), store_file(folder, split), 1)
    return dataset


@pytest.fixture(scope="session")
def arrays(tmp_path_factory) -> Dataset:
    """Images of 2 channels, 11 rows and 9 columns in arrays."""
    generator = np.random.default_rng(1)
    splits = {
        split: (generator.integers(0, 256, (samples, 2, 11, 9), dtype=np.uint8), np.arange(samples) % 3)
        for split, samples in (("train", 50), ("test", 20))
    }
    folder = tmp_path_factory.mktemp("arrays") / "prepared"
    entry = {"title": "Small", "format": "idx", "classes": 3, "image_shape": [2, 11, 9]}
    prepare(folder, "small", entry, Arrays(splits, ["a", "b", "c"]), [], 1)
    return Dataset(folder, None)
