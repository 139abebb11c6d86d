"""File writes are atomic: the old file stays until the new one is on disk."""

import errno
import os

import pytest

from trainmark.files.whole import part_of, sync, write_text, written_whole


@pytest.fixture
def file(tmp_path):
    """A file with old content, in a folder of its own."""
    file = tmp_path / "folder" / "file.json"
    write_text(file, "old")
    return file


def test_the_file_is_renamed_at_the_end(file):
    with written_whole(file) as part:
        part.write_text("new")
        assert (file.read_text(), part) == ("old", part_of(file))
    assert file.read_text() == "new"
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_write_keeps_the_old_file_and_deletes_the_temporary_one(file, error):
    with pytest.raises(type(error)), written_whole(file) as part:
        part.write_text("ne")
        raise error
    assert file.read_text() == "old"
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_fails_in_the_last_step_keeps_the_old_file(file, monkeypatch, step):
    monkeypatch.setattr(os, step, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_text(file, "new")
    assert file.read_text() == "old"
    assert os.listdir(file.parent) == [file.name]


def test_a_file_system_that_cannot_sync_a_folder_stops_nothing(file, monkeypatch):
    def fail(_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fail)
    sync(file.parent)
    with pytest.raises(OSError, match="Invalid argument"):
        sync(file)


def test_text_in_utf_8_is_flushed_to_disk_before_the_rename(file, monkeypatch):
    steps, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (steps.append("fsync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *paths: (steps.append("replace"), replace(*paths)))
    write_text(file, "größe\n")
    assert steps == ["fsync", "replace"]
    assert file.read_bytes() == b"gr\xc3\xb6\xc3\x9fe\n"
