"""Unpacking: good archives come out whole, and no hostile, damaged or cut-off one writes outside its folder.

Hostile archives are made by hand, block by block: tarfile would refuse to write most of them.
"""

import bz2
import errno
import gzip
import io
import lzma
import os
import random
import resource
import shutil
import stat
import tarfile
import time
import zlib
from functools import partial
from pathlib import Path

import pytest
from tqdm import tqdm

from trainmark.datasets.archives.unpack import unpack
from trainmark.errors import DataError

BLOCK_BYTES = 512
END = bytes(2 * BLOCK_BYTES)
COMPRESSIONS = {"plain": bytes, "gzip": partial(gzip.compress, mtime=0), "bzip2": bz2.compress, "xz": lzma.compress}
ONLY = "only files and folders that stay inside the target folder are unpacked, so get the archive from another place"
AGAIN = "delete it and download it again"


# --- archives, block by block -------------------------------------------------------------------------------------


def checked(header: bytes) -> bytes:
    """A header block with its right checksum."""
    blank = header[:148] + b" " * 8 + header[156:]
    return blank[:148] + b"%06o\0 " % sum(blank) + blank[156:]


def header(name: bytes, size: int | bytes = 0, type: bytes = b"0", link: bytes = b"", prefix: bytes = b"") -> bytes:
    """A ustar header block; a size in bytes is written as it is."""
    size_field = size if isinstance(size, bytes) else b"%011o\0" % size
    fields = (
        (name, 100), (b"0007777\0", 8), (b"0001750\0", 8), (b"0001750\0", 8), (size_field, 12), (b"00000000001\0", 12),
        (b"", 8), (type, 1), (link, 100), (b"ustar\00000", 8), (b"root", 32), (b"root", 32), (b"0000000\0", 8),
        (b"0000000\0", 8), (prefix, 155), (b"", 12),
    )  # fmt: skip
    return checked(b"".join(content.ljust(width, b"\0") for content, width in fields))


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK_BYTES)


def member(name: bytes, content: bytes = b"content", **fields) -> bytes:
    return header(name, len(content), **fields) + padded(content)


def directory(name: bytes) -> bytes:
    return header(name, type=b"5")


def pax(**records: bytes) -> bytes:
    """An extension header for the member that follows; a key's `__` stands for a dot."""
    payload = b""
    for key, value in records.items():
        rest = b" " + key.replace("__", ".").encode() + b"=" + value + b"\n"
        length = len(rest) + 1
        while len(b"%d" % length + rest) != length:
            length += 1
        payload += b"%d" % length + rest
    return member(b"PaxHeader", payload, type=b"x")


def long_name(name: bytes) -> bytes:
    return member(b"././@LongLink", name + b"\0", type=b"L")


def tar(*pieces: bytes) -> bytes:
    return b"".join(pieces) + END


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


# --- where they are unpacked --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path) -> Path:
    """Where archives are unpacked; it does not exist yet. Beside it are a file and a folder that must stay."""
    (tmp_path / "box" / "beside").mkdir(parents=True)
    (tmp_path / "box" / "beside" / "kept").write_bytes(b"precious")
    (tmp_path / "box" / "outside").write_bytes(b"precious")
    return tmp_path / "box" / "target"


@pytest.fixture
def put(tmp_path):
    """Writes an archive and gives its path."""

    def write(content: bytes, name: str = "a.tar") -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def surroundings(folder: Path) -> dict:
    """All that lies around the target folder, up to the test's own: {path: what it is}."""
    return {
        path: (
            path.lstat().st_mode,
            path.lstat().st_ino,
            path.lstat().st_mtime_ns,
            path.is_file() and path.read_bytes(),
        )
        for path in folder.parents[1].rglob("*")
        if path not in (folder, folder.parent) and folder not in path.parents
    }


def tree(folder: Path) -> dict[str, bytes | None]:
    """{path in the folder: a file's content, None of a directory}; nothing else may be there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        assert not path.is_symlink() and (path.is_file() or path.is_dir())
        found[str(path.relative_to(folder))] = path.read_bytes() if path.is_file() else None
    return found


def message_of(archive: Path, folder: Path, **options) -> str:
    """What is said of an archive that can't be unpacked, once nothing else of it is left to be seen."""
    before = surroundings(folder)
    with pytest.raises(DataError) as caught:
        unpack(archive, folder, **options)
    assert surroundings(folder) == before, "something was written outside the target folder"
    assert not list(folder.rglob(".*.part")), "a temporary file is left"
    message = str(caught.value)
    assert message.isprintable(), "the message has one line and can be written to any terminal"
    return message


def shown(name: str) -> str:
    return repr(name) if len(name) <= 100 else f"{name[:100]!r}..."


# --- good archives ------------------------------------------------------------------------------------------------

