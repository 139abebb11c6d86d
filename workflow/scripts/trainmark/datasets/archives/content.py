"""The content of an archive that nobody vouches for: decompressed, bounded, and with words for what is wrong in it."""

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from trainmark.errors import DataError

COMPRESSED_CHUNK_BYTES = 1 << 15
"""Read at once from a compressed archive: how near the byte that a message names is to the damage."""

ALWAYS_ALLOWED_BYTES = 1 << 30
MAX_EXPANSION = 200
"""An archive may unpack to ALWAYS_ALLOWED_BYTES or to MAX_EXPANSION times its own size, whichever is more.

Tars of JPEGs expand once, texts 4 to 10 times; a bomb of zeros 1,032 times in gzip and far more in bzip2 and xz.
"""

MAX_HEADERS = 5_000_000
"""Of members and their extensions together; ImageNet's archive of training images has 1.3 million."""

XZ_MEMORY_BYTES = 1 << 28
"""What xz's decoder may allocate: `xz -9` needs 65 MiB, and a hostile header may ask for 4 GiB."""


class Gunzip:
    """zlib's decompressor of one gzip member, checksum included, with the interface of bz2's and lzma's."""

    eof = property(lambda self: self._zlib.eof)
    unused_data = property(lambda self: self._zlib.unused_data)

    def __init__(self):
        self._zlib = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # 16: with gzip's header and trailer
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most `max_length` bytes of content. Raises zlib.error where the data are damaged."""
        found = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail
        return found


DECOMPRESSORS: dict[bytes, Callable] = {
    b"\x1f\x8b": Gunzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES),
}
"""By the magic bytes of gzip (RFC 1952), bzip2 and xz (https://tukaani.org/xz/xz-file-format.txt)."""


class Decompressed(io.RawIOBase):
    """The content of a compressed file, never more of it in memory than is asked for.

    The file may hold several compressed streams, one after the other, and zeros behind each, as gzip and xz allow.
    Reading raises EOFError where the file ends inside a stream, and the decompressor's error where it is damaged.
    """

    def __init__(self, file: BinaryIO, new_decompressor: Callable):
        self._file = file
        self._new_decompressor = new_decompressor
        self._decompressor = new_decompressor()

    def readable(self) -> bool:
        """Always; io.BufferedReader asks."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer's beginning; return how many bytes of it, 0 at the end."""
        found = b""
        while not found:
            data = b""
            if self._decompressor.eof:
                data = self._next_stream()
                if not data:
                    return 0
                self._decompressor = self._new_decompressor()
            elif self._decompressor.needs_input:
                data = self._file.read(COMPRESSED_CHUNK_BYTES)
                if not data:
                    raise EOFError
            found = self._decompressor.decompress(data, len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def _next_stream(self) -> bytes:
        """The first bytes of the stream behind the one that is over; none where the file ends."""
        data = self._decompressor.unused_data.lstrip(b"\0")
        while not data and (chunk := self._file.read(COMPRESSED_CHUNK_BYTES)):
            data = chunk.lstrip(b"\0")
        return data


class Source:
    """The content of an open archive, in order.

    place: where in the archive reading stands, in words; whoever reads keeps it true. Every method but `refused`,
    `cut_off` and `damaged`, which return one, may raise DataError.
    """

    def __init__(self, archive: Path, file: BinaryIO, bar: tqdm):
        self.archive = archive
        self.place = "before its first member"
        self._file = file
        self._bar = bar
        self._headers = 0
        self._unpacked_bytes = 0
        self._size_bytes = os.fstat(file.fileno()).st_size
        self._limit_bytes = max(ALWAYS_ALLOWED_BYTES, MAX_EXPANSION * self._size_bytes)
        magic = file.read(max(map(len, DECOMPRESSORS)))
        file.seek(0)
        found = [new_decompressor for begin, new_decompressor in DECOMPRESSORS.items() if magic.startswith(begin)]
        self._stream = io.BufferedReader(Decompressed(file, *found)) if found else file

    def read(self, size_bytes: int) -> bytes:
        """So many bytes; fewer only where the archive ends."""
        try:
            found = self._stream.read(size_bytes)
        except EOFError as error:
            raise self.cut_off() from error
        except (OSError, zlib.error, lzma.LZMAError) as error:  # bz2's errors are OSErrors
            raise self.damaged(str(error)) from error
        self.expect(len(found))
        self._unpacked_bytes += len(found)
        self._bar.update(self._file.tell() - self._bar.n)
        return found

    def expect(self, size_bytes: int) -> None:
        """Raise DataError where so many bytes more would be too many."""
        if self._unpacked_bytes + size_bytes > self._limit_bytes:
            raise DataError(
                f"{self.archive} would unpack to more than {self._limit_bytes} bytes, the most that is allowed for its "
                f"{self._size_bytes} bytes, {self.place}; get it from another place"
            )

    def count_header(self) -> None:
        """Raise DataError where one header more is too many."""
        self._headers += 1
        if self._headers > MAX_HEADERS:
            raise DataError(
                f"{self.archive} has more than {MAX_HEADERS} members, the most that is allowed; "
                "get it from another place"
            )

    def cut_off(self) -> DataError:
        """What to raise where the archive ends before its content does."""
        return DataError(
            f"{self.archive} is cut off: it ends at byte {self._file.tell()}, {self.place}; "
            "delete it and download it again"
        )

    def damaged(self, why: str) -> DataError:
        """What to raise where the content makes no sense."""
        return DataError(
            f"{self.archive} is damaged near byte {self._file.tell()}, {self.place}: {why}; "
            "delete it and download it again"
        )

    def refused(self, member: str, why: str) -> DataError:
        """What to raise where a member, as it is shown, is not to be unpacked."""
        return DataError(
            f"{self.archive}: its member {member} {why}; only files and folders that stay inside the target folder "
            "are unpacked, so get the archive from another place"
        )
