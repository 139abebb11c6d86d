"""Unpack archives from untrusted sources: files and folders alone, inside the target folder, and not without bound."""

import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath

from trainmark.errors import DataError, why
from trainmark.files.system_files import is_added_by_system

ALWAYS_ALLOWED_BYTES = 1 << 30
MAX_EXPANSION = 200
"""An archive may unpack to ALWAYS_ALLOWED_BYTES or to MAX_EXPANSION times its own size, whichever is more.

Tars of JPEGs expand once, texts 4 to 10 times; a bomb of zeros 1,032 times in gzip and far more in bzip2 and xz.
"""

DAMAGE = (OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError)
"""Exceptions for an archive that is damaged or encrypted, or that cannot be read or written."""


UNDECODED = re.compile(r"[\udc80-\udcff]")
"""What tarfile gives for bytes of a name that its encoding cannot decode."""


def unpack(archive: Path, folder: Path, *, nested: bool = False, encoding: str | None = None) -> None:
    """Unpack a tar, plain or compressed, or a zip into `folder`. Owners, modes and times in it are ignored.

    nested: members named *.tar are unpacked too, each into a folder named like it without ".tar". encoding: the names'
    encoding if not all of them are UTF-8. Raises DataError if the archive is damaged or hostile, or cannot be read or
    written, or if its names cannot be decoded.
    """
    try:
        left_bytes = max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION * archive.stat().st_size)
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive, encoding=_tar_encoding(archive, encoding)) as tar:
                _extract(tar, folder, nested, left_bytes)
            return
        with _open_zip(archive, encoding) as files:
            for info in files.infolist():
                info.filename = info.filename.replace("\\", "/")  # as programs of Windows write it
                left_bytes = _expect_safe(info.filename, info.file_size, left_bytes)
                files.extract(info, folder)
    except UnicodeError as error:
        raise DataError(
            f"{archive} has names that are not in {encoding or 'UTF-8'}, such as {ascii(error.object)[:60]}; let "  # type: ignore[attr-defined]
            "`encoding` in the dataset's entry name theirs, such as cp437, cp850, cp932 (Japanese) or gbk (Chinese)"
        ) from error
    except DAMAGE as error:
        cause = f"{folder} ({error}); get the archive again"
        if isinstance(error, OSError) and error.errno:
            target = folder if error.filename in (None, os.fspath(archive)) else error.filename
            cause = f"{target} {why(error, 'look at both')}"
        raise DataError(f"{archive} cannot be unpacked into {cause}") from error


def _tar_encoding(archive: Path, encoding: str | None) -> str:
    """UTF-8 if all names are, or if no encoding is given: one that is valid in both would be decoded by the wrong."""
    if encoding:
        with tarfile.open(archive, encoding="utf-8") as tar:
            if any(UNDECODED.search(member.name) for member in members_of(tar)):
                return encoding
    return "utf-8"


def _open_zip(archive: Path, encoding: str | None) -> zipfile.ZipFile:
    """Open a zip. Names without the flag for UTF-8 are UTF-8 all the same (macOS), or in any encoding (Windows)."""
    try:
        return zipfile.ZipFile(archive, metadata_encoding="utf-8")
    except UnicodeDecodeError:
        if not encoding:
            raise
        return zipfile.ZipFile(archive, metadata_encoding=encoding)


def _extract(tar: tarfile.TarFile, folder: Path, nested: bool, left_bytes: int) -> int:
    for member in members_of(tar):
        left_bytes = _expect_safe(member.name, member.size, left_bytes)
        path = folder / member.name
        if nested and path.suffix == ".tar" and member.isreg() and not is_added_by_system(path.name):
            with tarfile.open(fileobj=tar.extractfile(member), mode="r:", encoding=tar.encoding) as inner:
                left_bytes = _extract(inner, path.with_suffix(""), False, left_bytes)
        else:
            tar.extract(member, folder, set_attrs=False)
    return left_bytes


def members_of(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The files and folders of a tar. Raises TarError for links and devices."""
    tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11 has filters from 3.11.4 on
    for member in iter(tar.next, None):
        tar.members.clear()  # type: ignore[attr-defined]  # tarfile would keep them all in memory
        if not (member.isreg() or member.isdir()):
            raise tarfile.TarError(f"{member.name[:100]!r} is neither a file nor a folder")
        yield member


def _expect_safe(name: str, size_bytes: int, left_bytes: int) -> int:
    """The bytes that may still be unpacked after this member. Raises TarError, and UnicodeError for undecoded bytes."""
    name.encode()
    path = PureWindowsPath(name)  # which knows drives, and both separators
    if path.anchor or ".." in path.parts:
        raise tarfile.TarError(f"{name[:100]!r} leads out of the folder")
    if size_bytes > left_bytes:
        raise tarfile.TarError(f"{name[:100]!r} makes it larger than an archive of its size may be")
    return left_bytes - size_bytes