GOOD = tar(
    directory(b"./"),
    directory(b"./empty/"),
    member(b"./a/one.txt", b"1" * 1000),
    member(b"a//b/./two.bin", noise(3_000_000)),  # more than one chunk
    member(b"zeros", bytes(2_500_000)),
    member(b"nothing", b""),
    member(b"block", b"x" * BLOCK_BYTES),
    member(b"name", b"3", prefix=b"split/at/a"),
    member("größe 100%, 猫.txt".encode(), b"4"),
    long_name(b"long/" + b"n" * 200),
    member(b"long/nnn", b"5"),
    pax(path=b"pax/" + b"p" * 200, mtime=b"1.5", SCHILY__xattr__user__x=b"\xff\n="),
    member(b"ppp", b"6"),
    member(b"PaxHeader", b"52 comment=" + b"c" * 40 + b"\n", type=b"g"),
    member(b"old", b"7", type=b"\0"),
    header(b"old style folder/", type=b"\0"),
    member(b"Name:with colon", b"8"),
    member(b"..dots../...", b"9"),
    header(b"folder with a size/", 700, type=b"5"),  # as some programs write; nothing of that size follows
    member(b"file with a slash/./", b"10"),
)
GOOD_TREE = {
    "empty": None, "a": None, "a/one.txt": b"1" * 1000, "a/b": None, "a/b/two.bin": noise(3_000_000),
    "zeros": bytes(2_500_000), "nothing": b"", "block": b"x" * BLOCK_BYTES, "split": None, "split/at": None,
    "split/at/a": None, "split/at/a/name": b"3", "größe 100%, 猫.txt": b"4", "long": None,
    "long/" + "n" * 200: b"5", "pax": None, "pax/" + "p" * 200: b"6", "old": b"7", "old style folder": None,
    "Name:with colon": b"8", "..dots..": None, "..dots../...": b"9", "folder with a size": None,
    "file with a slash": b"10",
}  # fmt: skip


@pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_a_good_archive_whatever_it_is_called(put, folder, compress):
    before = surroundings(folder)
    archive = put(compress(GOOD), "archive.zip")
    unpack(archive, folder)
    assert tree(folder) == GOOD_TREE
    assert {path: what for path, what in surroundings(folder).items() if path != archive} == before


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_what_tarfile_writes(tmp_path, folder, mode, format):
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    deep = source / ("d" * 90) / ("e" * 60)
    deep.mkdir(parents=True)
    (deep / "f.bin").write_bytes(noise(5000))
    with tarfile.open(tmp_path / "a", mode, format=format) as out:
        out.add(source, arcname=".")
    unpack(tmp_path / "a", folder)
    assert tree(folder) == tree(source)


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz"])
def test_several_compressed_streams_with_zeros_behind_them(put, folder, name):
    compress = COMPRESSIONS[name]
    half = len(GOOD) // 2
    unpack(put(compress(GOOD[:half]) + bytes(8) + compress(b"") + compress(GOOD[half:]) + bytes(70_000)), folder)
    assert tree(folder) == GOOD_TREE


@pytest.mark.parametrize("padding", [0, 1, 2, 19])
def test_as_many_zero_blocks_at_the_end_as_there_are(put, folder, padding):
    unpack(put(member(b"a", b"1") + bytes(BLOCK_BYTES * (1 + padding))), folder)
    assert tree(folder) == {"a": b"1"}


def image_archive(classes: int = 20, images: int = 6) -> tuple[bytes, dict]:
    """(an archive of archives like ILSVRC2012_img_train.tar, the tree that it stands for)."""
    outer, expected = [], {}
    for label in range(classes):
        name = f"n{1440764 + 31 * label:08}"
        expected[name] = None
        inner = []
        for image in range(images):
            content = b"\xff\xd8" + noise(100 + 400 * image, seed=100 * label + image)
            inner.append(member(f"{name}_{image}.JPEG".encode(), content))
            expected[f"{name}/{name}_{image}.JPEG"] = content
        outer.append(member(f"{name}.tar".encode(), tar(*inner) + bytes(7 * BLOCK_BYTES)))
    return tar(*outer), expected


def test_an_archive_of_archives(put, folder):
    content, expected = image_archive()
    unpack(put(content), folder, nested=True)
    assert tree(folder) == expected


def test_an_archive_of_archives_that_is_not_to_be_nested(put, folder):
    inner = tar(member(b"x", b"1"))
    unpack(put(tar(member(b"n.tar", inner))), folder)
    assert tree(folder) == {"n.tar": inner}


def test_only_one_level_is_nested(put, folder):
    content = tar(member(b"x", b"1"))
    for _ in range(30):
        content = tar(member(b"n.tar", content))
    unpack(put(content), folder, nested=True)
    assert list(tree(folder)) == ["n", "n/n.tar"]


def test_nested_archives_in_folders_and_beside_files(put, folder):
    content = tar(
        directory(b"folder.tar/"),
        member(b"folder.tar/n.tar", tar(directory(b"./"), directory(b"e/"), member(b"x", b"1"))),
        member(b"readme.txt", b"2"),
    )
    unpack(put(content), folder, nested=True)
    assert tree(folder) == {
        "folder.tar": None,
        "folder.tar/n": None,
        "folder.tar/n/e": None,
        "folder.tar/n/x": b"1",
        "readme.txt": b"2",
    }


def test_owners_modes_and_times_of_the_archive_are_ignored(put, folder):
    mask = os.umask(0)
    try:
        unpack(put(tar(directory(b"d/"), member(b"d/f"), member(b"new/f"))), folder)
    finally:
        os.umask(mask)
    for name, mode in (("d", 0o755), ("d/f", 0o644), ("new", 0o755), ("new/f", 0o644)):
        found = (folder / name).stat()
        assert stat.S_IMODE(found.st_mode) == mode
        assert abs(found.st_mtime - time.time()) < 600 and found.st_uid == os.getuid()


