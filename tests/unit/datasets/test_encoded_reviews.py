"""Keras's imdb.npz: its ranks become ids, and nothing that a pickle asks for is run."""

import codecs
import io
import os
import pickle
import warnings
import zipfile
from itertools import product

import messages
import numpy as np
import pytest
from test_reviews import ENTRY as RAW_ENTRY

from trainmark.datasets.formats import encoded_reviews
from trainmark.datasets.samples import Folders
from trainmark.errors import DataError

ENTRY = {**RAW_ENTRY, "format": "encoded_reviews", "files": [{"name": "imdb.npz"}]}
RANKS = {"train": [[4, 4, 4], [], [1, 2, 3, 9, 5, 8, 88_584]], "test": [[1], [2, 3]]}
LABELS = {"train": [1, 0, 1], "test": [0, 1]}
GOOD_HEADER = "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"


def objects(elements) -> np.ndarray:
    """A 1-d array of objects, whatever the elements' lengths."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


def npy(array, **options) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def npy_with(pickled: bytes, header: str = GOOD_HEADER) -> bytes:
    """A .npy file of two objects with these bytes where the pickle belongs."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + pickled


def write_npz(folder, **changed) -> Folders:
    """A good imdb.npz, but for the members that are named (x_train=...); None leaves one out."""
    contents = {f"x_{split}": npy(objects(ranks)) for split, ranks in RANKS.items()}
    contents |= {f"y_{split}": npy(np.array(labels)) for split, labels in LABELS.items()}
    with zipfile.ZipFile(folder / "imdb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (contents | changed).items():
            if content is not None:
                archive.writestr(f"{name}.npy", content)
    return Folders(raw=folder, unpacked=folder / "unpacked")


def ids_of_test(folders) -> list:
    return encoded_reviews.read(folders, ENTRY).splits["test"][0].tolist()


def message_of(folders) -> str:
    return messages.message_of(encoded_reviews.read, folders, ENTRY)


def test_reviews_by_hand(tmp_path):
    found = encoded_reviews.read(write_npz(tmp_path), ENTRY)
    assert found.kind == "tokens" and found.class_names == ["negative", "positive"]
    ids, labels = found.splits["train"]
    # a vocabulary of 12 ends with rank 8; six ids; the file's own order
    assert ids.tolist() == [[0, 0, 1, 7, 7, 7], [0, 0, 0, 0, 0, 1], [5, 6, 2, 8, 11, 2]]
    assert labels.tolist() == [1, 0, 1]
    assert [part.tolist() for part in found.splits["test"]] == [TEST_IDS, [0, 1]]
    for ids, labels in found.splits.values():
        assert ids.dtype == np.int32 and labels.dtype == np.int64


TEST_IDS = [[0, 0, 0, 0, 1, 4], [0, 0, 0, 1, 5, 6]]


def test_what_numpy_writes(tmp_path):
    arrays = {f"x_{split}": objects(ranks) for split, ranks in RANKS.items()}
    labels = {f"y_{split}": np.array(labels, ">i8") for split, labels in LABELS.items()}
    np.savez(tmp_path / "imdb.npz", **arrays, **labels)
    ids, labels = encoded_reviews.read(Folders(tmp_path, tmp_path), ENTRY).splits["test"]
    assert ids.tolist() == TEST_IDS and labels.tolist() == [0, 1] and labels.dtype == np.int64
    version_2 = write_npz(tmp_path, x_test=npy(objects(RANKS["test"]), version=(2, 0)))
    assert ids_of_test(version_2) == TEST_IDS


def test_a_pickle_of_python_2_and_of_numpy_1(tmp_path):
    """As numpy 1 under Python 2 wrote Keras's file: protocol 2 with byte strings, and the module's old name."""
    reconstruct = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    dtype = b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb"
    state = b"(K\x01(K\x02t" + dtype + b"I00\n](](K\x01e](K\x02K\x03eetb"
    assert ids_of_test(write_npz(tmp_path, x_test=npy_with(b"\x80\x02" + reconstruct + state + b"."))) == TEST_IDS


class Gadget:
    """Calls `function(*arguments)` where it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def hostile_calls(target) -> dict:
    """{how a pickle names it: what would make the file `target`, or what no array needs}."""
    command = f"touch {target}"
    poisoned = str(target.with_name("inner.npy"))
    np.save(poisoned, objects([Gadget(os.system, command)]))
    return {
        "posix.system": Gadget(os.system, command),
        "builtins.eval": Gadget(eval, f"open({str(target)!r}, 'w')"),
        "posix.mkdir": Gadget(os.mkdir, str(target)),
        "numpy.load": Gadget(np.load, poisoned, None, True),
        "builtins.getattr": Gadget(getattr, target, "touch"),
        "_codecs.encode": Gadget(codecs.encode, "b", "latin1"),
        "builtins.list": Gadget(list, (1, 2)),
    }


RUNNING = ["posix.system", "builtins.eval", "posix.mkdir", "numpy.load"]
PLACES = {
    "instead of the array": lambda gadget: gadget,
    "as a review": lambda gadget: objects([gadget, [1]]),
    "as a rank": lambda gadget: objects([[1, gadget], [1]]),
    "as the state": lambda gadget: Gadget(np.dtype, gadget),
}


@pytest.mark.parametrize(
    ("name", "place", "protocol"),
    [
        *product([*RUNNING, "builtins.getattr", "_codecs.encode", "builtins.list"], PLACES, [4]),
        *product(["builtins.eval"], ["as the state"], range(pickle.HIGHEST_PROTOCOL + 1)),
    ],
)
def test_a_pickle_that_would_run_something(tmp_path, name, place, protocol):
    target = tmp_path / "run"
    pickled = pickle.dumps(PLACES[place](hostile_calls(target)[name]), protocol)
    name = name.replace("builtins", "__builtin__") if protocol < 3 else name
    assert message_of(write_npz(tmp_path, x_test=npy_with(pickled))) == refusal(tmp_path, name)
    assert not target.exists(), "it was run"


def refusal(folder, asked) -> str:
    return f"{folder}/imdb.npz: x_test.npy asks for {asked!r}, which no array needs; it was not run; delete the file"


@pytest.mark.parametrize("name", RUNNING)
def test_the_hostile_pickles_would_work_elsewhere(tmp_path, name):
    """Without this, the tests above could pass on gadgets that do nothing."""
    target = tmp_path / "run"
    pickle.loads(pickle.dumps(hostile_calls(target)[name]))
    assert target.exists()


@pytest.mark.parametrize(
    "asked",
    [
        ("numpy", "fromfile"), ("numpy", "ndarray.tofile"), ("m" * 200, "n"), ("numpy.core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"), ("builtins", "bytearray"), ("trainmark.errors", "DataError"), ("", ""),
        ("no such\tmodule", "'\"\\"),
    ],
)  # fmt: skip
def test_only_what_an_array_needs_may_be_named(tmp_path, asked):
    pickled = b"\x80\x04" + b"".join(b"\x8c" + bytes([len(part)]) + part.encode() for part in asked) + b"\x93)R."
    assert message_of(write_npz(tmp_path, x_test=npy_with(pickled))) == refusal(tmp_path, ".".join(asked)[:80])


def test_a_module_that_is_named_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "hostile_module.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    message = message_of(write_npz(tmp_path, x_test=npy_with(b"chostile_module\nthing\n.")))
    assert message == refusal(tmp_path, "hostile_module.thing")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "pickled",
    [
        b"", b".", b"N.", b"(lp0\n.", b"\x80\x04", b"\x80\xff.", b"K\x01K", b"<html>log in first</html>",
        b"\x80\x02Pid\n.", b"\x80\x02\x82\x01.", b"cnumpy\ndtype\n.", b"cnumpy\ndtype\n)R.", b"cnumpy\ndtype\n)RNb.",
        b"cnumpy\ndtype\n}b.", b"cnumpy\ndtype\n)R(K\x01K\x02tb.", b"cnumpy\ndtype\n)R}X\x05\x00\x00\x00stateNsb.",
        b"cnumpy\nndarray\n)\x81.",
        b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.", pickle.dumps(7), pickle.dumps([[1], [2]]),
    ],
)  # fmt: skip
def test_a_pickle_that_is_damaged_or_no_array(tmp_path, pickled):
    message = message_of(write_npz(tmp_path, x_test=npy_with(pickled)))
    assert message.startswith(f"{tmp_path}/imdb.npz: x_test.npy is not a pickled array; ")


def test_a_pickle_leaves_the_reader_as_it_was(tmp_path):
    """BUILD on what find_class gives must not change it for the next file."""
    before = {name: value for name, value in vars(encoded_reviews._Described).items()}
    for build in (b"N}X\x05\x00\x00\x00stateK\x01s\x86b.", b"}X\x05\x00\x00\x00stateK\x01sb."):
        message_of(write_npz(tmp_path, x_test=npy_with(b"\x80\x02cnumpy\nndarray\n" + build)))
    assert dict(vars(encoded_reviews._Described)) == before


@pytest.mark.parametrize("ranks", [[0], [2**31], [True], [1.0], ["1"], [[1]], (1,), "1", None, [1, 2, 0]])
def test_a_review_that_is_no_list_of_ranks(tmp_path, ranks):
    message = message_of(write_npz(tmp_path, x_test=npy(objects([[2**31 - 1], ranks]))))
    assert message.endswith("x_test.npy: review 1 (from 0) is not a list of word ranks from 1 to 2147483647")


REVIEWS = [
    (npy(np.zeros((2, 3), int)), "holds int64 (2, 3); it must hold one list for each review"),
    (npy(np.array([1, 2])), "holds int64 (2,); "),
    (npy(np.array([[[1], [2]]], object)), "holds object (1, 2, 1); "),
    (npy_with(pickle.dumps(np.array([1, 2]), 4)), "is a pickled array of numbers; it must hold one list for each rev"),
    (npy_with(pickle.dumps(objects([[1]]), 4)), "announces 2 reviews and holds 1; download it again"),
    (npy_with(pickle.dumps(objects([[1]] * 3), 4)), "announces 2 reviews and holds 3; "),
    (npy(objects([[1]])), "holds 1 reviews and y_test.npy 2 labels; each review needs one label, "),
]
LABELS_OF_TEST = [
    (npy(np.array([0, 2])), "holds labels from 0 to 2; they must be 0 or 1"),
    (npy(np.array([-1, 1])), "holds labels from -1 to 1; "),
    (npy(objects([0, 1])), f"holds {len(npy(objects([0, 1]))) - 128} bytes of object (2,); "),  # a pickle: not read
    (npy(np.array([0.0, 1.0])), "holds 16 bytes of float64 (2,); it must hold one integer for each review"),
    (npy(np.array([False, True])), "holds 2 bytes of bool (2,); "),
    (npy(np.array([[0, 1]])), "holds 16 bytes of int64 (1, 2); "),
    (npy(np.array([0, 1]))[:-1], "holds 15 bytes of int64 (2,); "),
    (npy(np.array([0, 1])) + b"x", "holds 17 bytes of int64 (2,); "),
    # A number of labels that would not fit into memory: only their bytes are counted.
    (npy_with(b"", GOOD_HEADER.replace("|O", "<i8").replace("2", "2" * 30)), f"holds 0 bytes of int64 ({'2' * 30},); "),
]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [*(("x_test", *case) for case in REVIEWS), *(("y_test", *case) for case in LABELS_OF_TEST)],
)
def test_an_array_of_something_else(tmp_path, name, content, why):
    message = message_of(write_npz(tmp_path, **{name: content}))
    assert message.startswith(f"{tmp_path}/imdb.npz: {name}.npy {why}")


def test_a_split_without_reviews(tmp_path):
    message = message_of(write_npz(tmp_path, x_test=npy(objects([])), y_test=npy(np.array([], int))))
    assert "x_test.npy holds 0 reviews and y_test.npy 0 labels; " in message


@pytest.mark.parametrize("member", ["x_train", "y_test"])
@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x93NUMPY", b"<html>log in first</html>", npy(np.array([0, 1]))[:20],
        npy(np.array([0, 1]), version=(3, 0)), npy_with(b"", GOOD_HEADER.replace("|O", "no dtype")),
        npy_with(b"", "[]"),
        npy_with(b"", "{'descr': __import__('os').system('touch run')}"), npy_with(b"", "{'shape': (1,"),
        npy_with(b"", "(" * 100),
    ],
)  # fmt: skip
def test_no_npy_file(tmp_path, member, content, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = message_of(write_npz(tmp_path, **{member: content}))
    assert message.startswith(f"{tmp_path}/imdb.npz: {member}.npy is not a .npy file of version 1 or 2; ")
    assert not (tmp_path / "run").exists()


def not_whole(folder, reason) -> str:
    return f"{folder}/imdb.npz is not a complete zip file ({reason}); delete it and download it again"


@pytest.mark.parametrize("share", [0, 0.1, 0.99])
def test_cut_off(tmp_path, share):
    folders = write_npz(tmp_path)
    path = tmp_path / "imdb.npz"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert message_of(folders) == not_whole(tmp_path, "File is not a zip file")


def test_a_file_or_a_member_that_is_not_there(tmp_path):
    reason = f"[Errno 2] No such file or directory: '{tmp_path}/imdb.npz'"
    assert message_of(Folders(tmp_path, tmp_path)) == not_whole(tmp_path, reason)
    folders = write_npz(tmp_path, x_train=None, y_test=None)
    assert message_of(folders) == not_whole(tmp_path, "x_train.npy, y_test.npy not in it")


def directory_entry(content: bytearray, name: bytes) -> int:
    """Where the zip's directory describes a member (central directory header, 4.3.12 of PKWARE's APPNOTE.TXT)."""
    place = content.index(b"PK\x01\x02")
    while content[place + 46 : place + 46 + len(name)] != name:
        place = content.index(b"PK\x01\x02", place + 4)
    return place


ENCRYPTED = "x_test.npy is encrypted or packed in a way that numpy does not use"


@pytest.mark.parametrize(
    ("offset", "value", "why"),
    [
        (8, b"\x01\x00", ENCRYPTED),
        (10, b"\x0c\x00", ENCRYPTED),  # by bzip2
        (16, b"\x00\x00\x00\x00", "Bad CRC-32 for file 'x_test.npy'"),
        (24, b"\xe8\x03\x00\x00", "Bad CRC-32 for file 'x_test.npy'"),  # a bomb that announces less than it holds
    ],
)
def test_members_that_numpy_would_not_have_written(tmp_path, offset, value, why):
    folders = write_npz(tmp_path, x_test=bytes(5 << 20))
    path = tmp_path / "imdb.npz"
    content = bytearray(path.read_bytes())
    place = directory_entry(content, b"x_test.npy") + offset
    content[place : place + len(value)] = value
    path.write_bytes(content)
    assert message_of(folders) == not_whole(tmp_path, why)


def test_a_bomb_that_is_announced(tmp_path, monkeypatch):
    sizes = sum(len(content) for content in read_members(write_npz(tmp_path)).values())
    monkeypatch.setattr(encoded_reviews, "MAX_BYTES", sizes)
    unpickled = pickle.dumps(Gadget(os.system, f"touch {tmp_path / 'run'}"))
    assert ids_of_test(write_npz(tmp_path, x_valid=unpickled)) == TEST_IDS, "other members count nothing"
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(encoded_reviews, "MAX_BYTES", sizes - 1)
    reason = f"its .npy files announce more than {sizes - 1} bytes"
    assert message_of(write_npz(tmp_path)) == not_whole(tmp_path, reason)


def read_members(folders) -> dict[str, bytes]:
    with zipfile.ZipFile(folders.raw / "imdb.npz") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_whatever_is_damaged_is_a_data_error_or_read(tmp_path):
    """Bytes changed in the zip, and in the members of a good zip."""
    folders = write_npz(tmp_path)
    contents = {None: (tmp_path / "imdb.npz").read_bytes(), **read_members(folders)}
    generator = np.random.default_rng(0)
    refused = 0
    for attempt in range(200):
        name = list(contents)[attempt // 2 % 4 + 1] if attempt % 2 else None
        content = bytearray(contents[name])
        for place in generator.integers(0, len(content), generator.integers(1, 4)):
            content[place] = generator.integers(0, 256)
        if name:
            write_npz(tmp_path, **{name.removesuffix(".npy"): bytes(content)})
        else:
            (tmp_path / "imdb.npz").write_bytes(content)
        try:
            with warnings.catch_warnings(action="ignore"):  # numpy warns of odd headers
                encoded_reviews.read(folders, ENTRY)
        except DataError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 100
