"""Decode an image file of any common kind into upright RGB at the stored size.

Every image that is trained on, averaged or packed is loaded by `load_stored`, so that all of them have the same pixels.
"""

import io
import stat
import warnings
from functools import cache, lru_cache, reduce
from math import ceil
from pathlib import Path
from types import ModuleType

import numpy as np
import simplejpeg
from PIL import Image, UnidentifiedImageError

from trainmark.datasets.catalogue import STORED_SIDE
from trainmark.errors import expect_damage

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF")
"""Formats that may be opened, by their names in Pillow. Some of its other readers start programs."""

LARGEST_FILE_BYTES = 1 << 28
"""Largest file that is read. No photograph is larger, and every worker would need that much memory."""

ORIENTATION = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Operations that turn an image upright, by EXIF's tag 0x0112; for 1 and for unknown values the image is upright.

Pillow's exif_transpose has the same table, but it also rewrites the other tags and fails if one of them is damaged.
"""

WHITE = (255, 255, 255, 255)

LARGEST_BLURRED_SCALE = 4
"""Largest scale that is done by a blur; for larger ones the blur would have more than eleven taps."""


class UnreadableImage(Exception):
    """An image file that cannot be decoded; the text is the reason, as a phrase."""


def load_stored(path: Path) -> np.ndarray:
    """The image in a file, uint8 (STORED_SIDE, STORED_SIDE, 3), RGB. Raises UnreadableImage."""
    return decode_stored(read_file(path))


def read_file(path: Path) -> bytes:
    """Content of the file. Raises UnreadableImage if it is missing, empty or too large, DataError for ADVICE."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe or a device may never end
            raise UnreadableImage("not a regular file")
        if status.st_size > LARGEST_FILE_BYTES:
            raise UnreadableImage(f"larger than {LARGEST_FILE_BYTES >> 20} MiB")
        data = path.read_bytes()
    except OSError as error:
        expect_damage(error, path)  # such an image is not left out: all images could have the same error
        raise UnreadableImage(f"can't be read ({error.strerror})") from error
    if not data:
        raise UnreadableImage("empty file")
    return data


def decode_stored(data: bytes) -> np.ndarray:
    """The image in a file's content, resized to uint8 (STORED_SIDE, STORED_SIDE, 3), RGB. Raises UnreadableImage."""
    _opencv()  # before `try`: without OpenCV no image is damaged
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            pixels = _decode_jpeg(data, image)
            return resize(_decode_any(image) if pixels is None else pixels)
    except UnreadableImage:
        raise
    except UnidentifiedImageError as error:
        raise UnreadableImage(f"not an image ({', '.join(FORMATS)}): it begins with {data[:40]!r}") from error
    except Image.DecompressionBombError as error:
        raise UnreadableImage(f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels") from error
    except Exception as error:  # decoders raise many types: SyntaxError, struct.error, KeyError, ...
        reason = (str(error).splitlines() or [""])[0]
        raise UnreadableImage(f"cut off or damaged ({type(error).__name__}: {reason})") from error


def _decode_jpeg(data: bytes, image: Image.Image) -> np.ndarray | None:
    """Decode the usual case, an upright grey or colour JPEG, fast. Returns None if Pillow has to decode the image.

    A large image is scaled down while it is decoded (in steps of 1/8, never below the stored size).
    """
    if image.format != "JPEG" or image.mode not in ("RGB", "L") or _turn(image) is not None:
        return None
    try:
        return np.asarray(
            simplejpeg.decode_jpeg(data, colorspace="RGB", min_height=STORED_SIDE, min_width=STORED_SIDE, min_factor=2)
        )
    except ValueError:  # also for libjpeg's warnings: Pillow tells harmless ones from images that are cut off
        return None


def _decode_any(image: Image.Image) -> np.ndarray:
    """Decode any other image, uint8 (height, width, 3): turned upright, transparency on white, 16 bits reduced to 8."""
    if image.mode in ("I", "F"):
        raise UnreadableImage("32-bit samples, whose white level is unknown")
    image.load()  # Pillow's getexif would do it, in `_turn`, where errors are ignored
    if (turn := _turn(image)) is not None:
        image = image.transpose(turn)
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image).astype(np.uint32) * 255 // 65535).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, WHITE), image)
    return np.asarray(image.convert("RGB"))


def _turn(image: Image.Image) -> Image.Transpose | None:
    """Operation that turns the image upright; None if it is upright, or if its EXIF is damaged."""
    try:
        return UPRIGHT.get(image.getexif().get(ORIENTATION, 1))
    except Exception:  # SyntaxError, struct.error, ...
        return None


def resize(pixels: np.ndarray, side: int = STORED_SIDE) -> np.ndarray:
    """uint8 (height, width, 3) resized to (side, side, 3), antialiased. May overwrite `pixels`.

    Pillow's BILINEAR is a filter as wide as the step between output pixels; in input pixels its variance is
    scale**2 / 6. Up to LARGEST_BLURRED_SCALE it is replaced by a blur of variance (scale**2 - 1) / 6 and an
    interpolation between neighbours, whose variance is 1/6. This is three times faster and, in the mean over
    photographs, within one grey level of Pillow. For larger scales Pillow is used.
    """
    scales = [length / side for length in pixels.shape[:2]]
    if max(scales) > LARGEST_BLURRED_SCALE:
        return np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BILINEAR))
    opencv = _opencv()
    if max(scales) > 1:
        rows, columns = (_blur_taps(scale) for scale in scales)
        target = pixels if pixels.flags.writeable else None  # in place: half the memory traffic
        pixels = opencv.sepFilter2D(pixels, -1, columns, rows, dst=target, borderType=opencv.BORDER_REFLECT)
    # _EXACT rounds, and gives the same on every processor; INTER_LINEAR darkens images by an eighth of a grey level.
    return np.asarray(opencv.resize(pixels, (side, side), interpolation=opencv.INTER_LINEAR_EXACT))


def mirror(pixels: np.ndarray) -> np.ndarray:
    """uint8 (height, width, 3) mirrored left to right. numpy takes 20 times as long: its loops are 3 bytes."""
    return np.asarray(_opencv().flip(pixels, 1))


@cache
def _opencv() -> ModuleType:
    """OpenCV without its own threads, which would compete with the workers. Datasets of arrays do without OpenCV.

    Warnings of Pillow are silenced: those that matter are raised as errors, the rest would flood the log.
    """
    import cv2

    warnings.filterwarnings("ignore", module=r"PIL\.")
    cv2.setNumThreads(1)
    return cv2


@lru_cache(4096)
def _blur_taps(scale: float) -> np.ndarray:
    """Taps of a blur for a scale: three taps, or several such blurs convolved, so that none exceeds 1/4, 1/2, 1/4."""
    outer = max(0.0, (scale**2 - 1) / 12)
    times = max(1, ceil(outer * 4))
    three = np.array([outer / times, 1 - 2 * outer / times, outer / times])
    return reduce(np.convolve, [three] * times).astype(np.float32)
