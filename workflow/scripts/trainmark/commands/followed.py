"""Follows a file while a command writes it: its text at the end, and when each of its lines was first seen."""

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from trainmark.commands.entries import Chunks
from trainmark.recipes.command import matches_of

LARGEST_MIB = 100
"""Largest output and largest file that is read."""

LARGEST_BYTES = LARGEST_MIB * 2**20

COMPARED_BYTES = 64
"""So many bytes before what was appended are compared with what was there: a file written anew has others there."""

LONGEST_CHANGE_SECONDS = 0.1
"""If a file changes at each look for longer than this, nobody knows when its new lines came."""

Key = tuple[tuple[bytes, ...], int]
"""What a line is known by: its filled cells, in any order, and how many such lines come before it."""


class FollowedFile:
    """A file that grows, or that is written anew each time.

    folder: in which it lies. file: its path there, or a pattern that one new path will match.
    chunks: its text as it was at the last look, in pieces, each with the time at which it was first seen; None where
        that can't be told, because the file was written anew with other lines.
    size_bytes: the size of this text.
    """

    def __init__(self, folder: Path, file: str) -> None:
        self._folder, self._file = folder, file
        self._earlier = matches_of(file, folder)
        self.path = folder / file
        self.chunks: list[tuple[float | None, bytes]] = []
        self.size_bytes = 0
        self._ending = b""
        self._state: tuple[int, int, int] | None = None
        self._state_seen = 0.0
        self._changed: float | None = None  # since when what was read is not what the file says

    def look(self, seen: float) -> None:
        """Read what was appended. A file that was written anew is read when it is the same at the next look, too."""
        state = None
        with suppress(OSError):  # there is no file yet, or no more
            if self._state is None:
                self.path = next(iter(matches_of(self._file, self._folder, self._earlier)), self._folder / self._file)
            status = os.stat(self.path)
            state = (status.st_ino, status.st_size, status.st_mtime_ns)
        if state != self._state:
            self._state, self._state_seen = state, seen
            self._changed = None if self._read_appended(seen) else self._changed or seen
        elif self._changed is not None:
            self._replace(self._read(0), self._state_seen)
            self._changed = None

    def end(self, seen: float) -> None:
        """Read the file as it is at its end, whatever was seen before."""
        data = self._read(0)
        if data != b"".join(data for _, data in self.chunks):
            self._replace(data, seen)

    def _read(self, at: int) -> bytes:
        if not self.path.is_file():  # a pipe would wait for a writer
            return b""
        with suppress(OSError), open(self.path, "rb") as stream:
            stream.seek(at)
            return stream.read(LARGEST_BYTES + 1 - at)
        return b""

    def _read_appended(self, seen: float) -> bool:
        """Read what follows the known text, and say whether the file still has that before it."""
        data = self._read(self.size_bytes - len(self._ending))
        if len(data) <= len(self._ending) or not data.startswith(self._ending):
            return False
        self.chunks.append((seen, data[len(self._ending) :]))
        self.size_bytes += len(data) - len(self._ending)
        self._ending = data[-COMPARED_BYTES:]
        return True

    def _replace(self, data: bytes, seen: float) -> None:
        """Take another text. Lines that were there keep their times, and the others are new, if nothing was removed."""
        times: dict[Key, float | None] = {key: at for at, key, _ in _keyed(self.chunks)}
        lines = [(key, line) for _, key, line in _keyed([(seen, data)])]
        gone = times.keys() - {key for key, _ in lines}
        if gone and lines and {*next(iter(times))[0]} < {*lines[0][0][0]}:
            gone -= {next(iter(times))}  # a header that has got a column
        if len(lines) < len(times):  # begun anew: a line that is there again may be another one
            times = {}
        is_late = self._changed is not None and seen - self._changed > LONGEST_CHANGE_SECONDS
        self.chunks = [(times.get(key, None if gone or is_late else seen), line) for key, line in lines]
        self.size_bytes, self._ending = len(data), data[-COMPARED_BYTES:]


def _keyed(chunks: Chunks) -> Iterator[tuple[float | None, Key, bytes]]:
    """Yield (time at which its end was seen, key, line) for each line."""
    counted: Counter[tuple[bytes, ...]] = Counter()
    for seen, line in _lines(chunks):
        cells = tuple(sorted(filter(None, (cell.strip() for cell in re.split(rb"[,;\t]", line)))))
        yield seen, (cells, counted[cells]), line
        counted[cells] += 1


def _lines(chunks: Chunks) -> Iterator[tuple[float | None, bytes]]:
    ends = [*accumulate(len(data) for _, data in chunks)]
    size_bytes = 0
    for line in b"".join(data for _, data in chunks).splitlines(keepends=True):
        size_bytes += len(line)
        yield chunks[bisect_left(ends, size_bytes)][0], line
