"""Unpacking: good archives come out whole, and no hostile, damaged or cut-off one writes outside its folder."""

import bz2
import errno
import gzip
import io
import lzma
import os
import random
import shutil
import tarfile
import tracemalloc
import zipfile
from functools import partial
from pathlib import Path

import pytest
from tqdm import tqdm

from trainmark.datasets import archives
from trainmark.datasets.archives import unpack
from trainmark.errors import DataError

COMPRESSIONS = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
compressed = pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
AGAIN = "; delete it and download it again"


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def member(name: str, content: bytes = b"content", **fields) -> bytes:
    """A member's header, with the extension headers that it needs, and its content."""
    info = tarfile.TarInfo(name)
    for field, value in {"size": len(content), "mtime": 1, "mode": 0o7777, **fields}.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % 512)


directory = partial(member, content=b"", type=tarfile.DIRTYPE)
link = partial(member, content=b"", type=tarfile.SYMTYPE)


def tar(*members: bytes) -> bytes:
    return b"".join(members) + bytes(1024)


def zipped(files: dict, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content or b"")
    return stream.getvalue()


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
    path = tmp_path / "a.tar"
    return lambda content: (path.write_bytes(content) and path) or path


def surroundings(folder: Path) -> dict:
    """All that lies around the target folder, up to the test's own: {path: what it is}."""
    around = [path for path in folder.parents[1].rglob("*") if folder not in (path, *path.parents)]
    return {path: (path.lstat().st_mode, path.lstat().st_ino, path.is_file() and path.read_bytes()) for path in around}


def tree(folder: Path) -> dict[str, bytes | None]:
    """{path in the folder: a file's content, None of a directory}; nothing else may be there."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    assert all(not path.is_symlink() and (path.is_file() or path.is_dir()) for path in found.values())
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


def message_of(archive: Path, folder: Path, **options) -> str:
    """What is said of an archive that can't be unpacked, once nothing else of it is left to be seen."""
    before = surroundings(folder)
    with pytest.raises(DataError) as caught:
        unpack(archive, folder, **options)
    assert surroundings(folder) == before, "something was written outside the target folder"
    assert not list(folder.rglob(".*.part")), "a temporary file is left"
    assert str(caught.value).isprintable() and str(archive) in str(caught.value)
    return str(caught.value)


GOOD = tar(
    directory("./"), directory("./empty/"), member("./a/one.txt", b"1" * 1000), member("a//b/./two", noise(3_000_000)),
    member("nothing", b""), member("größe, 猫.txt", b"4"), member("long/" + "n" * 200, b"5"), member("b", bytes(512)),
    member("time", b"6", mtime=1.5), member("Name:with colon", b"8"), member("..dots../...", b"9"),
    member("old", b"7", type=tarfile.AREGTYPE), directory("folder with a size", size=700),
)  # fmt: skip
TREE = {
    "empty": None, "a": None, "a/one.txt": b"1" * 1000, "a/b": None, "a/b/two": noise(3_000_000), "nothing": b"",
    "größe, 猫.txt": b"4", "long": None, "long/" + "n" * 200: b"5", "b": bytes(512), "time": b"6",
    "Name:with colon": b"8", "..dots..": None, "..dots../...": b"9", "old": b"7", "folder with a size": None,
}  # fmt: skip
HALF = len(GOOD) // 2
GOODS = {
    **{name: compress(GOOD) for name, compress in COMPRESSIONS.items()},
    **{f"two {name}": compress(GOOD[:HALF]) + compress(GOOD[HALF:]) for name, compress in COMPRESSIONS.items()},
    "zip": zipped({f"{name}/" if content is None else name: content for name, content in TREE.items()}),
}


