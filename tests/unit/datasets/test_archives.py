"""Unpacking: good archives come out whole, and no hostile, damaged or cut-off one writes outside its folder."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
import zlib
from functools import partial
from pathlib import Path

import pytest
from messages import message_of

from trainmark.datasets import archives
from trainmark.datasets.archives import unpack

COMPRESSIONS = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


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


def zipped(files: dict) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content or b"")
    return stream.getvalue()


@pytest.fixture(params=["with filters", "as in Python 3.11.2"])
def folder(tmp_path, monkeypatch, request) -> Path:
    """Where archives are unpacked; it does not exist yet. Beside it are a file and a folder that must stay."""
    if request.param != "with filters":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (tmp_path / "box" / "beside").mkdir(parents=True)
    (tmp_path / "box" / "outside").write_bytes(b"precious")
    return tmp_path / "box" / "target"


@pytest.fixture
def put(tmp_path):
    """Writes an archive and gives its path."""
    path = tmp_path / "a.tar"
    return lambda content: (path.write_bytes(content) and path) or path


def tree(folder: Path) -> dict[str, bytes | None]:
    """{path in the folder: a file's content, None of a directory}; nothing else may be there."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    assert all(not path.is_symlink() and (path.is_file() or path.is_dir()) for path in found.values())
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


NOISE = random.Random(0).randbytes(300_000)
GOOD = tar(
    directory("./"), directory("./empty/"), member("./a/one.txt", b"1" * 1000), member("a//b/./two", NOISE),
    member("nothing", b""), member("größe, 猫.txt", b"4"), member("long/" + "n" * 200, b"5"),
    member("..dots../...", b"9"), member("old", b"7", type=tarfile.AREGTYPE),
    directory("locked", mode=0), member("locked/in", b"8"),
)  # fmt: skip
TREE = {
    "empty": None, "a": None, "a/one.txt": b"1" * 1000, "a/b": None, "a/b/two": NOISE, "nothing": b"",
    "größe, 猫.txt": b"4", "long": None, "long/" + "n" * 200: b"5", "..dots..": None, "..dots../...": b"9", "old": b"7",
    "locked": None, "locked/in": b"8",
}  # fmt: skip
GOODS = {
    **{name: compress(GOOD) for name, compress in COMPRESSIONS.items()},
    "zip": zipped({f"{name}/" if content is None else name: content for name, content in TREE.items()}),
}


@pytest.mark.parametrize("content", GOODS.values(), ids=GOODS)
def test_a_good_archive(put, folder, content):
    unpack(put(content), folder)
    assert tree(folder) == TREE
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o7022 == 0 and path.stat().st_mtime > 1e9, "modes and times are not the archive's"


@pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_archives_in_an_archive_are_unpacked_in_one_level(put, folder, compress):
    inner = tar(directory("e/"), member("x.tar", b"1"))
    archive = put(
        compress(tar(directory("d.tar/"), member("d.tar/n.tar", inner), member("._m.tar"), member("r", b"2")))
    )
    unpack(archive, folder.with_name("flat"))
    assert tree(folder.with_name("flat")) == {"d.tar": None, "d.tar/n.tar": inner, "._m.tar": b"content", "r": b"2"}
    unpack(archive, folder, nested=True)
    expected = {"d.tar": None, "d.tar/n": None, "d.tar/n/e": None, "d.tar/n/x.tar": b"1"}
    assert tree(folder) == expected | {"._m.tar": b"content", "r": b"2"}


OUTSIDE, NO_FILE, TOO_LARGE = (
    "leads out of the folder",
    "is neither a file nor a folder",
    "makes it larger than an archi",
)
OUTSIDE_NAMES = ["../x", "a/../../x", "a/../x", "a/..", "..", "../" + "n" * 200, "/etc/x", "//x"]
FIFO, DEVICE, HARD = tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.LNKTYPE
REFUSED = {
    **{name: (tar(member(name)), OUTSIDE) for name in OUTSIDE_NAMES},
    **{f"zip {name}": (zipped({name: b"x"}), OUTSIDE) for name in OUTSIDE_NAMES},
    "/folder": (tar(directory("/folder")), OUTSIDE),
    "link out": (tar(link("out", linkname="..") + member("out/x")), NO_FILE),
    "link in": (tar(member("a") + link("in", linkname="a")), NO_FILE),
    "hard link": (tar(link("hard", type=HARD, linkname="../outside")), NO_FILE),
    "pipe": (tar(link("pipe", type=FIFO)), NO_FILE),
    "device": (tar(link("device", type=DEVICE)), NO_FILE),
    "nested": (tar(member("n.tar", tar(member("../../x")))), OUTSIDE),
    "bomb": (gzip.compress(tar(member("zeros", bytes(10_000_000)))), TOO_LARGE),
    "nested bomb": (gzip.compress(tar(member("n.tar", tar(member("z", bytes(10_000_000)))))), TOO_LARGE),
    "sparse bomb": (
        tar(member("s", b"0\n", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.realsize": "9" * 15})),
        "",
    ),
    "zip bomb": (zipped({"zeros": bytes(10_000_000)}), TOO_LARGE),
    **{f"{name}, cut off": (content[: len(content) // 2], "") for name, content in GOODS.items()},
    **{f"{name}, damaged": (content[:-20] + bytes(20), "") for name, content in GOODS.items() if name != "plain"},
    "no archive": (b"<html>log in first</html>", "is not a zip file); get the archive again, or pack it anew"),
    "encrypted": (zipped({"a": b"x"}).replace(b"\x14\0\0\0\x08", b"\x14\0\1\0\x08"), "extraction); pack it anew"),
    "Deflate64": (zipped({"a": b"x"}).replace(b"\x14\0\0\0\x08", b"\x14\0\0\0\x09"), "); pack it anew"),
    "nothing": (b"", "is not a zip file"),
}


@pytest.mark.parametrize(("content", "why"), REFUSED.values(), ids=REFUSED)
def test_a_hostile_or_damaged_archive(put, folder, monkeypatch, content, why):
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED_BYTES", 4_000_000)
    message = message_of(unpack, put(content), folder, nested=True)
    assert message.startswith(f"{put(content)} cannot be unpacked into {folder} (") and why in message
    around = {path.name for path in folder.parent.rglob("*") if folder not in (path, *path.parents)}
    assert around == {"beside", "outside"} and (folder.parent / "outside").read_bytes() == b"precious"
    assert not folder.exists() or tree(folder) is not None, "neither a link nor a device"


def zip_of(*names: bytes) -> bytes:
    """A zip with members of these names, without the flag for UTF-8, as programs of Windows and macOS write it."""
    placeholders = {("N" * len(name))[:-2] + f"{number:02}": name for number, name in enumerate(names)}
    content = zipped(dict.fromkeys(placeholders, b"x"))
    for placeholder, name in placeholders.items():
        content = content.replace(placeholder.encode(), name)
    return content


def tar_of(*names: bytes, form: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar with members of these names."""
    infos = [tarfile.TarInfo(name.decode("utf-8", "surrogateescape")) for name in names]
    return tar(*(info.tobuf(form, "utf-8", "surrogateescape") for info in infos))


def zip_with_field(name: str, raw: str, of: str | None = None) -> bytes:
    """A zip with a member whose raw name is followed by Info-ZIP's Unicode Path field of `of`, or of that name."""
    info = zipfile.ZipInfo(raw)
    content = struct.pack("<BL", 1, zlib.crc32((of or raw).encode())) + name.encode()
    info.extra = struct.pack("<HH", 0, 0) + struct.pack("<HH", 0x7075, len(content)) + content
    return zipped({info: b"x"})


NFD = "Ba\u0308ume/1.png"
DOS, LATIN, JAPANESE = "Bäume/ß.png".encode("cp850"), "Bäume/ß.png".encode("latin-1"), "ソフト/表.png".encode("cp932")
NOT_UTF_8 = "has names that are not in {}, such as "
NAMES = {
    "zip, macOS": (zip_of(NFD.encode(), "ä/一.png".encode()), None, [NFD, "ä/一.png"]),
    "zip, macOS, a key": (zip_of(NFD.encode()), "cp437", [NFD]),
    "zip, Windows": (zip_of(DOS, b"a.png"), None, NOT_UTF_8.format("UTF-8")),
    "zip, Windows, cp850": (zip_of(DOS, b"a.png"), "cp850", ["Bäume/ß.png", "a.png"]),
    "zip, Japanese": (zip_of(JAPANESE), None, NOT_UTF_8.format("UTF-8")),
    "zip, Japanese, cp932": (zip_of(JAPANESE), "cp932", ["ソフト/表.png"]),
    "zip, one name is both": (zip_of(DOS, "ä".encode()), "cp850", ["Bäume/ß.png", "ä"]),
    "zip, a field for Unicode": (zip_with_field("ソフト.png", "?.png"), None, ["ソフト.png"]),
    "zip, a field of another name": (zip_with_field("ソフト.png", "?.png", "x.png"), None, ["?.png"]),
    "zip, a wrong flag": (
        zipped({"ä": b""}).replace("ä".encode(), DOS[1:3]),
        None,
        "said to be UTF-8 is not); get the",
    ),
    "zip, another encoding": (zip_of(DOS), "ascii", NOT_UTF_8.format("ascii")),
    "zip, backslashes": (
        zip_of(rb"train\cat\1.png", rb"train\dog\1.png"),
        None,
        ["train/cat/1.png", "train/dog/1.png"],
    ),
    "zip, a folder": (zip_of(rb"train\cat\1.png", rb"empty\dog\\"[:-1]), None, ["train/cat/1.png"]),
    "zip, the way up": (zip_of(rb"train\..\..\evil"), None, OUTSIDE),
    "zip, a drive": (zip_of(rb"C:\evil\1.png"), None, OUTSIDE),
    "zip, a name like a drive": (zip_of(rb"A: cats\1.png"), None, ["A: cats/1.png"]),
    "zip, one path twice": (zip_of(rb"a\1.png", b"a/1.png"), None, "'a/1.png' is in it twice"),
    "zip, a network drive": (zip_of(rb"\\host\share\1.png"), None, OUTSIDE),
    "zip, Japanese, the way up": (zip_of(JAPANESE + rb"\..\..\..\x"), "cp932", OUTSIDE),
    "tar": (tar_of(DOS, form=tarfile.USTAR_FORMAT), None, NOT_UTF_8.format("UTF-8")),
    "tar, cp850": (tar_of(DOS, b"a.png"), "cp850", ["Bäume/ß.png", "a.png"]),
    "tar, both": (tar_of(DOS, "ä".encode()), "cp850", ["Bäume/ß.png", "ä"]),
    "tar, a name of the internet": (tar_of(DOS), "idna", NOT_UTF_8.format("idna")),
    "tar, a long name": (tar_of(LATIN + b"." * 200), "latin-1", ["Bäume/ß.png" + "." * 200]),
    "tar, pax": (tar_of(LATIN, form=tarfile.PAX_FORMAT), "latin-1", ["Bäume/ß.png"]),
    "tar, UTF-8, a key": (tar_of(NFD.encode()), "cp437", [NFD]),
    "tar, a backslash": (tar_of(rb"AC\DC/1.png"), None, [r"AC\DC/1.png"]),
}


@pytest.mark.parametrize(("content", "encoding", "expected"), NAMES.values(), ids=NAMES)
def test_names_are_decoded_as_they_were_written(put, folder, content, encoding, expected):
    """A name is in UTF-8 if it can be; else in the encoding that the entry gives, or one sentence."""
    if isinstance(expected, str):
        assert expected in message_of(unpack, put(content), folder, encoding=encoding)
    else:
        unpack(put(content), folder, encoding=encoding)
        assert sorted(expected) == [name for name, content in tree(folder).items() if content is not None]


def test_a_folder_that_cannot_be_written_or_an_archive_that_is_not_there(put, folder, tmp_path):
    folder.write_bytes(b"a file")
    assert "cannot be unpacked" in message_of(unpack, put(GOOD), folder)
    assert "No such file or directory" in message_of(unpack, tmp_path / "none.tar", folder)
