"""Fetch the files of a catalogue entry from a mirror or by address. A file is accepted by its checksum alone."""

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from trainmark.console import print_line, say_when_long
from trainmark.datasets.fetching.addresses import host_of, in_mirror, is_web, without_credentials
from trainmark.datasets.fetching.transfer import FETCH_ERRORS, in_words, transfer
from trainmark.errors import DataError
from trainmark.files.checksums import Checksum, checksum_of
from trainmark.files.disk import StorageError, format_bytes
from trainmark.files.whole import part_of


class _NoSourceError(DataError):
    """A file could not be fetched from any source."""


def fetch_dataset(name: str, entry: Mapping, mirror: str | None, raw_folder: Path, offline: bool = False) -> list[dict]:
    """Put every file of an entry into `raw_folder`; return the source of each.

    mirror: folder or address that is tried first. offline: open no connection. A file that exists and has the right
    checksum is kept. Raises DataError if a file cannot be fetched from any source: for the first such file, or, with
    `offline`, once for all of them.
    """
    raw_folder.mkdir(parents=True, exist_ok=True)
    if not _files(entry):
        source = entry.get("embedded_in") or entry.get("folder") or entry.get("of") or "generated"
        return [{"file": None, "from": source}]
    sources, missing = [], []
    for file in _files(entry):
        try:
            sources.append(_fetch_file(name, file, mirror, raw_folder, offline))
        except _NoSourceError as error:
            if not offline:
                raise DataError(str(error)) from error
            missing.append(str(error))
    if missing:
        raise DataError(_offline_message(name, len(sources), missing, mirror))
    return sources


def _files(entry: Mapping) -> list[Mapping]:
    """The files to fetch for an entry; none if the user's own folder holds the data."""
    return [] if "folder" in entry else entry.get("files", [])


def _fetch_file(name: str, file: Mapping, mirror: str | None, raw_folder: Path, offline: bool) -> dict:
    target, checksum = raw_folder / file["name"], Checksum.from_catalogue(file)
    target.parent.mkdir(parents=True, exist_ok=True)  # the name of a command's file may be a path
    described = {"file": file["name"], checksum.kind: checksum.digest}
    if target.is_file() and _checksum_of(name, target, checksum.kind) == checksum:
        part_of(target).unlink(missing_ok=True)
        return {**described, "from": "already there"}
    problems = []
    for address in [*in_mirror(mirror, f"{name}/{file['name']}"), *file["urls"]]:
        if offline and is_web(address):
            continue
        try:
            with _announce(name, address, file):
                transfer(address, target, checksum, file.get("bytes"))
        except StorageError:
            raise
        except FETCH_ERRORS as error:
            problems.append(f"{without_credentials(address)}: {in_words(error)}")
        else:
            return {**described, "from": without_credentials(address)}
    if offline:
        raise _NoSourceError(_put_by_hand(target, checksum, problems))
    raise _NoSourceError(_online_message(name, target, problems))


def _announce(name: str, address: str, file: Mapping) -> AbstractContextManager[None]:
    """Print what is fetched: a download at once, a copy from a folder (which may be a link) when it takes long."""
    size = f" ({format_bytes(file['bytes'])})" if "bytes" in file else ""
    source = host_of(address) if is_web(address) else without_credentials(address)
    what = f"{name}: {'downloading' if is_web(address) else 'copying'} {file['name']}{size} from {source}"
    if is_web(address):
        print_line(what, sys.stderr)
    return say_when_long(what, shows_bar=True)


def _checksum_of(name: str, path: Path, kind: str) -> Checksum:
    with say_when_long(f"{name}: checking {path.name}", shows_bar=True):
        return checksum_of(path, kind)


def _online_message(name: str, target: Path, problems: list[str]) -> str:
    sources = "its only source" if len(problems) == 1 else f"any of {len(problems)} sources"
    tried = f"could not be downloaded from {sources} ({'; '.join(problems)}); connect this machine, set"
    untried = "has no address in the catalogue and no mirror is set; set"
    partial = f"; the bytes so far are kept in {part_of(target)}, and the next attempt continues from there"
    return (
        f"{target.name} of {name} {tried if problems else untried} `mirror` in the config or "
        f"TRAINMARK_MIRROR to a folder or address that holds {name}/{target.name}, or put the file at {target}"
        f"{partial if part_of(target).exists() else ''}"
    )


def _put_by_hand(target: Path, checksum: Checksum, problems: list[str]) -> str:
    wrong = [f"{target}: exists and has another checksum"] if target.is_file() else []
    states = "; ".join([*wrong, *problems])
    return f"put {target.name} with {checksum} at {target}{f' ({states})' if states else ''}"


def _offline_message(name: str, available: int, missing: list[str], mirror: str | None) -> str:
    unused = f"; the mirror {without_credentials(mirror)} is not used" if mirror and is_web(mirror) else ""
    return (
        f"`offline: true` is set, and {len(missing)} of the {available + len(missing)} files of {name} "
        f"cannot be fetched without a connection: {'; '.join(missing)}; or set `mirror` in the config or "
        f"TRAINMARK_MIRROR to a folder that holds them in {name}/{unused}"
    )


def verify(raw_folder: Path, entry: Mapping) -> None:
    """Raise DataError if a raw file is missing or no longer has its checksum."""
    for file in _files(entry):
        path, checksum = raw_folder / file["name"], Checksum.from_catalogue(file)
        if not path.is_file() or checksum_of(path, checksum.kind) != checksum:
            state = "is damaged" if path.is_file() else "is missing"
            raise DataError(f"{path} {state}; run snakemake again with --forcerun download_dataset to fetch it")


def read_sources(path: Path) -> list[dict]:
    """Read back what `fetch_dataset` returned, from a file. Raises DataError if the file is damaged."""
    try:
        sources: list[dict] = json.loads(path.read_text())
        return sources
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} does not say where the files came from ({error}); delete it and run snakemake again"
        ) from error
