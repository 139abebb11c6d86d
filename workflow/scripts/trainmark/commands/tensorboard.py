"""Reads the scalars of TensorBoard's event files, without TensorBoard, which would bring its own web server.

An event file is a sequence of records: length (8 bytes), its CRC (4), an Event message, its CRC (4) (tensorflow,
core/lib/io/record_writer.h). Of the message these fields are read (tensorflow, core/util/event.proto and
core/framework/summary.proto): Event.wall_time 1, Event.step 2, Event.summary 5; Summary.value 1; Value.tag 1,
Value.simple_value 2, Value.tensor 8; Tensor.dtype 1, Tensor.tensor_content 4, Tensor.float_val 5.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainmark.errors import CommandError
from trainmark.files.system_files import own_paths

DT_FLOAT = 1


def read_scalars(path: Path) -> Iterator[tuple[float, int, str, float]]:
    """Yield (wall time in seconds, step, tag, value) for each scalar of an event file, or of all those in a folder.

    A record that is not complete ends its file: the writer may have been stopped. Raises CommandError if there is no
    event file.
    """
    files = [path] if path.is_file() else own_paths(path, "**/*tfevents*")
    if not files:
        raise CommandError(f"there is no event file (*tfevents*) in {path.name}")
    for file in files:
        try:
            for event in _records(file.read_bytes()):
                yield from _scalars(event)
        except (struct.error, LookupError) as error:
            raise CommandError(f"{file.name} is no event file of TensorBoard, or is damaged") from error


def _records(data: bytes) -> Iterator[bytes]:
    offset = 0
    while offset + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, offset)
        if offset + 16 + length > len(data):
            return
        yield data[offset + 12 : offset + 12 + length]
        offset += 16 + length


def _scalars(event: bytes) -> Iterator[tuple[float, int, str, float]]:
    fields = list(_fields(event))
    wall_time = next((struct.unpack("<d", value)[0] for number, value in fields if number == 1), 0.0)
    step = next((value for number, value in fields if number == 2), 0)
    for number, summary in fields:
        for inner, value in _fields(summary) if number == 5 else ():
            parts = dict(_fields(value)) if inner == 1 else {}
            scalar = _simple(parts) if 1 in parts else None
            if scalar is not None:
                yield wall_time, step, parts[1].decode(errors="replace"), scalar


def _simple(value: dict[int, Any]) -> float | None:
    """Return the number of a Summary.Value; None if it holds something else, such as an image."""
    if 2 in value:
        return float(struct.unpack("<f", value[2])[0])
    tensor = dict(_fields(value[8])) if 8 in value else {}
    content = tensor.get(4) or tensor.get(5)  # one float, as it is stored or packed
    if tensor.get(1) == DT_FLOAT and content is not None and len(content) == 4:
        return float(struct.unpack("<f", content)[0])
    return None


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each field of a message in protobuf's encoding; values of fixed size as bytes."""
    offset = 0
    while offset < len(message):
        key, offset = _varint(message, offset)
        value: Any
        if key & 7 == 0:
            value, offset = _varint(message, offset)
        elif key & 7 == 2:
            length, offset = _varint(message, offset)
            value, offset = message[offset : offset + length], offset + length
        else:
            length = {1: 8, 5: 4}[key & 7]
            value, offset = message[offset : offset + length], offset + length
        yield key >> 3, value


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """Return (number, offset behind it)."""
    number = shift = 0
    while True:
        byte = message[offset]
        number |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return number, offset
