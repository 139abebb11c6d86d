"""Checkpoints, from which a run that was stopped resumes.

A checkpoint is one .npz file. Its name holds the SHA-256 of its content, and its content identifies the run. It is
written under a temporary name and then renamed, and the previous one is kept, so that at least one checkpoint is intact
even if the process is killed or the host reboots while writing.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainmark.errors import ADVICE, why
from trainmark.files.checksums import sha256_of
from trainmark.files.disk import write_arrays
from trainmark.files.whole import give_name, sync

MAX_CHECKPOINTS = 2
"""Number of checkpoints kept for a run: the newest, and the one before it in case the newest is damaged."""

NAME = re.compile(r"epoch-(?P<epoch>\d+)-step-(?P<step>\d+)-(?P<identity>[0-9a-f]{16})-(?P<content>[0-9a-f]{64})\.npz")
"""epoch: number of finished epochs. step: number of steps of the next one. identity: the first digits of the identity's
SHA-256; the file holds all of them. content: SHA-256 of the file."""

IDENTITY_DIGITS = 16
"""Number of hexadecimal digits of the identity's SHA-256 in a file name."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after `epoch` epochs and `step` steps of the next one.

    state: the adapter's state (`Adapter.state`).
    progress: the measurements of each rank so far (`RunMeasurements.snapshot`), as JSON values.
    """

    epoch: int
    state: dict[str, np.ndarray]
    progress: list[dict]
    step: int = 0


def write_checkpoint(folder: Path, identity: str, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint, delete all but the newest MAX_CHECKPOINTS of this identity, and return the new file.

    identity: text from `identity_of`; `newest_checkpoint` only reads checkpoints with the same identity.

    Raises OSError if the file can't be written (earlier checkpoints then stay), and ValueError for an array of Python
    objects.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "checkpoint.part"  # its final name depends on its content
    description = {key: getattr(checkpoint, key) for key in ("epoch", "step", "progress")}
    content = json.dumps({"identity": _digest(identity), **description})
    try:
        arrays = {f"state:{name}": array for name, array in checkpoint.state.items()}
        write_arrays(part, {"content": np.frombuffer(content.encode(), np.uint8), **arrays})
        place = f"epoch-{checkpoint.epoch:06d}-step-{checkpoint.step:08d}"
        file = folder / f"{place}-{_digest(identity)[:IDENTITY_DIGITS]}-{sha256_of(part)}.npz"
        give_name(part, file)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync(folder)
    earlier = [path for path in _files(folder, identity) if path != file]
    for outdated in earlier[MAX_CHECKPOINTS - 1 :]:
        outdated.unlink()
    return file


def newest_checkpoint(folder: Path, identity: str) -> Checkpoint | None:
    """Return the newest intact checkpoint with this identity, or None.

    Damaged checkpoints are deleted; those of another identity are left alone. Prints a line about each of both.
    """
    matching = _files(folder, identity)
    for file in matching:
        try:
            return _read(file, _digest(identity))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in ADVICE:  # it may be whole, and stays
                print(f"{file}: the checkpoint can't be read {why(error)}; trying the one before it", flush=True)
                continue
            print(f"{file}: the checkpoint is damaged ({error}); trying the one before it", flush=True)
            with contextlib.suppress(OSError):
                file.unlink()  # it would count towards MAX_CHECKPOINTS
    for file in sorted(set(folder.glob("epoch-*.npz")) - set(matching)):
        print(f"{file}: not used: this checkpoint belongs to other settings, code or versions", flush=True)
    return None


def _files(folder: Path, identity: str) -> list[Path]:
    """Return the checkpoint files with this identity, newest first: by place in the training, then by time."""
    paths = folder.iterdir() if folder.exists() else ()  # glob would find nothing in a folder that can't be read
    names = [(path, NAME.fullmatch(path.name)) for path in paths]
    digits = _digest(identity)[:IDENTITY_DIGITS]
    places = {
        path: (int(name["epoch"]), int(name["step"])) for path, name in names if name and name["identity"] == digits
    }
    return sorted(places, key=lambda path: (places[path], path.stat().st_mtime_ns), reverse=True)


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()


def _read(file: Path, identity: str) -> Checkpoint:
    name = NAME.fullmatch(file.name)
    if name is None or sha256_of(file) != name["content"]:
        raise ValueError("its SHA-256 differs from the one in its name")
    with np.load(file, allow_pickle=False) as arrays:
        content = json.loads(arrays["content"].tobytes())
        if content.get("identity") != identity:
            raise ValueError("it was renamed: its content has another identity than its name")
        state = {name.removeprefix("state:"): arrays[name] for name in arrays.files if name.startswith("state:")}
    return Checkpoint(content["epoch"], state, content["progress"], content["step"])


def identity_of(parts: Mapping) -> str:
    """Return one text that identifies a run by all that decides its result: settings, data, code and versions."""
    return json.dumps(parts, sort_keys=True)
