"""The event files of TensorBoard: what was written is read again, and nothing that TensorBoard would refuse."""

import math
from datetime import datetime

import pytest
from records_for_tests import diverged, out_of_memory, record, streamed, written_tables

from trainmark.commands.tensorboard import read_scalars
from trainmark.report.tensorboard import FILE, crc32c, write_event_files
from trainmark.tables.curves import curves_table


def test_the_checksum_is_crc_32c():
    """The check value of the CRC catalogue, and two of RFC 3720, appendix B.4."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA and crc32c(b"\xff" * 32) == 0x62A8AB43


def test_curves_are_read_as_they_were_written(tmp_path):
    records = [record("a", epochs=300, seconds=0.5), streamed(record("b"), evaluation_steps=4), diverged("c")]
    by_path, runs = written_tables(tmp_path / "runs", *records, out_of_memory("d"))
    curves = curves_table(by_path)
    with_epochs = curves["id"].nunique()
    assert write_event_files(runs, curves, tmp_path / "events") == with_epochs
    run = runs.iloc[0]
    assert all(math.isfinite(value) for *_, value in read_scalars(tmp_path / "events")), "none of the diverged run"
    scalars = list(read_scalars(tmp_path / "events" / run["id"] / FILE))
    started = datetime.fromisoformat(run["started"]).timestamp()
    losses = [(time, step, value) for time, step, tag, value in scalars if tag == "loss/test"]
    assert [step for _, step, _ in losses] == list(range(1, 301))
    assert [value for *_, value in losses] == pytest.approx([0.5] * 300)
    assert losses[-1][0] == pytest.approx(started + run["training_seconds"])
    assert {tag for _, _, tag, _ in scalars} == {"loss/test", "loss/batches", "accuracy/test", "epoch seconds"}


def test_the_same_tables_give_the_same_files(tmp_path):
    by_path, runs = written_tables(tmp_path / "runs", record("a"))
    for folder in ("one", "two"):
        write_event_files(runs, curves_table(by_path), tmp_path / folder)
    one, two = tmp_path.rglob("*tfevents*")
    assert one.read_bytes() == two.read_bytes()