@pytest.mark.parametrize(("options", "text"), [({}, "unpacking a.tar"), ({"description": "images"}, "images")])
@pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_progress_counts_the_archives_own_bytes(put, folder, monkeypatch, compress, options, text):
    bars = []

    def visible(**asked):
        assert asked["disable"] is None, "silent where there is no terminal"
        bars.append(tqdm(**{**asked, "disable": False, "file": io.StringIO()}))
        return bars[-1]

    monkeypatch.setattr("trainmark.files.checksums.tqdm", visible)
    archive = put(compress(GOOD))
    unpack(archive, folder, **options)
    (bar,) = bars
    assert (bar.desc, bar.unit, bar.total) == (text, "B", archive.stat().st_size)
    assert bar.n == bar.total


# --- going on where a run broke off -------------------------------------------------------------------------------


def written(folder: Path) -> dict[Path, tuple]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_files_that_are_there_are_kept_and_the_others_come(put, folder, compress):
    content, expected = image_archive(classes=3)
    archive = put(compress(content))
    unpack(archive, folder, nested=True)
    gone = folder / "n01440795" / "n01440795_2.JPEG"
    gone.unlink()
    before = written(folder)
    unpack(archive, folder, nested=True)
    assert tree(folder) == expected
    after = written(folder)
    assert after.pop(gone) and after == before


