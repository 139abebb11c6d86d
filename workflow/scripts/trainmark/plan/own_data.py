"""The content of the folders of the user's that datasets are prepared from, as it is now."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainmark.console import say_when_long
from trainmark.datasets.catalogue import images_folder, own_files
from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of
from trainmark.files.system_files import is_added_by_system
from trainmark.plan.code_digests import dataset_code, refuse_other_code
from trainmark.plan.keys import short_digest


def own_data(names: Iterable[str], catalogue: Mapping, earlier: Mapping) -> dict[str, list[dict[str, Any]]]:
    """Return what decides the content of the user's folder of each of these datasets: the SHA-256 of arrays and lists,
    the names and sizes of images. It is empty for a dataset without one.

    earlier: an earlier plan. What it knew is taken as long as sizes and times are the same, and without the folder.
    """
    known = earlier.get("datasets", {})
    return {name: _content(name, catalogue, known.get(name, {}).get("own", [])) for name in names}


def deciding_of_own(own: Iterable[Mapping]) -> list[list[str]]:
    """Return what of `own_data` decides a dataset's content, wherever and of when its files are."""
    return [[one["name"], one["sha256"]] for one in own]


def check_own_data(plan: Mapping, name: str) -> None:
    """Raise DataError if the user's folder of a dataset holds other data than when the plan was made.

    The paths of results tell those data. A dataset that takes its classes from another one has the folder of that one.
    """
    planned = plan["datasets"][name]
    if of := planned["entry"].get("of"):
        check_own_data(plan, of)
    if planned["own"]:
        now = _content(name, {name: planned["entry"]}, planned["own"])
        if deciding_of_own(now) != deciding_of_own(planned["own"]):
            raise DataError(
                f"the data in {planned['entry']['folder']} have changed since this call of snakemake began; call it "
                "again, and it prepares and trains with the data as they are now"
            )


def check_dataset(plan: Mapping, name: str) -> None:
    """Raise DataError if the data of a dataset, or the code that prepares it, changed since the plan was made."""
    planned = plan["datasets"][name]
    refuse_other_code(dataset_code(planned["entry"]["format"]), planned["made_by"])
    check_own_data(plan, name)


def _content(name: str, catalogue: Mapping, earlier: Iterable[Mapping]) -> list[dict[str, Any]]:
    known = {one["file"]: one for one in earlier}
    found = []
    for file in own_files(name, catalogue):
        stat, same = os.stat(file), known.get(file)
        one = {"name": os.path.basename(file), "file": file, "state": [stat.st_size, stat.st_mtime_ns]}
        found.append(same if same and same["state"] == one["state"] else {**one, "sha256": _sha256_of(Path(file))})
    if images := images_folder(catalogue[name]):
        same = known.get(str(images))
        found.append(same if same and _is_as_before(same["state"]) else _listed(images))
    return list(map(dict, found or earlier))


def _sha256_of(file: Path) -> str:
    with say_when_long(f"reading {file}"):
        return sha256_of(file)


def _listed(folder: Path) -> dict[str, Any]:
    """Return the digest of the names and sizes of all files in a folder, and the time of each folder in it.

    As where images are listed, links are followed, and hidden files and those that systems add do not count.
    """
    sizes: dict[str, int | None] = {}
    times: dict[str, int] = {}

    def look_into(path: str, above: tuple[str, ...]) -> None:
        if (real := os.path.realpath(path)) in above:
            return
        times[path] = os.stat(path).st_mtime_ns
        for one in os.scandir(path):
            if one.name.startswith(".") or is_added_by_system(one.name):
                continue
            if one.is_dir():
                look_into(one.path, (*above, real))
            else:
                sizes[os.path.relpath(one.path, folder)] = one.stat().st_size if one.is_file() else None

    with say_when_long(f"listing {folder}"):
        look_into(str(folder), ())
    return {"name": "", "file": str(folder), "state": times, "sha256": short_digest(sizes)}


def _is_as_before(times: Mapping[str, int]) -> bool:
    """Return whether no file was added to these folders, or removed: the time of one would have changed."""
    return all(os.path.isdir(path) and os.stat(path).st_mtime_ns == changed for path, changed in times.items())