@pytest.mark.parametrize("content", GOODS.values(), ids=GOODS)
def test_a_good_archive(put, folder, monkeypatch, content):
    bars = []

    def visible(**asked):
        assert asked["disable"] is None, "silent where there is no terminal"
        bars.append(tqdm(**{**asked, "disable": False, "file": io.StringIO()}))
        return bars[-1]

    monkeypatch.setattr("trainmark.files.checksums.tqdm", visible)
    archive = put(content)
    before = surroundings(folder)
    unpack(archive, folder)
    assert tree(folder) == TREE and surroundings(folder).items() >= before.items()
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o7022 == 0 and path.stat().st_mtime > 1e9, "modes and times are not the archive's"
    (bar,) = bars
    assert (bar.desc, bar.unit, bar.total) == ("unpacking a.tar", "B", len(content))
    assert bar.n == bar.total or content[:2] == b"PK", "behind a zip's members is its directory"


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_other_formats_of_tar_and_one_that_ends_with_a_zip(tmp_path, folder, format):
    deep = tmp_path / "source" / ("d" * 90) / ("e" * 60)
    deep.mkdir(parents=True)
    (deep / "f.zip").write_bytes(zipped({"x": b"1"}))
    with tarfile.open(tmp_path / "a", "w", format=format) as out:
        out.add(tmp_path / "source", arcname=".")
    unpack(tmp_path / "a", folder)
    assert tree(folder) == tree(tmp_path / "source")


def image_archive() -> tuple[bytes, dict]:
    """(an archive of archives like ILSVRC2012_img_train.tar, the tree that it stands for)."""
    outer, expected = [], {}
    for name in ("n01440764", "n01440795", "n01440826"):
        files = {f"{name}_{image}.JPEG": noise(100 + 400 * image, seed=image) for image in range(6)}
        outer.append(member(f"{name}.tar", tar(*(member(*file) for file in files.items())) + bytes(3584)))
        expected |= {name: None, **{f"{name}/{file}": content for file, content in files.items()}}
    return tar(*outer), expected


def test_what_is_nested_is_in_folders_beside_files_and_of_one_level(put, folder):
    inner = tar(directory("e/"), member("x.tar", b"1"))
    content = tar(directory("d.tar/"), member("d.tar/n.tar", inner), member("none.tar", tar()), member("readme", b"2"))
    unpack(put(content), folder)
    assert tree(folder) == {"d.tar": None, "d.tar/n.tar": inner, "none.tar": tar(), "readme": b"2"}
    shutil.rmtree(folder)
    expected = {"d.tar": None, "d.tar/n": None, "d.tar/n/e": None, "d.tar/n/x.tar": b"1", "none": None, "readme": b"2"}
    unpack(put(content), folder, nested=True)
    assert tree(folder) == expected


def test_members_that_were_read_take_no_memory(put):
    archive = put(tar(*(member(f"{number}", b"1") for number in range(5000))))
    tracemalloc.start()
    with archives.open_archive(archive, "reading") as members:
        assert sum(len(content.read()) for _, content in members) == 5000
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 2_000_000, "tarfile alone would take more"


def written(folder: Path) -> dict[Path, tuple]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@compressed
def test_files_that_are_there_are_kept_and_the_others_come(put, folder, compress):
    content, expected = image_archive()
    archive = put(compress(content))
    unpack(archive, folder, nested=True)
    lost, short = folder / "n01440795" / "n01440795_2.JPEG", folder / "n01440795" / "n01440795_3.JPEG"
    lost.unlink()
    short.write_bytes(b"")  # as a power cut may leave it
    before = written(folder)
    unpack(archive, folder, nested=True)
    assert tree(folder) == expected
    assert {path for path, what in written(folder).items() if before.get(path) != what} == {lost, short}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("files", [0, 1, 11])
def test_a_stop_or_a_full_disk_leaves_whole_files_and_the_next_run_goes_on(put, folder, monkeypatch, error, files):
    content, expected = image_archive()
    archive, steps, replace = put(content), iter(range(files)), os.replace

    def stopped(*paths):
        if next(steps, None) is None:
            raise error
        replace(*paths)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises((KeyboardInterrupt, DataError)) as caught:
        unpack(archive, folder, nested=True)
    full = f"into {folder} ([Errno 28] No space left on device); make room"
    assert caught.value is error or full in str(caught.value)
    monkeypatch.undo()
    before = written(folder)
    assert len(before) == files and tree(folder).items() <= expected.items()
    (folder / ".a.tar.part").symlink_to("../outside")  # nor is a file that a kill left in the way, or written through
    unpack(archive, folder, nested=True)
    assert tree(folder) == expected and before.items() <= written(folder).items()
    assert (folder.parent / "outside").read_bytes() == b"precious"


