"""An error of the system is told as what it is: no file is called damaged, and no disk full, for another reason."""

import contextlib
import errno
import hashlib
import os
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from records_for_tests import record

from trainmark.datasets import prepared
from trainmark.datasets.archives import unpack
from trainmark.datasets.fetching.download import fetch_dataset
from trainmark.datasets.formats._arrays import open_array
from trainmark.datasets.formats._trees import own_folder, visible
from trainmark.datasets.formats.idx import read_idx
from trainmark.datasets.formats.reviews import _reviews
from trainmark.datasets.images.decoding import read_file
from trainmark.datasets.images.lists import read_list
from trainmark.datasets.images.packed import open_store
from trainmark.datasets.tokens import read_word_index
from trainmark.errors import ADVICE, RecordError, TrainmarkError, failing_in_one_sentence, run_command
from trainmark.errors import refusing as refusing_session
from trainmark.files.disk import new_array
from trainmark.files.scratch import staged
from trainmark.loading.memory_file import MemoryFile
from trainmark.machine.locks import _take
from trainmark.parity.trace import read_trace
from trainmark.plan.plan_file import read_plan
from trainmark.recipes.initial_weights import _read_finite
from trainmark.records.inputs import initial_weights_sha256
from trainmark.records.peaks import read_peak
from trainmark.records.record import read_record, write_record
from trainmark.session.display import last_error
from trainmark.training.checkpoints import Checkpoint, newest_checkpoint, write_checkpoint
from trainmark.training.process_exit import ProcessExit

_refused: dict[str, int] = {}
"""The errors of the system by path: of opening a file, or of listing a folder."""


def _refuse(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and (number := _refused.get(str(arguments[0]))):
        raise OSError(number, os.strerror(number), str(arguments[0]))


sys.addaudithook(_refuse)  # it sees every way in which Python opens a file, and can't be removed


@contextlib.contextmanager
def refusing(path: Path, number: int):
    _refused[str(path)] = number
    try:
        yield
    finally:
        _refused.clear()


READERS = {
    "a manifest": ("manifest.json", lambda file: prepared.read_manifest(file.parent)),
    "a prepared array": ("a.npy", lambda file: prepared._open_array(file.parent, {"file": "a.npy", "sha256": "x"})),
    "a word index": ("words.json", read_word_index),
    "an array of the user": ("x_train.npy", open_array),
    "an IDX file": ("train-images-idx3-ubyte.gz", read_idx),
    "a list of images": ("train.txt", read_list),
    "an image": ("1.png", read_file),
    "a packed store": ("train.npy", open_store),
    "a tar of reviews": ("reviews.tar", lambda file: next(_reviews(file))),
    "an archive": ("a.zip", lambda file: unpack(file, file.with_name("out"))),
    "a folder of images": ("images", visible),
    "the user's own folder": ("images", lambda folder: own_folder({"folder": str(folder), "title": "T"})),
    "a trace": ("trace.npz", read_trace),
    "a plan": ("plan.json", read_plan),
    "a record": ("record.json", read_record),
    "a peak": ("peak.json", read_peak),
    "initial weights": ("weights.npz", _read_finite),
    "the SHA-256 of initial weights": ("weights.npz", initial_weights_sha256),
    "any other file": ("some.json", lambda file: run_command(lambda: file.read_text())),
    "any other file, while jobs are planned": ("some.json", lambda file: refusing_session(file.read_text)()),
}
OF_READING = (
    errno.EBADF,
    errno.EACCES,
    errno.EIO,
    errno.ESTALE,
    errno.EMFILE,
    errno.ENOMEM,
    errno.EPERM,
    errno.ENODEV,
    errno.ENOTCONN,
    errno.ETIMEDOUT,
    errno.EAGAIN,
)


@pytest.mark.parametrize("number", OF_READING, ids=errno.errorcode.get)
@pytest.mark.parametrize(("name", "read"), READERS.values(), ids=READERS)
def test_a_file_that_can_not_be_read_is_not_called_damaged(tmp_path, name, read, number):
    path = tmp_path / name
    path.mkdir() if name == "images" else path.write_text("content")
    with refusing(path, number), pytest.raises((TrainmarkError, SystemExit)) as caught:
        read(path)
    _check(str(caught.value), number)
    assert path.exists() and os.fspath(path) in str(caught.value)


def _check(message: str, number: int) -> None:
    """The message says what the system says, gives the advice for that, and blames nothing else."""
    assert f"({os.strerror(number)}); {ADVICE[number]}" in message
    others = {advice for other, advice in ADVICE.items() if advice != ADVICE[number]}
    for blamed in ("damaged", "not a complete", "download", "delete", "no such", "[Errno", "Traceback", *others):
        assert blamed not in message
    assert "\n" not in message


OF_WRITING = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EIO,
    errno.ENOLCK,
    errno.ENAMETOOLONG,
)


