"""The members of a tar archive that nobody vouches for: plain files and folders that stay where they are put.

Format: POSIX.1-2017, pax ("ustar Interchange Format", "pax Header Block"), with GNU tar's long names. Python's tarfile
decodes the header blocks; the walk over them is this module's, because tarfile's takes a damaged header for the end of
the archive, and its pax parser, before 3.11.10 and 3.12.6, needs quadratic time (CVE-2024-6232).
"""

import math
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from trainmark.datasets.archives.content import Source
from trainmark.errors import DataError

CHUNK_BYTES = 1 << 20
BLOCK_BYTES = tarfile.BLOCKSIZE

MAX_EXTENSION_BYTES = 1 << 20
"""Of one extension header (pax, GNU long name): it is held in memory, and a path has 4,096 bytes at most on Linux."""

FORBIDDEN_NAMES = {
    "has no name": re.compile(r"\A\Z"),
    "has a name that is not UTF-8": re.compile("[\ud800-\udfff]"),
    "has a control character in its name": re.compile(r"[\x00-\x1f\x7f-\x9f]"),
    "has a backslash in its name": re.compile(r"\\"),
    "has a name of more than 1,000 characters": re.compile(r".{1001}"),
    "has a name that begins at the root": re.compile(r"\A/"),
    "has a name that begins with a drive": re.compile(r"\A[A-Za-z]:"),
    "has the part '..' in its name": re.compile(r"(\A|/)\.\.(/|\Z)"),
}

FORBIDDEN_TYPES = {
    tarfile.SYMTYPE: "is a symbolic link",
    tarfile.LNKTYPE: "is a hard link",
    tarfile.CHRTYPE: "is a character device",
    tarfile.BLKTYPE: "is a block device",
    tarfile.FIFOTYPE: "is a named pipe",
    tarfile.GNUTYPE_SPARSE: "is a sparse file",
}

FILE_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE)

PAX_LENGTH = re.compile(rb"([0-9]{1,7}) ")
PATH, SIZE, SPARSE = b"path", b"size", b"GNU.sparse"
PAX_SIZE = re.compile(rb"[0-9]{1,19}")


@dataclass(frozen=True)
class Member:
    """A file or folder: its name as the archive says it, the parts of its path below the target folder, its size."""

    name: str
    parts: tuple[str, ...]
    size_bytes: int
    is_folder: bool


