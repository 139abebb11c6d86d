"""Writes the curves of runs as TensorBoard's event files, one per run.

An event file is a sequence of records: the length of an Event message (8 bytes), the masked CRC-32C of the length, the
message, and its masked CRC-32C (tensorflow, core/lib/io/record_writer.h). The fields of the messages are those that
commands/tensorboard.py reads (tensorflow, core/util/event.proto and core/framework/summary.proto).
"""

import math
import struct
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pandas as pd

from trainmark.files.whole import written_whole
from trainmark.tables.curves import WITHIN_EPOCH

TAGS = {
    "test_loss": "loss/test",
    "train_loss": "loss/train",
    "batch_loss": "loss/batches",
    "test_accuracy": "accuracy/test",
    "train_accuracy": "accuracy/train",
    "test_top5_accuracy": "top-5 accuracy/test",
    "seconds": "epoch seconds",
}
"""The columns of the table of curves, and their names in TensorBoard."""

FILE = "events.out.tfevents.trainmark"

CASTAGNOLI = 0x82F63B78
"""The polynomial of CRC-32C, with its bits reversed (RFC 3720, appendix B.4)."""


def write_event_files(runs: pd.DataFrame, curves: pd.DataFrame, folder: Path) -> int:
    """Write the event file of each run that completed an epoch, under its id in a folder; return their number.

    The step is the epoch; the time is that of the run's start plus its training time. Evaluations within an epoch, and
    losses that are not finite, are left out. The same tables give the same files.
    """
    curves = curves[curves["part"] != WITHIN_EPOCH]
    started = runs.set_index("id")["started"].map(lambda text: datetime.fromisoformat(text).timestamp())
    written = 0
    for run_id, rows in curves.groupby("id", sort=False):
        file = folder / str(run_id) / FILE
        with written_whole(file) as part:
            part.write_bytes(b"".join(_records(rows, float(started[run_id]))))
        written += 1
    return written


def _records(rows: pd.DataFrame, started: float) -> Iterator[bytes]:
    yield _record(_double(1, started) + _bytes(3, b"brain.Event:2"))  # every file begins with its version
    for row in rows.to_dict("records"):
        scalars = [(tag, row[column]) for column, tag in TAGS.items() if math.isfinite(row[column])]
        values = b"".join(_bytes(1, _bytes(1, tag.encode()) + _float(2, value)) for tag, value in scalars)
        yield _record(_double(1, started + row["training_seconds"]) + _integer(2, row["epoch"]) + _bytes(5, values))


def _record(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + _masked_crc(length) + message + _masked_crc(message)


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes. Bit by bit, because a curve is short."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# The fields of protobuf's encoding: their number and type, then their value.


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _float(number: int, value: float) -> bytes:
    return _varint(number << 3 | 5) + struct.pack("<f", value)