def _fetched(file: Path) -> list[dict]:
    """Fetch a file that lies in two places."""
    places = [file.with_name(name) for name in ("first.bin", "second.bin")]
    for place in places:
        if not place.exists():
            place.write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    entry = {"files": [{"name": file.name, "sha256": digest, "urls": [f"file://{place}" for place in places]}]}
    return fetch_dataset("d", entry, None, file.parent)


WRITERS = {
    "a large array": ("a.npy", lambda file: new_array(file, np.uint8, (10,), "the array")),
    "a file of a dataset": ("a.bin.part", lambda file: _fetched(file.with_suffix(""))),
    "a copy on a node": ("node/trainmark/abc.bin.part", lambda file: staged(file.parents[2] / "source.bin", "abc")),
    "the lock of a copy": ("node/trainmark/abc.lock", lambda file: staged(file.parents[2] / "source.bin", "abc")),
    "a lock": ("a.lock", lambda file: _take(file, contextlib.ExitStack())),
}


@pytest.mark.parametrize("number", OF_WRITING, ids=errno.errorcode.get)
@pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)
def test_a_file_that_can_not_be_written_is_not_called_too_large(tmp_path, monkeypatch, name, write, number):
    monkeypatch.setenv("TRAINMARK_SCRATCH", str(tmp_path / "node"))
    monkeypatch.setattr(os, "link", lambda *_: os.rename(tmp_path / "none", tmp_path))  # as between two disks
    (tmp_path / "source.bin").write_bytes(b"content")
    with refusing(tmp_path / name, number), pytest.raises(TrainmarkError) as caught:
        write(tmp_path / name)
    _check(str(caught.value), number)


def test_the_last_error_of_a_log_is_the_sentence(tmp_path, capsys):
    """The workflow repeats it on the terminal."""
    with pytest.raises(SystemExit), failing_in_one_sentence("it", None, sys.stdout), refusing(tmp_path, errno.EIO):
        os.listdir(tmp_path)
    assert last_error(capsys.readouterr().err) == f"{tmp_path} can't be used (Input/output error); {ADVICE[errno.EIO]}"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EACCES], ids=errno.errorcode.get)
def test_loaders_work_where_memory_without_a_file_is_forbidden(monkeypatch, number):
    """As by seccomp, and by vm.memfd_noexec=2."""
    monkeypatch.setattr(os, "memfd_create", Mock(side_effect=OSError(number, os.strerror(number))), raising=False)
    memory = MemoryFile()
    part = memory.map(memory.grow(3), 3)
    part[:] = b"abc"
    assert os.pread(memory.descriptor, 3, 0) == b"abc"
    memory.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO], ids=errno.errorcode.get)
def test_room_that_can_not_be_allocated(tmp_path, monkeypatch, number):
    def allocate(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    with pytest.raises(TrainmarkError) as caught:
        new_array(tmp_path / "a.npy", np.uint8, (300, 1000), "the store")
    assert str(caught.value).startswith(f"the store can't be written to {tmp_path} (")
    _check(str(caught.value), number)


def test_a_source_that_can_not_be_read_is_not_the_target(tmp_path):
    _fetched(tmp_path / "once.bin")
    with refusing(tmp_path / "first.bin", errno.EACCES):
        assert _fetched(tmp_path / "a.bin")[0]["from"] == f"file://{tmp_path / 'second.bin'}"
    _refused[str(tmp_path / "first.bin")] = errno.EIO
    with refusing(tmp_path / "second.bin", errno.EACCES), pytest.raises(TrainmarkError) as caught:
        _fetched(tmp_path / "b.bin")
    for name, number in (("first", errno.EIO), ("second", errno.EACCES)):
        said = f"{name}.bin: can't be read ({os.strerror(number)}); {ADVICE[number]}"
        assert said in str(caught.value)


@pytest.mark.parametrize("number", OF_READING, ids=errno.errorcode.get)
def test_work_that_can_not_be_read_is_not_deleted(tmp_path, capsys, number):
    """A checkpoint, and the record of a run whose workflow was gone."""
    files = [write_checkpoint(tmp_path, "run", Checkpoint(epoch, {"x": np.zeros(1)}, [])) for epoch in (1, 2)]
    with refusing(files[1], number):
        assert newest_checkpoint(tmp_path, "run").epoch == 1
    _check(capsys.readouterr().out.removesuffix("; trying the one before it\n"), number)
    with refusing(tmp_path, number), pytest.raises(OSError, match=os.strerror(number)):
        newest_checkpoint(tmp_path, "run")
    assert newest_checkpoint(tmp_path, "run").epoch == 2
    kept = tmp_path / "record.kept.json"
    write_record(record("a"), kept)
    process_exit = ProcessExit(tmp_path / "record.json", None, None)
    with refusing(kept, number), pytest.raises(RecordError, match="can't be read"):
        process_exit.take_kept_record(lambda _: True)
    assert process_exit.take_kept_record(lambda _: True)
