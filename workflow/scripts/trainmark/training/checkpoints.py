"""Checkpoints: what a run that was killed goes on from.

A checkpoint is one .npz file whose name holds the SHA-256 of its content; the content names the run that it is of. It
is written under another name and then renamed, and the one before it is kept: a kill or a reboot at any moment leaves
one that is whole.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainmark.files.checksums import sha256_of
from trainmark.files.disk import write_arrays
from trainmark.files.whole import give_name, sync

KEPT = 2
"""Checkpoints that are kept: the newest, and one to go back to where that is damaged."""

NAME = re.compile(r"epoch-(?P<epoch>\d+)-(?P<identity>[0-9a-f]{16})-(?P<content>[0-9a-f]{64})\.npz")
"""identity: the beginning of the SHA-256 that the file holds. content: the whole SHA-256 of the file."""

NAMED = 16
"""Hexadecimal digits of the identity in a file's name."""


@dataclass(frozen=True)
class Checkpoint:
    """A run after `epoch` epochs.

    state: the adapter's (`Adapter.state`). progress: what the run has to show so far, as plain JSON values.
    """

    epoch: int
    state: dict[str, np.ndarray]
    progress: dict


def write_checkpoint(folder: Path, identity: str, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint, remove all but the newest KEPT of this identity, and return its file.

    identity: names everything that decides the run; `newest_checkpoint` takes no checkpoint of another. Raises OSError,
    leaving the earlier ones, where it can't be written, and ValueError for an array of Python objects.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "checkpoint.part"  # written_whole knows its file's name before; this one's is of its content
    content = json.dumps({"identity": _digest(identity), "epoch": checkpoint.epoch, "progress": checkpoint.progress})
    try:
        arrays = {f"state:{name}": array for name, array in checkpoint.state.items()}
        write_arrays(part, {"content": np.frombuffer(content.encode(), np.uint8), **arrays})
        file = folder / f"epoch-{checkpoint.epoch:06d}-{_digest(identity)[:NAMED]}-{sha256_of(part)}.npz"
        give_name(part, file)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # not every system can
        sync(folder)
    earlier = [path for path in _files(folder, identity) if path != file]
    for old in earlier[KEPT - 1 :]:
        old.unlink()
    return file


def newest_checkpoint(folder: Path, identity: str) -> Checkpoint | None:
    """The newest whole checkpoint of this run, or None.

    Prints a line about each that is damaged, and removes it; and about each that is of another identity, which stays.
    """
    own = _files(folder, identity)
    for file in own:
        try:
            return _read(file, _digest(identity))
        except (OSError, ValueError) as error:
            print(f"{file}: the checkpoint is damaged ({error}); looking for the one before it", flush=True)
            with contextlib.suppress(OSError):
                file.unlink()  # or it would count as one of those that are kept
    for file in sorted(set(folder.glob("epoch-*.npz")) - set(own)):
        print(f"{file}: the checkpoint is of other settings, code or versions; it is left", flush=True)
    return None


def _files(folder: Path, identity: str) -> list[Path]:
    """Checkpoints of this identity in a folder, the newest first: by epoch, then by when they were written."""
    names = [(path, NAME.fullmatch(path.name)) for path in folder.glob("epoch-*.npz")]
    own = [(int(name["epoch"]), path) for path, name in names if name and name["identity"] == _digest(identity)[:NAMED]]
    own.sort(key=lambda epoch_path: (epoch_path[0], epoch_path[1].stat().st_mtime_ns), reverse=True)
    return [path for _, path in own]


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()


def _read(file: Path, identity: str) -> Checkpoint:
    name = NAME.fullmatch(file.name)
    if name is None or sha256_of(file) != name["content"]:
        raise ValueError("its SHA-256 is not the one in its name")
    with np.load(file, allow_pickle=False) as arrays:
        content = json.loads(arrays["content"].tobytes())
        if content.get("identity") != identity:
            raise ValueError("it was renamed: it holds another identity than its name")
        state = {name.removeprefix("state:"): arrays[name] for name in arrays.files if name.startswith("state:")}
    return Checkpoint(content["epoch"], state, content["progress"])


def identity_of(parts: Mapping) -> str:
    """One text for everything that decides a run: its settings, data, code and versions."""
    return json.dumps(parts, sort_keys=True)
