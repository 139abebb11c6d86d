"""Files of trained weights, from which runs may start. Imports no numpy, so that a config is checked without it."""

import ast
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from trainmark.errors import why
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Shape

LONGEST_HEADER = 10_000
"""Maximum length of the header of an array, in bytes, as numpy has it."""

FLOATS = re.compile(r"[<>=]f[248]")
"""The dtypes that weights may have, in numpy's notation."""


def initial_weights_file(settings: Mapping) -> Path | None:
    """Return the file from which the runs of an experiment start; None if their weights are drawn.

    settings: the experiment's settings by key. `~` is the user's home folder.
    """
    path = settings.get("initial_weights")
    return Path(os.path.expanduser(path)) if path else None


def is_weight(name: str) -> bool:
    """Whether an array of a file belongs to the network ("dense1.kernel"). The others say what was trained."""
    return "." in name


def why_unfit(file: Path, architecture: Architecture | None) -> str | None:
    """Return why no run of a network can start from a file, as a phrase that continues "the file"; None if one can.

    architecture: None if it is not known yet; then any file of weights will do.

    Only names, shapes and types of the arrays are read. `initial_weights.read_weights` reads the values.
    """
    if not file.is_file():
        return "is a folder" if file.exists() else "does not exist"
    try:
        stored = stored_shapes(file)
    except OSError as error:
        return f"can't be read {why(error)}"
    except Exception as error:  # a damaged archive: zipfile and ast raise many types
        return f"is damaged, or holds no weights ({str(error) or type(error).__name__})"
    return _misfit(stored, architecture) if architecture else None


def stored_shapes(file: Path) -> dict[str, Shape]:
    """Return the shapes of the network's arrays in a file, by name. Raises many types if the file is damaged."""
    shapes = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.namelist():
            name = member.removesuffix(".npy")
            if is_weight(name):
                with archive.open(member) as stream:
                    header = _header(stream.read(LONGEST_HEADER))
                if not FLOATS.fullmatch(header["descr"]):
                    raise ValueError(f"{name} holds no floating-point numbers")
                shapes[name] = tuple(header["shape"])
    return shapes


def _header(content: bytes) -> dict:
    """Return the header of an array in .npy format, which `content` begins with: its dtype and its shape."""
    if not content.startswith(b"\x93NUMPY"):
        raise ValueError("an array without a header")
    header: dict = ast.literal_eval(content[content.index(b"{") : content.index(b"}") + 1].decode())
    return header


def _misfit(stored: Mapping[str, Shape], architecture: Architecture) -> str | None:
    needed = {parameter.name: tuple(parameter.shape) for parameter in architecture.arrays()}
    for name in [*needed, *stored]:
        if name not in stored:
            return f"is of another network than {architecture.name}: it lacks {name}"
        if name not in needed:
            return f"is of another network than {architecture.name}, which has no {name}"
        if stored[name] != needed[name]:
            return f"is of another network: {name} is {_sides(stored[name])} in it, and {_sides(needed[name])} here"
    return None


def _sides(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "a single number"
