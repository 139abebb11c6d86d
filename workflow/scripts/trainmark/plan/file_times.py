"""The times of results, by which Snakemake decides what to make again: those of copies, and those of a wrong clock.

Snakemake makes a result again if one of its inputs is newer. In a copy of results the times may be those of copying, in
any order. So each call keeps what its jobs read and made, with digests, in MADE_OF. The next call that finds an input
newer than what was made of it compares the digests; if all agree, the result gets the time of its newest input.
"""

import hashlib
import json
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from trainmark.errors import DataError
from trainmark.files.whole import write_text
from trainmark.plan.products import MANIFEST, RESULTS

MADE_OF = Path(f"{RESULTS}/made_of.json")
"""What jobs read and made: a list of {"inputs": {path: digest}, "outputs": {path: digest}}."""

LARGE_BYTES, SAMPLED, SAMPLE_BYTES = 2**30, 64, 2**20
"""To read the packed images of ImageNet, 250 GB, would take longer than a call of snakemake may."""

ALLOWED_SECONDS = 60
"""How far the clocks of a machine and its file server may differ."""


def check_file_times(jobs: Iterable[Any]) -> None:
    """Raise DataError if jobs read a file whose time is in the future.

    After each job Snakemake removes outputs that are older than an input, a record for example, and so do later calls.
    """
    jobs, now = list(jobs), time.time()
    made = {str(file) for job in jobs for file in job.output}
    read = {str(file) for job in jobs for file in job.input} - made
    if ahead := sorted(file for file in read if _time_of(file) / 1e9 > now + ALLOWED_SECONDS):
        places = {RESULTS if Path(file).is_relative_to(RESULTS) else str(Path(file).parent) for file in ahead}
        others = f" (and {len(ahead) - 1} more)" if ahead[1:] else ""
        hours = (_time_of(ahead[0]) / 1e9 - now) / 3600
        raise DataError(
            f"the time of {ahead[0]}{others} is {hours:.3g} h in the future, and Snakemake would remove results as "
            "older than what they were made of; set the clocks of this machine and its file server right, then: "
            f"find {shlex.join(sorted(places))} -newermt now -exec touch -d @{int(now)} {{}} +"
        )


def keep_digests(jobs: Iterable[tuple[Iterable[str], Sequence[str]]]) -> None:
    """Add jobs that have ended well to MADE_OF: the inputs whose age counts, and the outputs.

    Jobs of which an input has changed since are left out.
    """
    made = [
        {
            "inputs": {file: _digest(file) for file in inputs},
            "outputs": {file: _digest(file) for file in outputs},
        }
        for inputs, outputs in jobs
        if outputs
    ]
    made = [one for one in made if max(map(_time_of, one["inputs"]), default=0) <= _oldest(one["outputs"])]
    again = {file for one in made for file in one["outputs"]}
    kept = [one for one in _read_made_of() if again.isdisjoint(one["outputs"])]
    if made:
        write_text(MADE_OF, json.dumps(kept + made))


def restore_order() -> None:
    """Give results that are older than what they were made of the time of their newest input, if all digests agree."""
    maker = {file: one for one in _read_made_of() for file in one["outputs"]}

    @cache
    def settled(file: str) -> float:
        """The time of a file once those that it was made of are in order; infinite if it is not there."""
        made = maker.get(file)
        newest = max(map(settled, made["inputs"]), default=0) if made else 0
        found = _time_of(file) or inf
        if made is None or newest <= _oldest(made["outputs"]) < inf:
            return found
        agree = newest < inf and all(_digest(path) == digest for part in made.values() for path, digest in part.items())
        if not agree:
            return found
        _raise_times(made["outputs"], newest)
        return _time_of(file) or newest  # a temporary file is not there

    for file in maker:
        settled(file)


def raise_times(files: Iterable[str], inputs: Iterable[str]) -> None:
    """Give files that are older than the newest of their inputs its time."""
    _raise_times(files, max(map(_time_of, inputs), default=0))


def _raise_times(files: Iterable[str], nanoseconds: float) -> None:
    for file in files:
        if 0 < _time_of(file) < nanoseconds:
            with suppress(OSError):  # a file of somebody else keeps its time
                os.utime(_stamp(file), ns=(int(nanoseconds), int(nanoseconds)))


def _read_made_of() -> list[dict[str, dict[str, str | None]]]:
    """Read MADE_OF; nothing if it is damaged. Outputs outside the results folder, written by a forger, are left out."""
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        made = [
            {part: dict(one[part]) for part in ("inputs", "outputs")}
            for one in json.loads(MADE_OF.read_text(encoding="utf-8"))
        ]
        return [one for one in made if all(map(_is_result, one["outputs"]))]
    return []


def _is_result(file: str) -> bool:
    return file.startswith(f"{RESULTS}/") and ".." not in Path(file).parts


def _digest(file: str) -> str | None:
    """Return what tells whether a file is the same; None if it is not there.

    The SHA-256 of a file, or of a folder's manifest; of a folder without one that of the names and sizes of its files;
    of a file of more than LARGE_BYTES that of its size and of some bytes at SAMPLED places.
    """
    path = Path(file)
    if path.is_dir() and not (path / MANIFEST).exists():
        listed = sorted((str(one.relative_to(path)), one.stat().st_size) for one in path.rglob("*") if one.is_file())
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
    path = path / MANIFEST if path.is_dir() else path
    if not path.is_file():
        return None
    with suppress(OSError), open(path, "rb") as stream:
        size = path.stat().st_size
        if size <= LARGE_BYTES:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        digest = hashlib.sha256(str(size).encode())
        for place in range(SAMPLED):
            stream.seek(place * (size - SAMPLE_BYTES) // (SAMPLED - 1))
            digest.update(stream.read(SAMPLE_BYTES))
        return digest.hexdigest()
    return None


def _oldest(files: Iterable[str]) -> float:
    """The time of the oldest of these files that are there; infinite if none is."""
    return min((changed for file in files if (changed := _time_of(file))), default=inf)


def _stamp(file: str) -> Path:
    """The file whose time Snakemake takes as that of a file or folder."""
    stamp = Path(file, ".snakemake_timestamp")
    return stamp if stamp.exists() else Path(file)


def _time_of(file: str) -> int:
    """Return the time of a file as Snakemake takes it, in nanoseconds; 0 if it is not there."""
    path = _stamp(file)
    return path.stat().st_mtime_ns if path.exists() else 0