class Tar:
    """One tar in a source: all of it, or the `left_bytes` of the member `outer` that come next in it.

    parents: the parts of the path below the target folder where it is unpacked.
    """

    def __init__(self, source: Source, left_bytes: float = math.inf, outer: str = "", parents: tuple[str, ...] = ()):
        self.source = source
        self._left_bytes = left_bytes
        self._outer = outer
        self._parents = parents

    def members(self) -> Iterator[Member]:
        """Every member in turn; each one's bytes must be read before the next is asked for."""
        block = self._first_block()
        said = {}
        while any(block):
            self.source.count_header()
            header = self._header(block)
            if header.type in EXTENSIONS:
                said |= self._extension(header)
            else:
                member = self._member(header, said)
                self.source.place = f"inside {self.shown(member.name)}"
                self.source.expect(member.size_bytes)
                yield member
                self._read(-member.size_bytes % BLOCK_BYTES)
                self.source.place = f"after {self.shown(member.name)}"
                said = {}
            block = self._read(BLOCK_BYTES)
        self._expect_zeros()

    def chunks(self, size_bytes: int) -> Iterator[bytes]:
        """So many bytes, CHUNK_BYTES at a time."""
        for start in range(0, size_bytes, CHUNK_BYTES):
            yield self._read(min(CHUNK_BYTES, size_bytes - start))

    def skip(self, size_bytes: int) -> None:
        """Pass over so many bytes."""
        for _ in self.chunks(size_bytes):
            pass

    def inner(self, member: Member) -> "Tar":
        """The tar that a member is."""
        parents = self._checked_parts(member.name.removesuffix(".tar"))
        return Tar(self.source, member.size_bytes, member.name, parents)

    def shown(self, name: str) -> str:
        """A member's name in a message: short, printable and on one line."""
        whole = f"{self._outer}/{name}" if self._outer else name
        return repr(whole) if len(whole) <= 100 else f"{whole[:100]!r}..."

    def _read(self, size_bytes: int) -> bytes:
        """Exactly so many bytes. Raises DataError where the tar ends before."""
        if size_bytes > self._left_bytes:
            raise self.source.damaged(f"the tar {self._outer!r} in it ends too early")
        found = self._read_up_to(size_bytes)
        if len(found) < size_bytes:
            raise self.source.cut_off()
        return found

    def _read_up_to(self, size_bytes: int) -> bytes:
        found = self.source.read(min(size_bytes, self._left_bytes))
        self._left_bytes -= len(found)
        return found

    def _first_block(self) -> bytes:
        block = self._read_up_to(BLOCK_BYTES)
        if not block:
            raise self.source.cut_off()
        try:
            tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            subject = f"{self._outer!r} in {self.source.archive}" if self._outer else str(self.source.archive)
            raise DataError(
                f"{subject} is not a tar archive with members: its content begins with {block[:16]!r}; a tar is "
                "expected, plain or compressed by gzip, bzip2 or xz; delete the archive and download it again"
            ) from error
        return block

    def _header(self, block: bytes) -> tarfile.TarInfo:
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise self.source.damaged(f"no tar header is there ({error})") from error
        if header.size < 0:
            raise self.source.damaged(f"a header says that {header.size} bytes follow")
        return header

    def _extension(self, header: tarfile.TarInfo) -> dict[bytes, bytes]:
        """What an extension header says of the member that follows, in pax's terms."""
        if header.size > MAX_EXTENSION_BYTES:
            raise DataError(
                f"{self.source.archive} has an extension header of {header.size} bytes, and {MAX_EXTENSION_BYTES} are "
                f"allowed, {self.source.place}; get it from another place"
            )
        payload = self._read(header.size)
        self._read(-header.size % BLOCK_BYTES)
        try:
            return EXTENSIONS[header.type](payload)
        except ValueError as error:
            raise self.source.damaged(str(error)) from error

    def _member(self, header: tarfile.TarInfo, said: Mapping[bytes, bytes]) -> Member:
        """The member of a header and of the extensions before it. Raises DataError where it is not to be unpacked."""
        name = said[PATH].decode("utf-8", "surrogateescape") if PATH in said else header.name
        is_folder = header.type == tarfile.DIRTYPE
        if SPARSE in said:
            raise self.source.refused(self.shown(name), FORBIDDEN_TYPES[tarfile.GNUTYPE_SPARSE])
        if not is_folder and header.type not in FILE_TYPES:
            why = FORBIDDEN_TYPES.get(header.type, f"is of the unknown type {header.type!r}")
            raise self.source.refused(self.shown(name), why)
        size_bytes = 0 if is_folder else int(said.get(SIZE, header.size))
        return Member(name, self._checked_parts(name), size_bytes, is_folder)

    def _checked_parts(self, name: str) -> tuple[str, ...]:
        for why, pattern in FORBIDDEN_NAMES.items():
            if pattern.search(name):
                raise self.source.refused(self.shown(name), why)
        return (*self._parents, *(part for part in name.split("/") if part not in ("", ".")))

    def _expect_zeros(self) -> None:
        """Read on to the end, where a compressed archive has its checksum. Raises DataError where more is there."""
        while chunk := self._read_up_to(CHUNK_BYTES):
            if chunk.strip(b"\0"):
                raise self.source.damaged("something follows the end of the tar")


def _long_name(payload: bytes) -> dict[bytes, bytes]:
    return {PATH: payload.partition(b"\0")[0]}


def _pax_records(payload: bytes) -> dict[bytes, bytes]:
    r"""What the records, "LENGTH KEY=VALUE\n" each, of a pax header say of path and size, and whether of holes.

    Raises ValueError where they are no such records.
    """
    records = {}
    start = 0
    while start < len(payload):
        length = PAX_LENGTH.match(payload, start)
        end = start + int(length[1]) if length else start
        record = payload[length.end() : end] if length else b""
        key, mark, value = record.removesuffix(b"\n").partition(b"=")
        if end > len(payload) or not record.endswith(b"\n") or not mark:
            raise ValueError("a pax header's records are damaged")
        if key.startswith(SPARSE + b"."):
            key = SPARSE
        if key in (PATH, SIZE, SPARSE):
            records[key] = value
        start = end
    if not PAX_SIZE.fullmatch(records.get(SIZE, b"0")):
        raise ValueError("a pax header's size is no number")
    return records


def _nothing(payload: bytes) -> dict[bytes, bytes]:
    """Of what concerns links alone, or all members at once."""
    return {}


EXTENSIONS: dict[bytes, Callable[[bytes], dict[bytes, bytes]]] = {
    tarfile.GNUTYPE_LONGNAME: _long_name,
    tarfile.GNUTYPE_LONGLINK: _nothing,
    tarfile.XHDTYPE: _pax_records,
    tarfile.SOLARIS_XHDTYPE: _pax_records,
    tarfile.XGLTYPE: _nothing,
}
"""The header types that come before a member's own, each with the reader of its payload."""
