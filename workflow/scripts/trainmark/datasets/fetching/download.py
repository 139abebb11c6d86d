"""Fetch the files of a catalogue entry from a mirror or by address. A file is accepted by its checksum alone.

The bytes of a download are collected in `<name>.part` next to the file. The next attempt, the next address and the
process after a killed one all continue there. Ranges: RFC 9110, section 14.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urljoin

import requests
from tqdm import tqdm
from urllib3 import Retry

from trainmark.console import print_line, say_when_long
from trainmark.datasets.fetching.addresses import in_mirror, is_web, path_of, without_credentials
from trainmark.errors import DataError, why
from trainmark.files.checksums import expected_checksum, has_checksum
from trainmark.files.disk import StorageError, format_bytes, require_free_disk
from trainmark.files.whole import give_name, part_of, written_whole

TIMEOUT_SECONDS = 60

STATUSES = [408, 429, *range(500, 600)]
RETRIES = Retry(
    4, other=0, status_forcelist=STATUSES, raise_on_status=False, backoff_factor=1, backoff_jitter=1, retry_after_max=60
)
"""For servers that do not answer: waits of 2, 4 and 8 s and up to one more, or what the server asks for. A refused
certificate (other) is not tried again.
"""

BREAKS_IN_A_ROW = 5
"""Answers that may break off without a new byte, after which a source is given up."""

LEAST_LINKED_BYTES = 1 << 26
"""Local files of this size take no second place on the disk. Smaller ones are copied: their owner may edit them."""

CHUNK_BYTES = 1 << 14
"""Bytes that may be lost when an answer breaks off."""

RANGE_NOT_SATISFIABLE = 416

OF_CONNECTIONS = (requests.RequestException, ConnectionError, TimeoutError)
"""Errors of connections. Others that have a number are of the files of this machine."""


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
        addresses = [*in_mirror(mirror, f"{name}/{file['name']}"), *file["urls"]]
        source, problems = _fetch_file(name, file, raw_folder / file["name"], addresses, offline)
        kind, digest = expected_checksum(file)
        sources.append({"file": file["name"], kind: digest, "from": source})
        if source is None:
            tried = "; ".join(problems) or "no mirror, and no address in the catalogue"
            missing.append(f"{raw_folder / file['name']} with {kind} {digest} ({tried})")
        if missing and not offline:
            break
    if missing:
        advice = "`offline: true` is set:" if offline else "connect this machine, or"
        raise DataError(
            f"{name} lacks {'; '.join(missing)}; {advice} put what is missing there, or set `mirror` in the config or "
            f"TRAINMARK_MIRROR to a folder or address that holds it in {name}/"
        )
    return sources


def verify(raw_folder: Path, entry: Mapping) -> None:
    """Raise DataError if a raw file is missing or no longer has its checksum."""
    for file in _files(entry):
        if not has_checksum(path := raw_folder / file["name"], file):
            state = "is damaged" if path.is_file() else "is missing"
            raise DataError(
                f"{path} {state}; delete {raw_folder.parent}/*/sources.json, and snakemake fetches it again"
            )


def _files(entry: Mapping) -> list[Mapping]:
    """The files to fetch for an entry; none if the user's own folder holds the data."""
    return [] if "folder" in entry else entry.get("files", [])


def _fetch_file(
    name: str, file: Mapping, target: Path, addresses: list[str], offline: bool
) -> tuple[str | None, list[str]]:
    """Fetch a file from the first address that has it; return (the source or None, problems of the others)."""
    target.parent.mkdir(parents=True, exist_ok=True)  # the name of a command's file may be a path
    with say_when_long(f"{name}: checking {target.name}"):
        if has_checksum(target, file):
            return "already there", []
    size = f" ({format_bytes(file['bytes'])})" if "bytes" in file else ""
    problems = []
    for address in addresses:
        shown = without_credentials(address)
        if offline and is_web(address):
            problems.append(f"{shown}: not asked")
            continue
        what = f"{name}: fetching {file['name']}{size} from {shown}"
        if is_web(address):
            print_line(what, sys.stderr)
        try:
            with say_when_long(what, shows_bar=True):
                (_download if is_web(address) else _copy)(address, target, file)
            return shown, problems
        except (OSError, DataError, ValueError) as error:
            if isinstance(error, StorageError):
                raise
            if isinstance(error, OSError) and error.errno and not isinstance(error, OF_CONNECTIONS):
                raise StorageError(f"{target} can't be written {why(error, 'look at its folder')}") from error
            problems.append(f"{shown}: {_in_words(error)}")
    return None, problems


