"""Fetching the files of a catalogue entry: from a mirror or by address, trusted by SHA-256 alone."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

import requests
import urllib3
from tqdm import tqdm

from trainmark.errors import DataError

CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60

FETCH_ERRORS = (OSError, DataError, urllib3.exceptions.HTTPError, ValueError)
"""What a place may answer with: requests' errors are OSErrors; a stream that breaks off raises urllib3's, and an
address that is none a ValueError.
"""


def fetch_dataset(name: str, entry: Mapping, mirror: str | None, raw_folder: Path) -> list[dict]:
    """Put every file of an entry into `raw_folder`; return what came from where.

    A file that is there already and right is kept. Raises DataError when a file can be had from no place.
    """
    raw_folder.mkdir(parents=True, exist_ok=True)
    if not entry.get("files"):
        return [{"file": None, "from": entry["embedded_in"]}]
    return [_fetch_file(name, file, mirror, raw_folder) for file in entry["files"]]


def _fetch_file(name: str, file: Mapping, mirror: str | None, raw_folder: Path) -> dict:
    target = raw_folder / file["name"]
    known = {"file": file["name"], "sha256": file["sha256"]}
    if target.is_file() and _sha256(target) == file["sha256"]:
        return {**known, "from": "already there"}
    addresses = [*_mirrored(mirror, f"{name}/{file['name']}"), *file["urls"]]
    troubles = []
    for address in addresses:
        try:
            _copy(address, target, file["sha256"])
        except FETCH_ERRORS as trouble:
            troubles.append(f"{without_credentials(address)}: {_in_words(trouble)}")
        else:
            return {**known, "from": without_credentials(address)}
    tried = f"could be had from none of {len(troubles)} places ({'; '.join(troubles)}); connect this machine, set"
    untried = "has no address in the catalogue and no mirror is set; set"
    raise DataError(
        f"{file['name']} of the dataset {name} {tried if troubles else untried} `mirror` in the config or "
        f"TRAINMARK_MIRROR to a folder or address that holds {name}/{file['name']}, or put the file at {target}"
    )


def _mirrored(mirror: str | None, path: str) -> list[str]:
    """Where a mirror holds a file: none, or one place. An address keeps its query, which may be its key, at the end."""
    if not mirror:
        return []
    if "://" not in mirror:
        return [os.path.join(os.path.expanduser(mirror), path)]
    folder, mark, query = mirror.partition("?")
    return [f"{folder.rstrip('/')}/{path}{mark}{query}"]


def _copy(address: str, target: Path, sha256: str) -> None:
    """Stream an address into a file beside the target, and give it the real name only when its hash is right."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    digest = hashlib.sha256()
    try:
        with _open(address) as (source, total_bytes), open(part, "wb") as out, _bar(target.name, total_bytes) as bar:
            while chunk := source.read(CHUNK_BYTES):
                out.write(chunk)
                digest.update(chunk)
                bar.update(len(chunk))
        if digest.hexdigest() != sha256:
            raise DataError(f"holds a file with SHA-256 {digest.hexdigest()}, and {sha256} is expected")
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _open(address: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """(binary stream, size in bytes where known) of a path, a file:// address or a http(s):// address."""
    if urlsplit(address).scheme in ("http", "https"):
        # "identity": what is hashed is the file itself, not a server's own compression of it.
        headers = {"Accept-Encoding": "identity"}
        with requests.get(address, stream=True, timeout=TIMEOUT_SECONDS, headers=headers) as response:
            response.raise_for_status()
            yield response.raw, int(response.headers.get("Content-Length", 0)) or None
    else:
        path = Path(url2pathname(urlsplit(address).path)) if address.startswith("file://") else Path(address)
        with open(path, "rb") as stream:
            yield stream, path.stat().st_size


def _bar(name: str, total_bytes: int | None) -> tqdm:
    return tqdm(desc=f"downloading {name}", total=total_bytes, unit="B", unit_scale=True, disable=None)


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verify(raw_folder: Path, entry: Mapping) -> None:
    """Raise DataError where a raw file is missing or is no longer what was downloaded."""
    for file in entry.get("files", []):
        path = raw_folder / file["name"]
        if not path.is_file() or _sha256(path) != file["sha256"]:
            state = "is damaged" if path.is_file() else "is missing"
            raise DataError(f"{path} {state}; run snakemake --forcerun download_dataset to fetch it again")


def without_credentials(address: str) -> str:
    """The address without user name, password and query, which may hold secrets."""
    scheme, _, _ = address.partition(":")
    if scheme.lower() not in ("http", "https"):
        return address
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port  # the port raises where it is no number
    except ValueError:
        host = None
    if not host:
        return f"{scheme}://..."  # nobody can say which part of it is a password
    return f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _in_words(error: Exception) -> str:
    """What went wrong, in one line and without the address, whose query may hold a secret."""
    kind = type(error).__name__
    if isinstance(error, requests.HTTPError):
        return f"HTTP status {error.response.status_code}"
    if isinstance(error, ValueError):
        return f"not a valid address ({kind})"
    if isinstance(error, requests.ConnectionError):
        return f"no connection ({kind})"
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return f"no answer in {TIMEOUT_SECONDS} s ({kind})"
    if isinstance(error, urllib3.exceptions.HTTPError):
        return f"the connection broke off ({kind})"
    if isinstance(error, requests.RequestException):
        return kind
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return (str(error).splitlines() or [kind])[0]
