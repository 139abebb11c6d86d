"""Transfer one file from one address: resume after a break, retry where that may help, and verify the checksum.

The bytes are collected in `<name>.part` next to the target. The next attempt, the next address and the process after a
killed one all continue there. Ranges: RFC 9110, section 14.
"""

import os
import re
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import requests
import tenacity
import urllib3
from tqdm import tqdm

from trainmark.datasets.fetching.addresses import ALLOWED, host_of, is_path, is_web, path_of
from trainmark.datasets.fetching.partial_file import PartialFile
from trainmark.errors import DataError
from trainmark.files.checksums import CHUNK_BYTES, Checksum, checksum_of, progress_bar
from trainmark.files.whole import part_of

TIMEOUT_SECONDS = 60
ATTEMPTS = 5
"""Attempts in a row that may fail without a new byte, so that a connection that often breaks still succeeds."""
FIRST_WAIT_SECONDS = 1
LONGEST_WAIT_SECONDS = 60

RANGE_NOT_SATISFIABLE = 416
PASSING_STATUSES = {408, 429}
"""Request Timeout and Too Many Requests (RFC 9110, 15.5.9; RFC 6585, 4). These and every 5xx are tried again."""

FETCH_ERRORS = (OSError, DataError, urllib3.exceptions.HTTPError, ValueError)
"""Exceptions if a source does not give the file. The errors of requests are OSErrors. A stream that breaks off raises
those of urllib3, and an invalid address raises a ValueError.
"""


class _WrongContentError(DataError):
    """The whole file was received and has the wrong checksum."""


class _PassingError(DataError):
    """A failure after which another attempt may succeed."""


def transfer(address: str, target: Path, checksum: Checksum, size_bytes: int | None = None) -> None:
    """Fetch a path, a file:// or a http(s):// address as `target`, which exists only once it is right.

    size_bytes: size of the file if it is known; a source that announces another size is not read. Raises StorageError
    if the file cannot be stored here, and one of FETCH_ERRORS if this address does not give it.
    """
    if not is_web(address) and _link(_local_file(address, size_bytes), target, checksum):
        return
    fetch = _download if is_web(address) else _copy
    with PartialFile(target, checksum.kind) as part:
        if part.checksum() != checksum:  # equal if a process ended between the last byte and the renaming
            _fill(part, partial(fetch, address, part, size_bytes), checksum)
        part.keep()


def in_words(error: BaseException) -> str:
    """Describe an error in one line, without the address, whose query may hold a secret."""
    kind = type(error).__name__
    if isinstance(error, requests.HTTPError):
        return f"HTTP status {error.response.status_code}"
    if refusal := _certificate_refusal(error):
        return f"its certificate is refused ({refusal.verify_message})"
    for types, words in WORDS.items():
        if isinstance(error, types):
            return words.format(kind=kind, timeout_seconds=TIMEOUT_SECONDS)
    return (str(error).splitlines() or [kind])[0]


WORDS: dict[type | tuple[type, ...], str] = {
    ValueError: "not a valid address ({kind})",
    requests.ConnectionError: "no connection ({kind})",
    (requests.Timeout, urllib3.exceptions.TimeoutError): "no answer in {timeout_seconds} s ({kind})",
    urllib3.exceptions.HTTPError: "the connection broke off ({kind})",
    requests.TooManyRedirects: "redirects without end ({kind})",
    requests.RequestException: "{kind}",
    FileNotFoundError: "no such file",
}
"""Phrases for types of errors; the first type that fits counts."""