PLAIN, OUTSIDE = "is neither a plain file nor a folder", "begins at a root or drive, or has '..' or a backslash in it"
OUTSIDE_NAMES = [
    "../x", "a/../../x", "a/../x", "a/..", "..", "../" + "n" * 200, "/etc/x", "//x", "C:/x", "c:x", "..\\x", "a\\x",
]  # fmt: skip
LINK_IN_ZIP = zipfile.ZipInfo("link")
LINK_IN_ZIP.external_attr = 0o120777 << 16
REFUSED = {
    **{name: (member(name), OUTSIDE) for name in (*OUTSIDE_NAMES, "...tar", "a/...tar")},
    "/folder": (directory("/folder"), OUTSIDE),
    "out": (link("out", linkname="..") + member("out/x"), PLAIN),
    "in": (member("a") + link("in", linkname="a"), PLAIN),
    "hard": (link("hard", type=tarfile.LNKTYPE, linkname="../outside"), PLAIN),
    **{f"type {type!r}": (link(f"type {type!r}", type=type), PLAIN) for type in (b"3", b"4", b"6", b"S", b"V")},
    "sparse": (member("sparse", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": f"{1 << 40}"}), PLAIN),
    **{f"zip {name}": (zipped({name: b"x"}), OUTSIDE) for name in OUTSIDE_NAMES},
    "zip link": (zipped({LINK_IN_ZIP: b"../outside"}), PLAIN),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("nested", [False, True])
def test_members_that_are_refused(put, folder, name, nested):
    content, why = REFUSED[name]
    if content[:2] != b"PK":
        content = gzip.compress(tar(member("n.tar", tar(content)))) if nested else tar(content)
    message = message_of(put(content), folder, nested=nested)
    assert f"its member {name.removeprefix('zip ')[:100]!r} {why}; " in message
    assert message.endswith("get the archive from another source")


@pytest.mark.parametrize("aim", ["../beside", "../beside/kept", "../nowhere"])
@pytest.mark.parametrize(
    "content", [member("link"), member("link/x"), directory("link/"), member("link.tar", tar(member("x")))]
)
def test_nothing_is_written_through_a_link_that_is_there_already(put, folder, content, aim):
    folder.mkdir()
    (folder / "link").symlink_to(aim)
    message_of(put(tar(content)), folder, nested=True)


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a"), (".",), ("n" * 300,)])
def test_what_cannot_be_a_file_or_folder(put, folder, names):
    assert "run again" in message_of(put(tar(*map(member, names))), folder)


BOMBS = {
    "one file": (tar(member("a", bytes(1 << 20))), 0),
    "many files": (tar(*(member(f"{number:02}", bytes(9000)) for number in range(99))), 10),
    "folders": (tar(*(directory(f"{number}") for number in range(999))), 195),
    "1 TiB, declared": (tar(member("a", b"", size=1 << 40)), 0),
    "zip": (zipped({"a": bytes(60_000), "b": bytes(60_000)}), 1),
    "nested": (tar(*(member(name, tar(member("x", bytes(60_000)))) for name in ("n.tar", "m.tar"))), 2),
}


@pytest.mark.parametrize(("content", "entries"), BOMBS.values(), ids=BOMBS)
def test_bombs(put, folder, monkeypatch, content, entries):
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED_BYTES", 100_000)
    monkeypatch.setattr(archives, "MAX_EXPANSION", 10)
    message = message_of(put(content if content[:2] == b"PK" else lzma.compress(content)), folder, nested=True)
    assert "more than 100000 bytes" in message and message.endswith("; get it from another source")
    assert len(tree(folder)) == entries


def test_a_thousandfold_bomb_meets_the_real_limit_and_what_expands_less_does_not(put, folder, monkeypatch):
    message = message_of(put(gzip.compress(member("a", b"", size=2 << 30) + bytes(1 << 20))), folder)
    assert "more than 1073741824 bytes" in message and tree(folder) == {}
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED_BYTES", 1000)
    unpack(put(gzip.compress(tar(member("a", noise(9000) + bytes(500_000))))), folder)
    assert (folder / "a").stat().st_size == 509_000
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    unpack(put(tar(*map(member, "bcd"))), folder)
    assert " or 3 members" in message_of(put(tar(*map(member, "abcd"))), folder)


@pytest.mark.parametrize("type", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
@pytest.mark.parametrize("size", [(1 << 20) + 1, 1 << 32, -(1 << 40)])
def test_headers_that_would_be_held_in_memory(put, folder, type, size):
    header = tarfile.TarInfo("x")
    header.type, header.size = type, size
    archive = put(tar(member("a"), header.tobuf(tarfile.GNU_FORMAT)))
    assert f"a header of {size} bytes; at most 1048576 are allowed" in message_of(archive, folder)


THREE = {"a": b"1" * 700, "d/b": noise(5000), "c": b"3"}
TAR = tar(*(member(*file) for file in THREE.items()))
FORMS = {name: compress(TAR) for name, compress in COMPRESSIONS.items()} | {"zip": zipped(THREE)}


@pytest.mark.parametrize("form", FORMS)
def test_cut_off_anywhere(put, folder, form):
    end = len(TAR) - 1024 if form == "plain" else len(FORMS[form]) - 1  # of two blocks of zeros, one may lack
    for cut in [*range(0, end, 97), *range(512, end, 512), end - 8, end]:
        message = message_of(put(FORMS[form][:cut]), folder)
        assert " is not a complete tar or zip archive (" in message and message.endswith(AGAIN)
        assert {name: content for name, content in tree(folder).items() if content is not None}.items() <= THREE.items()
        shutil.rmtree(folder)


@compressed
@pytest.mark.parametrize("cut", [600, 1000, 3100, 6656, 7168, len(TAR) - 1024])
def test_cut_off_before_it_was_compressed_also_where_all_is_unpacked(put, folder, compress, cut):
    unpack(put(TAR), folder)
    assert message_of(put(compress(TAR[:cut])), folder).endswith(AGAIN)
    assert tree(folder) == {**THREE, "d": None}


@pytest.mark.parametrize(("form", "place"), [("plain", -1), ("gzip", -6), ("bzip2", -4), ("xz", -20), ("zip", -10)])
def test_damaged_at_its_end(put, folder, form, place):
    content = bytearray(FORMS[form])
    content[place] ^= 0x10
    assert message_of(put(bytes(content)), folder).endswith(AGAIN)


DAMAGED = {
    "checksum of a header": tar(member("a"), member("b", b"").replace(b"b", b"x", 1)),
    "garbage": tar(member("a"), noise(1024)),
    "negative size": tar(member("a"), member("b", b"", size=-1024)),
    "extension at the end": tar(member("a"), member("n" * 200)[:1024]),
    "second archive": tar(member("a")) + tar(member("b")),
    "nested, longer than its tar": tar(member("n.tar", member("x", b"", size=9000)), member("secret", noise(20_000))),
    "nested, without an end": tar(member("n.tar", member("x")), member("secret", noise(20_000))),
    "nested, compressed": tar(member("n.tar", gzip.compress(tar(member("x"))))),
    "page": b"<html><body>Log in first</body></html>\n" * 30,
    "nothing": b"",
    "zip without a directory": b"PK\3\4" + noise(5000),
    "zip with a wrong checksum": zipped({"a": b"content"}, zipfile.ZIP_STORED).replace(b"content", b"CONTENT"),
    "encrypted zip": zipped({"a": b"1"}).replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"),
}


@compressed
@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged(put, folder, content, compress):
    assert message_of(put(compress(content)), folder, nested=True).endswith(AGAIN)
    assert tree(folder) in ({}, {"a": b"content"}, {"n": None}, {"n": None, "n/x": b"content"})


def test_an_archive_that_is_a_folder_or_not_there_and_a_target_folder_that_is_a_file(put, tmp_path, folder):
    for name in ("box", "none.tar"):
        assert f"{tmp_path / name} cannot be unpacked into {folder} (" in message_of(tmp_path / name, folder)
    folder.rmdir()
    folder.write_bytes(b"precious")
    assert "File exists" in message_of(put(tar(member("a"))), folder)
    assert folder.read_bytes() == b"precious"
