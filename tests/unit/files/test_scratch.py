"""Copies of files on a node's own disk."""

import multiprocessing
import os

import pytest

from trainmark.errors import DataError
from trainmark.files.scratch import staged


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train_images.npy"
    path.write_bytes(b"content")
    return path


def test_a_file_is_copied_once(file, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMARK_SCRATCH", str(tmp_path / "node"))
    copy = staged(file, "abc")
    assert copy == tmp_path / "node/trainmark/abc.npy"
    assert copy.read_bytes() == b"content"
    made = copy.stat().st_mtime_ns
    assert staged(file, "abc") == copy
    assert copy.stat().st_mtime_ns == made


def test_jobs_that_start_together_share_one_copy(file, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMARK_SCRATCH", str(tmp_path / "node"))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert len({pool.apply_async(staged, (file, "abc")).get(30) for _ in range(4)}) == 1
    assert sorted(os.listdir(tmp_path / "node/trainmark")) == ["abc.lock", "abc.npy"]


def test_a_disk_that_cannot_take_the_copy_gives_a_sentence(file, tmp_path, monkeypatch):
    (tmp_path / "node").write_text("a file")
    monkeypatch.setenv("TRAINMARK_SCRATCH", str(tmp_path / "node"))
    with pytest.raises(
        DataError, match=r"can't be copied to .*Not a directory.; name another folder, or take `scratch` out"
    ):
        staged(file, "abc")