def test_after_a_cut_off_archive_the_whole_one_goes_on(put, folder):
    content, expected = image_archive(classes=3)
    message_of(put(content[: len(content) // 2]), folder, nested=True)
    before = written(folder)
    assert before
    unpack(put(content), folder, nested=True)
    assert tree(folder) == expected
    assert before.items() <= written(folder).items()


def test_what_a_killed_process_left_is_no_obstacle(put, folder):
    folder.mkdir()
    (folder / f".{os.getpid()}.part").write_bytes(b"half")
    unpack(put(tar(member(b"a", b"1"))), folder)
    assert tree(folder) == {"a": b"1"}


def test_a_file_that_is_there_with_another_size(put, folder):
    folder.mkdir()
    (folder / "a").write_bytes(b"other")
    archive = put(tar(member(b"a", b"1")))
    assert message_of(archive, folder) == (
        f"{archive}: its member 'a' has 1 bytes, and {folder}/a is there with 5; unpack into an empty folder, and "
        "where that does not help, the archive holds two files of one name: get it from another place"
    )
    assert tree(folder) == {"a": b"other"}


# --- hostile archives: members that are refused -------------------------------------------------------------------

SPARSE = header(b"s", type=b"S")[:386] + b"%011o\0%011o\0" % (0, 512) + bytes(73) + b"%011o\0" % 2**30 + bytes(17)
LINK_OUT = header(b"link", type=b"2", link=b"..")

REFUSED = {
    "parent": (member(b"../x"), "../x", "has the part '..' in its name"),
    "parent of a part": (member(b"a/../../x"), "a/../../x", "has the part '..' in its name"),
    "parent that comes back": (member(b"a/../x"), "a/../x", "has the part '..' in its name"),
    "parent at the end": (directory(b"a/.."), "a/..", "has the part '..' in its name"),
    "parent alone": (directory(b".."), "..", "has the part '..' in its name"),
    "parent in the prefix": (member(b"x", prefix=b"../beside"), "../beside/x", "has the part '..' in its name"),
    "parent in a long name": (long_name(b"../x") + member(b"x"), "../x", "has the part '..' in its name"),
    "parent in a pax path": (pax(path=b"../x") + member(b"x"), "../x", "has the part '..' in its name"),
    "absolute": (member(b"/etc/x"), "/etc/x", "has a name that begins at the root"),
    "absolute, twice": (member(b"//x"), "//x", "has a name that begins at the root"),
    "absolute in a pax path": (pax(path=b"/x") + member(b"x"), "/x", "has a name that begins at the root"),
    "absolute folder": (directory(b"/"), "", "has no name"),
    "drive": (member(b"C:/x"), "C:/x", "has a name that begins with a drive"),
    "drive without a slash": (member(b"c:x"), "c:x", "has a name that begins with a drive"),
    "backslash": (member(b"..\\x"), "..\\x", "has a backslash in its name"),
    "newline": (member(b"a\nb"), "a\nb", "has a control character in its name"),
    "escape": (member(b"\x1b[2J"), "\x1b[2J", "has a control character in its name"),
    "NUL in a pax path": (pax(path=b"a\0b") + member(b"x"), "a\x00b", "has a control character in its name"),
    "C1 control character": (member("a\x9bb".encode()), "a\x9bb", "has a control character in its name"),
    "not UTF-8": (member(b"caf\xe9"), "caf\udce9", "has a name that is not UTF-8"),
    "not UTF-8 in a pax path": (pax(path=b"\xff") + member(b"x"), "\udcff", "has a name that is not UTF-8"),
    "surrogate": (pax(path=b"\xed\xb2\x80") + member(b"x"), "\udced\udcb2\udc80", "has a name that is not UTF-8"),
    "no name": (member(b""), "", "has no name"),
    "no name in a pax path": (pax(path=b"") + member(b"x"), "", "has no name"),
    "5,000 characters": (
        long_name(b"n" * 5000) + member(b"n"), "n" * 5000, "has a name of more than 1,000 characters",
    ),
    "2,500 folders": (
        pax(path=b"n/" * 2500) + member(b"n"), "n/" * 2500, "has a name of more than 1,000 characters",
    ),
    "symbolic link": (LINK_OUT, "link", "is a symbolic link"),
    "symbolic link to inside": (member(b"a") + header(b"l", type=b"2", link=b"a"), "l", "is a symbolic link"),
    "symbolic link and a file through it": (LINK_OUT + member(b"link/x"), "link", "is a symbolic link"),
    "hard link": (header(b"l", type=b"1", link=b"../outside"), "l", "is a hard link"),
    "hard link with content": (member(b"l", type=b"1", link=b"../outside"), "l", "is a hard link"),
    "long link": (
        member(b"././@LongLink", b"../" * 100 + b"\0", type=b"K") + header(b"l", type=b"2"),
        "l", "is a symbolic link",
    ),
    "character device": (header(b"null", type=b"3"), "null", "is a character device"),
    "block device": (header(b"sda", type=b"4"), "sda", "is a block device"),
    "named pipe": (header(b"pipe", type=b"6"), "pipe", "is a named pipe"),
    "sparse": (checked(SPARSE), "s", "is a sparse file"),
    "sparse 0.1, 1 TiB": (
        pax(GNU__sparse__map=b"0,1", GNU__sparse__size=b"%d" % 2**40) + member(b"s", b"1"), "s", "is a sparse file",
    ),
    "sparse 1.0": (
        pax(GNU__sparse__major=b"1", GNU__sparse__minor=b"0", GNU__sparse__name=b"../x", path=b"s") + member(b"s"),
        "s", "is a sparse file",
    ),
    "unknown type": (header(b"v", type=b"V"), "v", "is of the unknown type b'V'"),
    "unknown type that is not ASCII": (header(b"v", type=b"\xff"), "v", r"is of the unknown type b'\xff'"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "name", "why"), REFUSED.values(), ids=REFUSED)
def test_members_that_are_refused(put, folder, content, name, why):
    archive = put(tar(content))
    assert message_of(archive, folder) == f"{archive}: its member {shown(name)} {why}; {ONLY}"


@pytest.mark.parametrize(("content", "name", "why"), REFUSED.values(), ids=REFUSED)
def test_members_that_are_refused_in_a_nested_archive(put, folder, content, name, why):
    archive = put(gzip.compress(tar(member(b"n.tar", tar(content)))))
    assert message_of(archive, folder, nested=True) == f"{archive}: its member {shown('n.tar/' + name)} {why}; {ONLY}"


@pytest.mark.parametrize("name", [b"...tar", b"a/...tar"])
def test_a_nested_archive_whose_folder_would_be_the_parent(put, folder, name):
    archive = put(tar(member(name, tar(member(b"x")))))
    shown = name.decode().removesuffix(".tar")
    assert message_of(archive, folder, nested=True) == (
        f"{archive}: its member {shown!r} has the part '..' in its name; {ONLY}"
    )


IN_THE_WAY = {
    "file, then a folder": (member(b"a") + directory(b"a/"), "'a'", "needs a folder where {}/a is none"),
    "file, then a file in it": (member(b"a") + member(b"a/b/c"), "'a/b/c'", "needs a folder where {}/a is none"),
    "folder, then a file": (directory(b"a/") + member(b"a"), "'a'", "is a file, and {}/a is there and is none"),
    "file in a folder, then a file": (
        member(b"a/b") + member(b"./a"), "'./a'", "is a file, and {}/a is there and is none",
    ),
    "the target folder itself": (member(b"."), "'.'", "is a file, and {} is there and is none"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "shown", "why"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_files_and_folders_of_one_name(put, folder, content, shown, why):
    archive = put(tar(content))
    assert message_of(archive, folder) == f"{archive}: its member {shown} {why.format(folder)}; {ONLY}"


@pytest.mark.parametrize("second", [b"longer content", b""], ids=["longer", "empty"])
def test_two_files_of_one_name_and_different_sizes(put, folder, second):
    archive = put(tar(member(b"a"), member(b"./a", second)))
    assert message_of(archive, folder) == (
        f"{archive}: its member './a' has {len(second)} bytes, and {folder}/a is there with 7; unpack into an empty "
        "folder, and where that does not help, the archive holds two files of one name: get it from another place"
    )
    assert tree(folder) == {"a": b"content"}


@pytest.mark.parametrize("aim", ["../beside", "inside", "../nowhere"])
@pytest.mark.parametrize("name", [b"link/kept", b"link/x/y", b"link/"], ids=["file", "folder in it", "folder"])
def test_nothing_is_written_through_a_link_that_is_there_already(put, folder, aim, name):
    (folder / "inside").mkdir(parents=True)
    (folder / "link").symlink_to(aim)
    archive = put(tar(directory(name) if name.endswith(b"/") else member(name, b"precious")))
    assert message_of(archive, folder) == (
        f"{archive}: its member {name.decode().rstrip('/')!r} needs a folder where {folder}/link is none; {ONLY}"
    )
    assert not list((folder / "inside").iterdir())


@pytest.mark.parametrize("aim", ["../outside", "../nowhere", "inside"])
def test_nor_is_a_link_taken_for_a_file(put, folder, aim):
    folder.mkdir()
    (folder / "inside").write_bytes(b"precious")
    (folder / "link").symlink_to(aim)
    archive = put(tar(member(b"link", b"precious")))
    assert message_of(archive, folder) == (
        f"{archive}: its member 'link' is a file, and {folder}/link is there and is none; {ONLY}"
    )


def test_nor_is_the_temporary_file_written_through_a_link(put, folder):
    folder.mkdir()
    (folder / f".{os.getpid()}.part").symlink_to("../outside")
    before = surroundings(folder)
    archive = put(tar(member(b"a", b"1")))
    unpack(archive, folder)
    assert tree(folder) == {"a": b"1"}
    assert {path: what for path, what in surroundings(folder).items() if path != archive} == before


def test_a_member_that_is_named_like_the_temporary_file(put, folder):
    archive = put(tar(member(b".%d.part" % os.getpid()), member(b"a")))
    assert message_of(archive, folder) == f"{archive}: its member 'a' cannot be written into {folder}: File exists"


def test_a_target_folder_that_is_itself_a_link_is_the_callers_choice(put, folder):
    real = folder.parent / "beside" / "disk"
    real.mkdir()
    folder.symlink_to(real)
    unpack(put(tar(member(b"a", b"1"))), folder)
    assert tree(real) == {"a": b"1"}


# --- hostile archives: bombs --------------------------------------------------------------------------------------


@pytest.fixture
def small_limits(monkeypatch):
    """An archive may unpack to 100,000 bytes or to ten times its size."""
    monkeypatch.setattr("trainmark.datasets.archives.content.ALWAYS_ALLOWED_BYTES", 100_000)
    monkeypatch.setattr("trainmark.datasets.archives.content.MAX_EXPANSION", 10)


BOMBS = {
    "one file": (tar(member(b"a", bytes(1 << 20))), "inside 'a'", 0),
    "many files": (tar(*(member(b"%d" % index, bytes(9000)) for index in range(99))), "inside '10'", 10),
    "zeros behind the end": (tar(member(b"a")) + bytes(1 << 20), "after 'a'", 1),
    "headers without content": (tar(*(directory(b"%d/" % index) for index in range(999))), "after '194'", 195),
    "declared only": (header(b"a", 1 << 20), "inside 'a'", 0),
    "1 TiB, declared": (header(b"a", b"\x80" + (1 << 40).to_bytes(11, "big")), "inside 'a'", 0),
    "1 TiB, declared by pax": (pax(size=b"%d" % (1 << 40)) + header(b"a"), "inside 'a'", 0),
    "as much as can be declared": (header(b"a", b"\x80" + b"\xff" * 11), "inside 'a'", 0),
}


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz"])
@pytest.mark.parametrize(("content", "place", "entries"), BOMBS.values(), ids=BOMBS)
def test_bombs(put, folder, small_limits, content, place, entries, name):
    archive = put(COMPRESSIONS[name](content))
    assert message_of(archive, folder) == (
        f"{archive} would unpack to more than 100000 bytes, the most that is allowed for its {archive.stat().st_size} "
        f"bytes, {place}; get it from another place"
    )
    assert len(tree(folder)) == entries
    assert sum(len(content or b"") for content in tree(folder).values()) <= 100_000


def test_a_bomb_in_a_nested_archive(put, folder, small_limits):
    inner = tar(member(b"x", bytes(60_000)))
    archive = put(gzip.compress(tar(member(b"n.tar", inner), member(b"m.tar", inner))))
    assert message_of(archive, folder, nested=True).endswith(" bytes, inside 'm.tar'; get it from another place")
    assert list(tree(folder)) == ["n", "n/x"]


def test_a_large_archive_may_unpack_to_as_many_times_its_size(put, folder, small_limits):
    content = tar(member(b"a", noise(50_000) + bytes(300_000)))
    assert 100_000 < len(content) < 10 * len(gzip.compress(content))
    unpack(put(gzip.compress(content)), folder)
    assert (folder / "a").stat().st_size == 350_000


def test_a_thousandfold_bomb_meets_the_real_limits(put, folder):
    """2 GiB of zeros in 2 MB of gzip are refused from their header: nothing is written."""
    zipped = zlib.compressobj(wbits=31)
    content = zipped.compress(header(b"a", 2 << 30)) + zipped.flush()
    archive = put(content)
    assert message_of(archive, folder) == (
        f"{archive} would unpack to more than 1073741824 bytes, the most that is allowed for its {len(content)} bytes, "
        "inside 'a'; get it from another place"
    )
    assert tree(folder) == {}


@pytest.mark.parametrize(
    "pieces",
    [
        [member(b"%d" % index) for index in range(4)],
        [directory(b"a/")] * 4,
        [pax(path=b"a") * 4, member(b"a")],
        [member(b"n.tar", tar(member(b"a"), member(b"b"))), member(b"c")],
    ],
    ids=["files", "one folder again and again", "extensions", "nested"],
)
def test_too_many_members(put, folder, monkeypatch, pieces):
    monkeypatch.setattr("trainmark.datasets.archives.content.MAX_HEADERS", 3)
    archive = put(tar(*pieces))
    assert message_of(archive, folder, nested=True) == (
        f"{archive} has more than 3 members, the most that is allowed; get it from another place"
    )


def test_as_many_members_as_are_allowed(put, folder, monkeypatch):
    monkeypatch.setattr("trainmark.datasets.archives.content.MAX_HEADERS", 3)
    unpack(put(tar(*(member(b"%d" % index) for index in range(3)))), folder)
    assert list(tree(folder)) == ["0", "1", "2"]


@pytest.mark.parametrize("type", [b"x", b"g", b"X", b"L", b"K"])
@pytest.mark.parametrize("size", [(1 << 20) + 1, 1 << 32], ids=["1 MiB and 1 byte", "4 GiB"])
def test_extension_headers_that_are_held_in_memory(put, folder, type, size):
    archive = put(tar(member(b"a"), header(b"extension", size, type=type), bytes(BLOCK_BYTES)))
    assert message_of(archive, folder) == (
        f"{archive} has an extension header of {size} bytes, and 1048576 are allowed, after 'a'; "
        "get it from another place"
    )


def test_a_pax_header_that_would_take_quadratic_time(put, folder):
    """CVE-2024-6232, and records that overlap."""
    for payload in (b"9" * (1 << 20), b"2 " * (1 << 19), b"1" * 500_000 + b" hdrcharset"):
        archive = put(tar(member(b"PaxHeader", payload, type=b"x"), member(b"a")))
        started = time.monotonic()
        assert "before its first member: a pax header's records are damaged; " in message_of(archive, folder)
        assert time.monotonic() - started < 5


def test_an_xz_file_that_asks_for_4_gib_of_memory(put, folder):
    content = bytearray(lzma.compress(GOOD))
    end = 12 + 4 * (content[12] + 1)  # the block header follows the stream header of 12 bytes
    assert content[14:16] == b"\x21\x01"  # LZMA2, with one byte for the size of its dictionary
    content[16] = 40
    content[end - 4 : end] = zlib.crc32(content[12 : end - 4]).to_bytes(4, "little")
    archive = put(content)
    assert message_of(archive, folder) == (
        f"{archive} is damaged near byte {min(len(content), 1 << 15)}, before its first member: Memory usage limit "
        f"exceeded; {AGAIN}"
    )


# --- cut off ------------------------------------------------------------------------------------------------------

THREE = [member(b"a", b"1" * 700), member(b"d/b", noise(5000)), member(b"c", b"3")]
STARTS = [0, len(THREE[0]), len(THREE[0] + THREE[1]), len(b"".join(THREE))]

CUTS = {
    "before the first byte": (0, "before its first member", []),
    "inside the first member": (512 + 699, "inside 'a'", []),
    "right behind the first header": (512, "inside 'a'", []),
    "inside the padding": (512 + 701, "inside 'a'", ["a"]),
    "between members": (STARTS[1], "after 'a'", ["a"]),
    "inside a header": (STARTS[1] + 100, "after 'a'", ["a"]),
    "inside the second member": (STARTS[1] + 512 + 4999, "inside 'd/b'", ["a", "d"]),
    "behind the last member": (STARTS[3], "after 'c'", ["a", "c", "d", "d/b"]),
    "inside the last block": (STARTS[3] + 511, "after 'c'", ["a", "c", "d", "d/b"]),
}


@pytest.mark.parametrize(("cut", "place", "left"), CUTS.values(), ids=CUTS)
def test_cut_off(put, folder, cut, place, left):
    archive = put(tar(*THREE)[:cut])
    assert message_of(archive, folder) == f"{archive} is cut off: it ends at byte {cut}, {place}; {AGAIN}"
    assert list(tree(folder)) == left


@pytest.mark.parametrize("compress", list(COMPRESSIONS.values())[1:], ids=list(COMPRESSIONS)[1:])
@pytest.mark.parametrize(("cut", "place", "left"), CUTS.values(), ids=CUTS)
def test_cut_off_before_it_was_compressed(put, folder, cut, place, left, compress):
    content = compress(tar(*THREE)[:cut])
    archive = put(content)
    assert message_of(archive, folder) == f"{archive} is cut off: it ends at byte {len(content)}, {place}; {AGAIN}"
    assert list(tree(folder)) == left


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz"])
def test_compressed_and_cut_off_anywhere(put, folder, name):
    content = COMPRESSIONS[name](tar(*THREE))
    for cut in [6, 7, *range(8, len(content), 97), len(content) - 8, len(content) - 1]:
        archive = put(content[:cut])
        message = message_of(archive, folder)
        assert message.startswith(f"{archive} is cut off: it ends at byte {cut}, ") and message.endswith(f"; {AGAIN}")


def test_cut_off_inside_a_nested_archive(put, folder):
    content, _ = image_archive(classes=2)
    archive = put(content[:2000])
    assert message_of(archive, folder, nested=True) == (
        f"{archive} is cut off: it ends at byte 2000, after 'n01440764.tar/n01440764_0.JPEG'; {AGAIN}"
    )
    archive = put(content[:2400])
    assert message_of(archive, folder, nested=True) == (
        f"{archive} is cut off: it ends at byte 2400, inside 'n01440764.tar/n01440764_1.JPEG'; {AGAIN}"
    )


@pytest.mark.parametrize("extension", [pax(path=b"p" * 900), long_name(b"l" * 900)], ids=["pax", "GNU long name"])
def test_cut_off_inside_an_extension_header(put, folder, extension):
    for cut in (600, 1500, len(extension)):
        archive = put((extension + member(b"a"))[:cut])
        assert message_of(archive, folder) == (
            f"{archive} is cut off: it ends at byte {cut}, before its first member; {AGAIN}"
        )


# --- damaged ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "begins"),
    [
        (b"<html><body>Log in first</body></html>\n", b"<html><body>Log "),
        (b"<!DOCTYPE html>" * 100, b"<!DOCTYPE html><"),
        (b"PK\x03\x04" + noise(5000), b"PK\x03\x04" + noise(12)),
        (b"\x1f", b"\x1f"),
        (b"x", b"x"),
        (bytes(10_240), bytes(16)),  # no members: what is left of a download whose place was reserved
        (tar(*THREE)[:511], b"a" + bytes(15)),
        (tar(*THREE)[512:], b"1" * 16),
        (b"A" + tar(*THREE)[1:], b"A" + bytes(15)),  # a wrong checksum
        (header(b"a", b"no numbers\0"), b"a" + bytes(15)),
    ],
    ids=["page", "long page", "zip", "gzip's first byte", "one byte", "zeros", "cut", "beheaded", "checksum", "size"],
)
@pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_what_is_no_tar_archive(put, folder, content, begins, compress):
    archive = put(compress(content))
    if compress is bytes and content == b"\x1f\x8b":
        pytest.skip("gzip's magic bytes are another case")
    assert message_of(archive, folder) == (
        f"{archive} is not a tar archive with members: its content begins with {begins!r}; a tar is expected, plain or "
        "compressed by gzip, bzip2 or xz; delete the archive and download it again"
    )
    assert tree(folder) == {}


@pytest.mark.parametrize("content", [b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"], ids=["gzip", "bzip2", "xz"])
def test_nothing_but_magic_bytes(put, folder, content):
    archive = put(content)
    assert message_of(archive, folder) == (
        f"{archive} is cut off: it ends at byte {len(content)}, before its first member; {AGAIN}"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (gzip.compress(b"")[:10] + b"\xff" * 99, "Error -3 while decompressing data: invalid block type"),
        (b"BZh9" + b"\xff" * 99, "Invalid data stream"),
        (b"\xfd7zXZ\0" + b"\xff" * 99, "Corrupt input data"),
        (gzip.compress(GOOD[:512])[:-8] + b"\xff" * 8, "Error -3 while decompressing data: incorrect data check"),
    ],
    ids=["gzip", "bzip2", "xz", "gzip's checksum"],
)
def test_garbage_behind_magic_bytes(put, folder, content, why):
    archive = put(content)
    assert message_of(archive, folder) == (
        f"{archive} is damaged near byte {len(content)}, before its first member: {why}; {AGAIN}"
    )


def flipped(content: bytes, place: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 0x10
    return bytes(changed)


@pytest.mark.parametrize(("name", "place"), [("gzip", -6), ("bzip2", -4), ("xz", -20)])
def test_a_checksum_at_the_very_end_is_looked_at(put, folder, name, place):
    content = flipped(COMPRESSIONS[name](tar(*THREE)), place)
    archive = put(content)
    assert message_of(archive, folder).startswith(f"{archive} is damaged near byte {len(content)}, ")


def test_the_byte_of_the_damage_in_a_large_compressed_archive(put, folder):
    content = bytearray(lzma.compress(tar(*(member(b"%d" % index, noise(10_000, index)) for index in range(100)))))
    content[500_000:500_010] = b"\xff" * 10
    message = message_of(put(content), folder)
    found = int(message.partition("near byte ")[2].partition(",")[0])
    assert 500_000 <= found < len(content) - 400_000


DAMAGED = {
    "checksum": (flipped(member(b"b"), 0), "no tar header is there (bad checksum)"),
    "garbage": (noise(2048), "no tar header is there (invalid header)"),
    "size without a number": (header(b"b", b"no numbers\0"), "no tar header is there (invalid header)"),
    "negative size": (header(b"b", b"-0000000007\0"), "a header says that -7 bytes follow"),
    "negative size, base 256": (header(b"b", b"\xff" * 12), "a header says that -1 bytes follow"),
    "negative size of a pax header": (header(b"b", b"\xff" * 12, type=b"x"), "a header says that -1 bytes follow"),
    "pax size without a number": (pax(size=b"-7") + member(b"b"), "a pax header's size is no number"),
    "pax size of 5,000 digits": (pax(size=b"9" * 5000) + member(b"b"), "a pax header's size is no number"),
    "pax record without a length": (member(b"p", b"path=x\n", type=b"x"), "a pax header's records are damaged"),
    "pax record of length 0": (member(b"p", b"0 path=x\n", type=b"x"), "a pax header's records are damaged"),
    "pax record too short": (member(b"p", b"5 path=x\n", type=b"x"), "a pax header's records are damaged"),
    "pax record too long": (member(b"p", b"99 path=x\n", type=b"x"), "a pax header's records are damaged"),
    "pax record without an end": (member(b"p", b"9 path=xy", type=b"x"), "a pax header's records are damaged"),
    "pax record without a sign": (member(b"p", b"9 path x\n", type=b"x"), "a pax header's records are damaged"),
}


@pytest.mark.parametrize(("content", "why"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_behind_the_first_member(put, folder, content, why):
    archive = put(tar(member(b"a"), content))
    message = message_of(archive, folder)
    byte = int(message.partition("near byte ")[2].partition(",")[0])
    assert message == f"{archive} is damaged near byte {byte}, after 'a': {why}; {AGAIN}"
    assert 1024 < byte <= 1024 + len(content)
    assert tree(folder) == {"a": b"content"}


@pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_two_archives_one_behind_the_other(put, folder, compress):
    content = compress(tar(member(b"a")) + tar(member(b"b")))
    archive = put(content)
    assert message_of(archive, folder) == (
        f"{archive} is damaged near byte {len(content)}, after 'a': something follows the end of the tar; {AGAIN}"
    )


NESTED_DAMAGE = {
    "member longer than its tar": (header(b"x", 9000) + bytes(600), "inside 'n.tar/x'"),
    "no end mark": (member(b"x"), "after 'n.tar/x'"),
    "half a header": (member(b"x") + header(b"y")[:300], "after 'n.tar/x'"),
    "extension longer than its tar": (header(b"x", 9000, type=b"L") + bytes(600), "inside 'n.tar'"),
}


@pytest.mark.parametrize(("inner", "place"), NESTED_DAMAGE.values(), ids=NESTED_DAMAGE)
def test_a_nested_archive_takes_nothing_of_what_follows_it(put, folder, inner, place):
    archive = put(tar(member(b"n.tar", inner), member(b"secret", noise(20_000))))
    message = message_of(archive, folder, nested=True)
    byte = int(message.partition("near byte ")[2].partition(",")[0])
    assert message == (f"{archive} is damaged near byte {byte}, {place}: the tar 'n.tar' in it ends too early; {AGAIN}")
    assert byte <= 512 + len(inner)


def test_a_nested_archive_that_is_none(put, folder):
    archive = put(tar(member(b"d/n.tar", b"<html></html>")))
    assert message_of(archive, folder, nested=True) == (
        f"'d/n.tar' in {archive} is not a tar archive with members: its content begins with b'<html></html>'; a tar is "
        "expected, plain or compressed by gzip, bzip2 or xz; delete the archive and download it again"
    )


# --- files and folders that can't be read or written --------------------------------------------------------------


def test_a_name_that_the_file_system_refuses(put, folder):
    archive = put(tar(long_name(b"n" * 300) + member(b"n")))
    assert message_of(archive, folder) == (
        f"{archive}: its member '{'n' * 100}'... cannot be written into {folder}: File name too long"
    )


def test_a_folder_name_that_the_file_system_refuses(put, folder):
    archive = put(tar(long_name(b"d/" + b"n" * 300 + b"/x") + member(b"n")))
    assert message_of(archive, folder) == (
        f"{archive}: its member 'd/{'n' * 98}'... cannot be written into {folder}: File name too long"
    )


def test_a_file_that_becomes_too_large(put, folder):
    archive = put(tar(member(b"a", b"1"), member(b"b", bytes(3_000_000))))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, limits[1]))
    try:
        message = message_of(archive, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert message == f"{archive}: its member 'b' cannot be written into {folder}: File too large"
    assert tree(folder) == {"a": b"1"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(put, folder, monkeypatch, number):
    """A test cannot fill a disk; the system's answer is put where a file would get its name."""

    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("trainmark.datasets.archives.unpack.os.replace", full)
    archive = put(tar(member(b"d/a", b"1" * 900)))
    assert message_of(archive, folder) == (
        f"{folder} has no room for the 900 bytes of 'd/a' in {archive}; free some space and start again, what is "
        "unpacked already is kept"
    )
    assert tree(folder) == {"d": None}


def test_an_archive_that_is_not_there(tmp_path, folder):
    archive = tmp_path / "none.tar"
    assert message_of(archive, folder) == f"{archive} cannot be unpacked into {folder}: No such file or directory"


def test_an_archive_that_is_a_folder(tmp_path, folder):
    assert message_of(tmp_path, folder) == f"{tmp_path} cannot be unpacked into {folder}: Is a directory"


def test_a_target_folder_that_is_a_file(put, folder):
    folder.write_bytes(b"precious")
    archive = put(tar(member(b"a")))
    assert message_of(archive, folder) == f"{archive} cannot be unpacked into {folder}: File exists"
    assert folder.read_bytes() == b"precious"


# --- whatever else there may be -----------------------------------------------------------------------------------


def mutated(content: bytes, chance: random.Random) -> bytes:
    """A good archive with some of its bits, bytes or blocks changed, in one of five ways."""
    changed = bytearray(content)
    kind = chance.randrange(5)
    place = chance.randrange(len(content))
    if kind == 0:
        for _ in range(chance.randint(1, 20)):
            changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del changed[place:]
    elif kind == 2:
        changed[place : place + chance.randint(0, 600)] = chance.randbytes(chance.randint(0, 600))
    else:
        blocks = [changed[start : start + BLOCK_BYTES] for start in range(0, len(content), BLOCK_BYTES)]
        headers = [index for index, block in enumerate(blocks) if block[257:262] == b"ustar"] or [0]
        first = chance.choice(headers)
        if kind == 3:
            blocks[first], blocks[-1] = blocks[chance.choice(headers)], blocks[first]
        for _ in range(chance.randint(1, 4)):
            field = chance.choice([0, 1, 100, 124, 135, 156, 157, 345])
            if field < len(blocks[first]):
                blocks[first][field] = chance.choice(b"\0\x80\xff./0123456789LKxgS")
        blocks[first] = checked(bytes(blocks[first]))
        changed = b"".join(blocks)
    return bytes(changed)


FUZZED = tar(
    directory(b"d/"), member(b"d/a", noise(700)), long_name(b"d/" + b"l" * 150), member(b"l", b"2"),
    pax(path=b"p/" + b"p" * 150, size=b"3"), member(b"p", b"333"), member(b"n.tar", tar(member(b"x"), member(b"y/z"))),
)  # fmt: skip


@pytest.mark.parametrize("name", ["plain", "gzip", "xz"])
def test_random_mutations(put, folder, name):
    """Seeded; two in five of the plain ones have changed headers with a right checksum."""
    chance = random.Random(name)
    content = COMPRESSIONS[name](FUZZED)
    refused = 0
    for index in range(150):
        archive = put(mutated(content, chance))
        before = surroundings(folder)
        try:
            unpack(archive, folder, nested=bool(index % 2))
        except DataError as error:
            assert str(error).isprintable()
            refused += 1
        assert surroundings(folder) == before
        assert not [path for path in tree(folder) if path.endswith(".part")]
        shutil.rmtree(folder)
    assert refused > 50
    assert refused < 150 or name != "plain", "a plain archive has no checksum of its content"
