"""Unpack archives from untrusted sources: files and folders alone, inside the target folder, and not without bound."""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from trainmark.errors import DataError
from trainmark.files.system_files import is_added_by_system

ALWAYS_ALLOWED_BYTES = 1 << 30
MAX_EXPANSION = 200
"""An archive may unpack to ALWAYS_ALLOWED_BYTES or to MAX_EXPANSION times its own size, whichever is more.

Tars of JPEGs expand once, texts 4 to 10 times; a bomb of zeros 1,032 times in gzip and far more in bzip2 and xz.
"""

DAMAGE = (OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError)
"""Exceptions for an archive that is damaged or encrypted, or that cannot be read or written."""


def unpack(archive: Path, folder: Path, *, nested: bool = False) -> None:
    """Unpack a tar, plain or compressed, or a zip into `folder`. Owners, modes and times in it are ignored.

    nested: members named *.tar are unpacked too, each into a folder named like it without ".tar". Raises DataError if
    the archive is damaged or hostile, or cannot be read or written.
    """
    try:
        left_bytes = max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION * archive.stat().st_size)
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                _extract(tar, folder, nested, left_bytes)
            return
        with zipfile.ZipFile(archive) as files:
            for info in files.infolist():
                left_bytes = _expect_safe(info.filename, info.file_size, left_bytes)
                files.extract(info, folder)
    except DAMAGE as error:
        raise DataError(
            f"{archive} cannot be unpacked into {folder} ({error}); make room there or check its permissions, or get "
            "the archive again"
        ) from error


def _extract(tar: tarfile.TarFile, folder: Path, nested: bool, left_bytes: int) -> int:
    for member in members_of(tar):
        left_bytes = _expect_safe(member.name, member.size, left_bytes)
        path = folder / member.name
        if nested and path.suffix == ".tar" and member.isreg() and not is_added_by_system(path.name):
            with tarfile.open(fileobj=tar.extractfile(member), mode="r:") as inner:
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
    """The bytes that may still be unpacked after this member. Raises TarError."""
    if name.startswith("/") or ".." in PurePosixPath(name).parts:
        raise tarfile.TarError(f"{name[:100]!r} leads out of the folder")
    if size_bytes > left_bytes:
        raise tarfile.TarError(f"{name[:100]!r} makes it larger than an archive of its size may be")
    return left_bytes - size_bytes