def _certificate_refusal(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """The refused certificate in the chain of causes: requests and urllib3 wrap this error several times."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _require(actual: Checksum, expected: Checksum) -> None:
    if actual != expected:
        raise _WrongContentError(f"holds a file with {actual}; expected {expected.digest}")


# --- from the source to the disk ----------------------------------------------------------------------------------


def _fill(part: PartialFile, fetch: Callable[[], None], expected: Checksum) -> None:
    """Fetch; if a continued file has the wrong checksum, fetch once more from zero: it may be two files in one."""
    for first in (True, False):
        try:
            fetch()
            _require(part.checksum(), expected)
            return
        except _WrongContentError:
            again = first and part.continued
            part.clear()
            if not again:
                raise


def _receive(chunks: Iterable[bytes], part: PartialFile, total_bytes: int | None) -> None:
    """Append chunks up to the expected size, if it is known. Raises _PassingError if they end before."""
    if total_bytes is not None:
        part.require_space(total_bytes)
    with progress_bar(f"downloading {part.target.name}", total_bytes, initial=part.size_bytes) as bar:
        for chunk in chunks:
            needed = chunk if total_bytes is None else chunk[: total_bytes - part.size_bytes]
            part.append(needed)
            bar.update(len(needed))
            if part.size_bytes == total_bytes:
                return
    if total_bytes is not None and part.size_bytes < total_bytes:
        raise _PassingError(f"broke off after {part.size_bytes} of {total_bytes} bytes")


# --- a folder -----------------------------------------------------------------------------------------------------


def _local_file(address: str, size_bytes: int | None) -> Path:
    if not is_path(address) and not address.startswith("file://"):
        raise DataError(f"is an address with an unknown scheme; allowed: {ALLOWED}")
    path = path_of(address)
    actual_bytes = path.stat().st_size
    if not path.is_file():
        raise DataError("is not a regular file")
    if size_bytes not in (None, actual_bytes):
        raise DataError(f"holds {actual_bytes} bytes; expected {size_bytes}")
    return path


def _link(source: Path, target: Path, checksum: Checksum) -> bool:
    """Hard-link the target to the source; return False if that is not possible, as between two disks.

    The temporary link is not called .part, because nothing may ever be appended to a file of the mirror.
    """
    link = target.with_name(f"{target.name}.link")
    link.unlink(missing_ok=True)
    try:
        os.link(source.resolve(), link)
    except OSError:
        return False
    try:
        _require(checksum_of(link, checksum.kind), checksum)
        os.replace(link, target)
        part_of(target).unlink(missing_ok=True)
    finally:
        link.unlink(missing_ok=True)
    return True


def _copy(address: str, part: PartialFile, size_bytes: int | None) -> None:
    path = _local_file(address, size_bytes)
    total_bytes = path.stat().st_size
    with open(path, "rb") as source:
        source.seek(part.begin(total_bytes))
        _receive(iter(partial(source.read, CHUNK_BYTES), b""), part, total_bytes)


# --- the web ------------------------------------------------------------------------------------------------------


def _download(address: str, part: PartialFile, size_bytes: int | None) -> None:
    """Request until the file is complete, with at most ATTEMPTS attempts in a row without progress."""
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=_wait_seconds,
        after=_Progress(part),
        before_sleep=partial(_print_retry, address, part),
        reraise=True,
    )
    attempts(_request, address, part, size_bytes)


def _may_pass(error: BaseException) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, requests.HTTPError):
        return error.response.status_code in PASSING_STATUSES or error.response.status_code >= 500
    if isinstance(error, ValueError) or _certificate_refusal(error):
        return False
    connection_errors = requests.ConnectionError | requests.Timeout | urllib3.exceptions.HTTPError
    return isinstance(error, connection_errors | _PassingError)


class _Progress:
    """Resets the count of attempts when an attempt brings the file further than it ever was."""

    def __init__(self, part: PartialFile) -> None:
        self._part, self._furthest_bytes = part, part.size_bytes

    def __call__(self, state: tenacity.RetryCallState) -> None:
        if self._part.size_bytes > self._furthest_bytes:
            self._furthest_bytes = self._part.size_bytes
            state.attempt_number = 0


def _wait_seconds(state: tenacity.RetryCallState) -> float:
    """Exponential back-off with full jitter; at least what the server asks for, and at most LONGEST_WAIT_SECONDS."""
    backoff = tenacity.wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS)
    return max(backoff(state), min(_retry_after_seconds(state.outcome.exception()), LONGEST_WAIT_SECONDS))  # type: ignore[union-attr, arg-type]


def _retry_after_seconds(error: BaseException) -> float:
    """Seconds that a server's Retry-After asks for (in seconds or as a date); 0 if there is none that can be read."""
    if isinstance(error, requests.HTTPError):
        with suppress(urllib3.exceptions.InvalidHeader, ValueError):
            return urllib3.Retry().get_retry_after(error.response.raw) or 0
    return 0


def _print_retry(address: str, part: PartialFile, state: tenacity.RetryCallState) -> None:
    """Say what went wrong and when the next attempt starts; of the address the host alone, without its secrets."""
    problem = in_words(state.outcome.exception())  # type: ignore[union-attr, arg-type]  # there is one by now
    again = f"trying again in {state.upcoming_sleep:.0f} s, from byte {part.size_bytes}"
    tqdm.write(f"{part.target.name} from {host_of(address)}: {problem}; {again}", file=sys.stderr)


def _request(address: str, part: PartialFile, size_bytes: int | None) -> None:
    """Request the missing bytes once, and append them."""
    offset = part.begin(size_bytes)
    # "identity": the file itself is hashed, and not a compressed form that a server may send.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={offset}-"} if offset else {})
    with requests.get(address, stream=True, timeout=TIMEOUT_SECONDS, headers=headers) as response:
        if response.status_code != RANGE_NOT_SATISFIABLE:
            response.raise_for_status()
        start, total_bytes = _span(response)
        # read1, not read: the bytes before a break are not lost.
        chunks = iter(partial(response.raw.read1, CHUNK_BYTES), b"")
        first = next(chunks, b"") if start == 0 else b""
        _refuse_another_file(response, first, part.target.name, total_bytes, size_bytes)
        if start is None and total_bytes == offset:
            return  # nothing is missing; the checksum says whether it is right
        if start != offset:
            part.clear()
        if start not in (0, offset):
            raise _PassingError(f"does not send the file from byte {offset} on (HTTP status {response.status_code})")
        _receive(chain([first], chunks), part, size_bytes if total_bytes is None else total_bytes)


def _span(response: requests.Response) -> tuple[int | None, int | None]:
    """(first byte that is sent, size of the whole file in bytes); None for what the response does not say."""
    if response.status_code not in (requests.codes.partial_content, RANGE_NOT_SATISFIABLE):
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    content_range = response.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", content_range)
    start, total = match.groups() if match else (None, None)
    return int(start) if start else None, int(total) if total else None


def _refuse_another_file(
    response: requests.Response, first: bytes, name: str, total_bytes: int | None, size_bytes: int | None
) -> None:
    """Raise DataError if the response is clearly another file, before it replaces the bytes so far."""
    is_other_size = None not in (total_bytes, size_bytes) and total_bytes != size_bytes
    is_page = bool(first) and response.headers.get("Content-Type", "").lower().startswith("text/html")
    begins_as_page = first.lstrip(b"\xef\xbb\xbf\t\r\n ").startswith(b"<")  # the first three are UTF-8's mark
    if is_page and not name.endswith((".html", ".htm")) and (is_other_size or begins_as_page):
        raise DataError("sent a web page (text/html), not the file")
    if is_other_size:
        raise DataError(f"announces {total_bytes} bytes; expected {size_bytes}")
