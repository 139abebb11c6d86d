"""Dataset formats, one module each: a module named like the format, with `read(raw_folder, entry)`.

`read` returns {split: (images uint8 (samples, channels, height, width), labels int64 (samples,))}.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a dry run asks for the formats' names and has no numpy
    import numpy as np

Arrays = dict[str, tuple["np.ndarray", "np.ndarray"]]


def known_formats() -> list[str]:
    """Names of the formats that have a module here."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def read_dataset(raw_folder: Path, entry: Mapping) -> Arrays:
    """Read the raw files of a catalogue entry by the module of its format."""
    return importlib.import_module(f"{__name__}.{entry['format']}").read(raw_folder, entry)
