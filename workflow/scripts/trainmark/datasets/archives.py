"""Unpack archives from untrusted sources: files and folders alone, inside the target folder, and not without bound."""

import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from trainmark.errors import DataError, why
from trainmark.files.system_files import is_added_by_system

ALWAYS_ALLOWED_BYTES = 1 << 30
MAX_EXPANSION = 200
"""An archive may unpack to ALWAYS_ALLOWED_BYTES or to MAX_EXPANSION times its own size, whichever is more.

Tars of JPEGs expand once, texts 4 to 10 times; a bomb of zeros 1,032 times in gzip and far more in bzip2 and xz.
"""

DAMAGE = (
    OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError,
    IndexError,
)  # fmt: skip
"""Exceptions for an archive that is damaged or encrypted, has an empty name, or cannot be read or written."""

UTF_8_FLAG, UNICODE_PATH = 0x800, b"\x75\x70"
"""Flag of a zip's member whose name is UTF-8. Tag of Info-ZIP's field: size, version, CRC-32 of the name, the name."""

ANEW = "pack it anew as a plain zip or tar, with each file once"
"""What to do about an archive that can't be read."""


@dataclass
class _Unpacking:
    """What goes for an archive and those in it. left_bytes: may still be unpacked."""

    encoding: str | None
    left_bytes: int

    def expect_safe(self, name: str, size_bytes: int) -> None:
        """Raise TarError for a member outside the folder, and for too much of all."""
        path = PureWindowsPath(name)  # which knows drives and both separators, but "//x" has no root in Python 3.13.5
        if name.startswith(("/", "\\")) or path.root or ".." in path.parts:
            raise tarfile.TarError(f"{name[:100]!r} leads out of the folder")
        if size_bytes > self.left_bytes:
            raise tarfile.TarError(f"{name[:100]!r} makes it larger than an archive of its size may be")
        self.left_bytes -= size_bytes

    def decoded(self, raw: bytes) -> str:
        """Return a name from UTF-8, as nearly no name in another encoding is, else from the encoding that is given."""
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode(self.encoding or "utf-8")


def unpack(archive: Path, folder: Path, *, nested: bool = False, encoding: str | None = None) -> None:
    """Unpack a tar, plain or compressed, or a zip into `folder`. Owners, modes and times in it are ignored.

    nested: members named *.tar are unpacked too, each into a folder named like it without ".tar". encoding: that of
    names that are not UTF-8. Raises DataError if the archive is damaged or hostile, or cannot be read or
    written, or if its names cannot be decoded.
    """
    try:
        state = _Unpacking(encoding, max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION * archive.stat().st_size))
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive, encoding="utf-8") as tar:
                _extract(tar, folder, nested, state)
            return
        with _open_zip(archive) as files:
            paths = set()
            for info in files.infolist():
                info.filename = _name_in_zip(info, state).replace("\\", "/")  # as programs of Windows write it
                state.expect_safe(info.filename, info.file_size)
                path = Path(info.filename)
                if path in paths and not info.is_dir():  # in a tar, a second one stands for the first: tar --update
                    raise zipfile.BadZipFile(f"{info.filename[:100]!r} is in it twice")
                paths.add(path)
                files.extract(info, folder)
    except UnicodeError as error:
        example = ascii(getattr(error, "object", error))[:60]
        raise DataError(
            f"{archive} has names that are not in {encoding or 'UTF-8'}, such as {example}; let "
            "`encoding` in the dataset's entry name theirs, such as cp437, cp850, cp932 (Japanese) or gbk (Chinese)"
        ) from error
    except DAMAGE as error:
        cause = f"{folder} ({error}); {'' if isinstance(error, RuntimeError) else 'get the archive again, or '}{ANEW}"
        if isinstance(error, OSError) and error.errno:
            target = folder if error.filename in (None, os.fspath(archive)) else error.filename
            cause = f"{target} {why(error, 'look at both')}"
        raise DataError(f"{archive} cannot be unpacked into {cause}") from error


def _open_zip(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except UnicodeError as error:
        raise zipfile.BadZipFile("a name that is said to be UTF-8 is not") from error


def _name_in_zip(info: zipfile.ZipInfo, state: _Unpacking) -> str:
    """Return a member's name: names without the flag for UTF-8 may be UTF-8 all the same, or have it in a field."""
    if info.flag_bits & UTF_8_FLAG:
        return info.filename
    raw, rest = info.orig_filename.encode("cp437"), info.extra
    while rest:
        end = 4 + int.from_bytes(rest[2:4], "little")
        if rest[:2] == UNICODE_PATH and int.from_bytes(rest[5:9], "little") == zlib.crc32(raw):
            return rest[9:end].decode()
        rest = rest[end:]
    return state.decoded(raw)


def _extract(tar: tarfile.TarFile, folder: Path, nested: bool, state: _Unpacking) -> None:
    for member in members_of(tar):
        member.name = state.decoded(member.name.encode("utf-8", "surrogateescape"))
        state.expect_safe(member.name, member.size)
        path = folder / member.name
        if nested and path.suffix == ".tar" and member.isreg() and not is_added_by_system(path.name):
            with tarfile.open(fileobj=tar.extractfile(member), mode="r:", encoding="utf-8") as inner:
                _extract(inner, path.with_suffix(""), False, state)
        else:
            tar.extract(member, folder, set_attrs=False)


def members_of(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The files and folders of a tar. Raises TarError for links and devices."""
    tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11 has filters from 3.11.4 on
    for member in iter(tar.next, None):
        tar.members.clear()  # type: ignore[attr-defined]  # tarfile would keep them all in memory
        if not (member.isreg() or member.isdir()):
            raise tarfile.TarError(f"{member.name[:100]!r} is neither a file nor a folder")
        yield member