def _in_words(error: Exception) -> str:
    """Describe an error without the address, whose query may hold a secret."""
    if isinstance(error, DataError):
        return str(error)
    if isinstance(error, requests.HTTPError):
        return f"HTTP status {error.response.status_code}"
    if type(error) is OSError:  # of requests itself: REQUESTS_CA_BUNDLE names no file
        return str(error)
    cause = error.args[0] if error.args else error
    reason = getattr(cause, "reason", cause)  # urllib3's error, for an answer that did not come
    if isinstance(error, requests.exceptions.SSLError):
        return f"its certificate is refused ({reason})"
    return f"cannot be read ({type(error if isinstance(reason, str) else reason).__name__})"


def _copy(address: str, target: Path, file: Mapping) -> None:
    """Copy a file of a folder to the target, or hard-link it if it is large and on the same disk."""
    source = path_of(address).resolve()
    try:
        if not has_checksum(source, file):
            raise DataError("holds another file" if source.is_file() else "no such file")
    except OSError as error:
        raise DataError(f"can't be read {why(error)}") from error
    target.unlink(missing_ok=True)
    with suppress(OSError):
        if source.stat().st_size >= LEAST_LINKED_BYTES:
            os.link(source, target)
            return
    with written_whole(target) as part:
        shutil.copyfile(source, part)


# --- the web ------------------------------------------------------------------------------------------------------


def _download(address: str, target: Path, file: Mapping) -> None:
    part = part_of(target)
    continued = furthest_bytes = _size(part)
    breaks = 0
    if not has_checksum(part, file):  # it has if a process ended between the last byte and the renaming
        with requests.Session() as session:
            session.hooks["response"].append(_refuse_downgrade)
            for scheme in ("http://", "https://"):
                session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=RETRIES))
            while not _request(session, address, part, file):
                breaks = 0 if _size(part) > furthest_bytes else breaks + 1
                furthest_bytes = max(furthest_bytes, _size(part))
                if breaks == BREAKS_IN_A_ROW:
                    raise DataError(f"broke off {breaks} times in a row, after {furthest_bytes} bytes")
    if has_checksum(part, file):
        give_name(part, target)
        return
    part.unlink()
    if not continued:
        raise DataError("holds another file")
    _download(address, target, file)  # from zero: the first bytes may be those of another file


def _request(session: requests.Session, address: str, part: Path, file: Mapping) -> bool:
    """Request the missing bytes once, and append them; return whether all of them came."""
    offset = _size(part)
    # "identity": the file itself is hashed, and not a compressed form that a server may send.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={offset}-"} if offset else {})
    with session.get(address, stream=True, timeout=TIMEOUT_SECONDS, headers=headers) as response:
        span = response.headers.get("Content-Range", "")
        if offset and (response.status_code == RANGE_NOT_SATISFIABLE or (span and f"bytes {offset}-" not in span)):
            part.unlink()
            return False
        response.raise_for_status()
        announced = span.rpartition("/")[2] if span else response.headers.get("Content-Length", "")
        total_bytes = int(announced) if announced.isdecimal() else file.get("bytes")
        if total_bytes != file.get("bytes", total_bytes):
            raise DataError(f"announces {total_bytes} bytes; expected {file['bytes']}")
        return _receive(response, part, offset if span else 0, total_bytes)


def _receive(response: requests.Response, part: Path, offset: int, total_bytes: int | None) -> bool:
    """Write an answer behind the first `offset` bytes; return whether all of it came."""
    if total_bytes is not None:
        require_free_disk(part.parent, total_bytes - offset, part.stem)
    bar = tqdm(desc=part.stem, total=total_bytes, initial=offset, unit="B", unit_scale=True, disable=None)
    with open(part, "ab" if offset else "wb") as out, bar:
        try:
            for chunk in response.iter_content(CHUNK_BYTES):
                out.write(chunk)
                bar.update(len(chunk))
                if total_bytes is not None and out.tell() > total_bytes:
                    return True  # the checksum will say that it is another file
        except requests.RequestException:
            return False
    return total_bytes in (None, _size(part))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _refuse_downgrade(response: requests.Response, **_: object) -> None:
    target = urljoin(response.url, response.headers.get("Location", ""))
    if response.is_redirect and response.url.startswith("https:") and not target.startswith("https:"):
        raise DataError("redirects from https to an address without it")
