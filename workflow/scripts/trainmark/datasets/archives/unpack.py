"""Unpacking tar archives that nobody vouches for: nothing leaves the folder, and nothing grows without bound."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from trainmark.datasets.archives.content import Source
from trainmark.datasets.archives.tar import Member, Tar
from trainmark.errors import DataError
from trainmark.files.checksums import progress_bar


def unpack(archive: Path, folder: Path, *, nested: bool = False, description: str | None = None) -> None:
    """Unpack a tar archive, plain or compressed by gzip, bzip2 or xz, into `folder`.

    nested: members named *.tar are unpacked, too, each into the folder of its name without ".tar"; what is named so
    inside of those is an ordinary file. description: what the progress bar says in place of "unpacking NAME". A file
    that is there already with its member's size is kept, so a run that broke off can go on. Owners, modes and times in
    the archive are ignored. Raises DataError where the archive is cut off, damaged or hostile, or can't be read or
    written; what was unpacked before stays.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _part(folder).unlink(missing_ok=True)  # of a process that was killed
        with open_tar(archive, description or f"unpacking {archive.name}") as tar:
            _unpack_tar(tar, folder, nested)
    except OSError as error:
        raise DataError(f"{archive} cannot be unpacked into {folder}: {_in_words(error)}") from error


@contextmanager
def open_tar(archive: Path, description: str) -> Iterator[Tar]:
    """A tar archive, plain or compressed, to be read member by member; with a progress bar. Raises OSError."""
    with (
        open(archive, "rb") as file,
        progress_bar(description, archive.stat().st_size) as bar,
    ):
        yield Tar(Source(archive, file, bar))


def _unpack_tar(tar: Tar, folder: Path, nested: bool) -> None:
    for member in tar.members():
        if nested and not member.is_folder and member.name.endswith(".tar"):
            _unpack_tar(tar.inner(member), folder, nested=False)
        else:
            _unpack_member(tar, member, folder)


def _unpack_member(tar: Tar, member: Member, folder: Path) -> None:
    target = folder.joinpath(*member.parts)
    try:
        _make_folders(tar, member, folder)
        if member.is_folder:
            return
        if os.path.lexists(target):
            _expect_same(tar, member, target)
            tar.skip(member.size_bytes)
        else:
            _write(tar.chunks(member.size_bytes), _part(folder), target)
    except (OSError, UnicodeError) as error:  # UnicodeError: the file system's encoding is not UTF-8
        shown = tar.shown(member.name)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(
                f"{folder} has no room for the {member.size_bytes} bytes of {shown} in {tar.source.archive}; "
                "free some space and start again, what is unpacked already is kept"
            ) from error
        raise DataError(
            f"{tar.source.archive}: its member {shown} cannot be written into {folder}: {_in_words(error)}"
        ) from error


def _make_folders(tar: Tar, member: Member, folder: Path) -> None:
    """Make the folders of a member's path. Raises DataError where something else, a link too, is in the way."""
    path = folder
    for part in member.parts if member.is_folder else member.parts[:-1]:
        path = path / part
        try:
            path.mkdir(0o755)
        except FileExistsError:
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise tar.source.refused(tar.shown(member.name), f"needs a folder where {path} is none") from None


def _expect_same(tar: Tar, member: Member, target: Path) -> None:
    """Raise DataError where what is there is not the member, as far as its size tells."""
    found = target.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise tar.source.refused(tar.shown(member.name), f"is a file, and {target} is there and is none")
    if found.st_size != member.size_bytes:
        raise DataError(
            f"{tar.source.archive}: its member {tar.shown(member.name)} has {member.size_bytes} bytes, and {target} is "
            f"there with {found.st_size}; unpack into an empty folder, and where that does not help, the archive holds "
            "two files of one name: get it from another place"
        )


def _write(chunks: Iterator[bytes], part: Path, target: Path) -> None:
    """Write a new file, which gets its name only when it is complete."""
    try:
        with open(part, "xb", opener=partial(os.open, mode=0o644)) as out:
            out.writelines(chunks)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _part(folder: Path) -> Path:
    """Where the file that is being written stands, outside the folders that whoever uses the files may list."""
    return folder / f".{os.getpid()}.part"


def _in_words(error: OSError | UnicodeError) -> str:
    return getattr(error, "strerror", None) or str(error)
