"""Unpack archives from untrusted sources. Members that would leave the folder, archives that grow without bound and
damaged ones are refused.
"""

import lzma
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Literal, Self

from tqdm import tqdm

from trainmark.errors import DataError
from trainmark.files.checksums import progress_bar
from trainmark.files.system_files import is_added_by_system

Members = Iterator[tuple[tarfile.TarInfo, IO[bytes]]]
"""Files and folders of an archive, each with its content, which must be read before the next member is requested."""

ALWAYS_ALLOWED_BYTES = 1 << 30
MAX_EXPANSION = 200
"""An archive may unpack to ALWAYS_ALLOWED_BYTES or to MAX_EXPANSION times its own size, whichever is more.

Tars of JPEGs expand once, texts 4 to 10 times; a bomb of zeros 1,032 times in gzip and far more in bzip2 and xz.
"""

MAX_MEMBERS = 5_000_000
"""ImageNet's archive of training images has 1.3 million."""

MAX_EXTENSION_BYTES = 1 << 20
"""Largest header of a long name or of other attributes: tarfile holds it in memory."""

CHUNK_BYTES = 1 << 20

OUTSIDE = re.compile(r"/|[A-Za-z]:|(.*/)?\.\.(/|\.tar\Z|\Z)|.*\\", re.DOTALL)
"""Names that are refused. tarfile's filter would silently strip a leading slash, and zipfile all that leads out."""


class Refused(Exception):
    """A member that is not unpacked. tarfile has filters, and errors of theirs, from Python 3.11.4 on alone."""


DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, RuntimeError)
"""Exceptions for a damaged archive or an encrypted zip. gzip and bzip2 also raise an OSError without a number."""


def unpack(archive: Path, folder: Path, *, nested: bool = False) -> None:
    """Unpack a tar, plain or compressed by gzip, bzip2 or xz, or a zip into `folder`.

    nested: members named *.tar are unpacked too, each into a folder named like it without ".tar"; a *.tar inside one of
    them is an ordinary file. A file that exists with the size of its member is kept, so that an interrupted call can be
    repeated. Owners, modes and times in the archive are ignored. Raises DataError if the archive is cut off, damaged or
    hostile, or cannot be read or written; files that were unpacked before stay.
    """
    part = folder / f".{archive.name}.part"  # in this folder, because formats list the folders of members
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)  # of a process that was killed
        with open_archive(archive, f"unpacking {archive.name}") as members:
            _unpack(members, folder, part, nested)
    except OSError as error:
        raise DataError(
            f"{archive} cannot be unpacked into {folder} ({error}); make room or check its permissions, and run again: "
            "files that are unpacked already are kept"
        ) from error


def _unpack(members: Members, folder: Path, part: Path, nested: bool = False, below: str = "") -> None:
    for member, content in members:
        member.name = below + member.name
        target = folder / member.name
        if not target.resolve().is_relative_to(folder.resolve()):  # an existing link is not followed
            raise Refused(f"{member.name[:100]!r} would be written outside the target folder")
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
        elif nested and target.suffix == ".tar" and not is_added_by_system(target.name):
            target.with_suffix("").mkdir(parents=True, exist_ok=True)
            _unpack(_of_tar(content, "r:"), folder, part, below=f"{member.name.removesuffix('.tar')}/")
        elif not (target.is_file() and target.stat().st_size == member.size):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(part, "xb") as out:
                    shutil.copyfileobj(content, out, CHUNK_BYTES)
                os.replace(part, target)  # not written_whole: 1.3 million fsyncs for ImageNet would take hours
            except BaseException:
                part.unlink(missing_ok=True)
                raise


@contextmanager
def open_archive(archive: Path, title: str) -> Iterator[Members]:
    """Yield the members of a tar or zip archive, with a progress bar.

    Raises OSError if it cannot be read, and DataError if it is cut off, damaged or hostile: in the body too, where the
    members are read.
    """
    try:
        with open(archive, "rb") as file, progress_bar(title, archive.stat().st_size) as bar:
            yield _members(archive, file, bar)
    except Refused as error:
        raise DataError(
            f"{archive}: its member {error}; only files and folders that stay inside the target folder are unpacked, "
            "so get the archive from another source"
        ) from error
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        why = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        raise DataError(
            f"{archive} is not a complete tar or zip archive ({why}); delete it and download it again"
        ) from error


def _members(archive: Path, file: IO[bytes], bar: tqdm) -> Members:
    limit_bytes = max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION * (bar.total or 0))
    total_bytes = 0
    is_zip = file.read(4) == b"PK\3\4"  # zipfile.is_zipfile also accepts a tar that ends with a zip
    file.seek(0)
    for number, (member, content) in enumerate(_of_zip(file) if is_zip else _of_tar(file, "r:*"), 1):
        total_bytes += tarfile.BLOCKSIZE + member.size
        if total_bytes > limit_bytes or number > MAX_MEMBERS:
            raise DataError(
                f"{archive} would unpack to more than {limit_bytes} bytes or {MAX_MEMBERS} members, the most that is "
                f"allowed for its {bar.total} bytes; get it from another source"
            )
        yield member, content
        bar.update(file.tell() - bar.n)
    bar.update(file.tell() - bar.n)


def _of_tar(file: IO[bytes], mode: Literal["r:", "r:*"]) -> Members:
    with tarfile.open(fileobj=file, mode=mode, tarinfo=_Header) as tar:
        for member in iter(tar.next, None):
            tar.members.clear()  # type: ignore[attr-defined]  # tarfile would keep them all in memory
            yield _plain(member), tar.extractfile(member) or BytesIO()  # a folder
        while rest := tar.fileobj.read(CHUNK_BYTES):  # read to the end: a compressed archive has its checksum there
            if rest.strip(b"\0"):
                raise tarfile.ReadError("there is data after its end")


class _Header(tarfile.TarInfo):
    """A tar header that raises an error if it is damaged. tarfile takes a damaged one after the first for the end."""

    def _proc_member(self, tar: tarfile.TarFile) -> Self:
        """Each header passes here, and its content is read here; tarfile lets subclasses override this method."""
        if not self.isreg() and not 0 <= self.size <= MAX_EXTENSION_BYTES:
            raise tarfile.ReadError(f"a header of {self.size} bytes; at most {MAX_EXTENSION_BYTES} are allowed")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> Self:
        try:
            header = super().fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise  # zeros: the end
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error
        if header.size < 0:  # tarfile would loop forever
            raise tarfile.ReadError(f"a size of {header.size} bytes")
        return header


def _of_zip(file: IO[bytes]) -> Members:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            member = tarfile.TarInfo(info.filename)
            member.size = info.file_size
            if info.is_dir():
                member.type = tarfile.DIRTYPE
            elif stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                member.type = tarfile.SYMTYPE
            yield _plain(member), archive.open(info)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the member. Raises Refused if it is no file or folder, or its name leads out of the folder."""
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise Refused(f"{member.name[:100]!r} is neither a plain file nor a folder")
    if OUTSIDE.match(member.name):
        raise Refused(f"{member.name[:100]!r} begins at a root or drive, or has '..' or a backslash in it")
    return member
