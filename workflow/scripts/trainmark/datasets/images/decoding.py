"""One image file, however it was written, as upright RGB at the stored size.

Every image that is trained on, averaged or packed comes through `load_stored`, so that all of them are the same pixels.
"""

import io
import stat
import warnings
from functools import cache, lru_cache, reduce
from math import ceil
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import simplejpeg
from PIL import Image, UnidentifiedImageError

from trainmark.datasets.catalogue import STORED_SIDE

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF")
"""What may be opened, told by content and not by name; Pillow's other readers include ones that start programs."""

LARGEST_FILE_BYTES = 1 << 28
"""A file beyond this is no photograph; reading it whole would cost every worker as much memory."""

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
"""What turns an image upright, by EXIF's tag 0x0112; 1, and what EXIF does not know, is upright.

Pillow's exif_transpose has the same table; it also writes the other tags anew, and fails where one of them is damaged.
"""

WHITE = (255, 255, 255, 255)

LARGEST_BLURRED_SCALE = 4
"""Beyond it the blur would have more than eleven taps."""


class UnreadableImage(Exception):
    """An image file that can't be decoded; the text is the reason, as a phrase."""


def load_stored(path: Path) -> np.ndarray:
    """The image in a file, uint8 (STORED_SIDE, STORED_SIDE, 3), RGB. Raises UnreadableImage."""
    return decode_stored(read_file(path))


def read_file(path: Path) -> bytes:
    """The file's content. Raises UnreadableImage where there is none or more than a photograph has."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe or a device may never end
            raise UnreadableImage("not a regular file")
        if status.st_size > LARGEST_FILE_BYTES:
            raise UnreadableImage(f"larger than {LARGEST_FILE_BYTES >> 20} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableImage(f"can't be read ({error.strerror})") from error
    if not data:
        raise UnreadableImage("empty file")
    return data


def decode_stored(data: bytes) -> np.ndarray:
    """The image in a file's content, resized to uint8 (STORED_SIDE, STORED_SIDE, 3), RGB. Raises UnreadableImage."""
    _ignore_warnings()
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            pixels = _decode_jpeg(data, image)
            return resize(_decode_any(image) if pixels is None else pixels)
    except UnreadableImage:
        raise
    except UnidentifiedImageError as error:
        raise UnreadableImage("not an image") from error
    except Image.DecompressionBombError as error:
        raise UnreadableImage(f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels") from error
    except Exception as error:  # decoders raise whatever they come upon: SyntaxError, struct.error, KeyError, ...
        reason = (str(error).splitlines() or [""])[0]
        raise UnreadableImage(f"cut off or damaged ({type(error).__name__}: {reason})") from error


@cache
def _ignore_warnings() -> None:
    """Pillow's: what matters of them is raised; the rest would flood the log."""
    warnings.filterwarnings("ignore", module=r"PIL\.")


def _decode_jpeg(data: bytes, image: Image.Image) -> np.ndarray | None:
    """The plain case, fast: an upright grey or colour JPEG. None where Pillow has to judge.

    A large one is scaled down while it is decoded (in steps of 1/8, never below the stored size).
    """
    if image.format != "JPEG" or image.mode not in ("RGB", "L") or _turn(image) is not None:
        return None
    try:
        return np.asarray(
            simplejpeg.decode_jpeg(data, colorspace="RGB", min_height=STORED_SIDE, min_width=STORED_SIDE, min_factor=2)
        )
    except ValueError:  # libjpeg's warnings, too: Pillow tells what is harmless from what is cut off
        return None


def _decode_any(image: Image.Image) -> np.ndarray:
    """Any other image, uint8 (height, width, 3): turned upright, on white where it is transparent, 16 bits to 8."""
    if image.mode in ("I", "F"):
        raise UnreadableImage("32-bit samples, of which nobody knows what is white")
    if (turn := _turn(image)) is not None:
        image = image.transpose(turn)
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image).astype(np.uint32) * 255 // 65535).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, WHITE), image)
    return np.asarray(image.convert("RGB"))


def _turn(image: Image.Image) -> Image.Transpose | None:
    """What turns the image upright; None where it is."""
    return UPRIGHT.get(image.getexif().get(ORIENTATION, 1))


def resize(pixels: np.ndarray, side: int = STORED_SIDE) -> np.ndarray:
    """uint8 (height, width, 3) resized to (side, side, 3), antialiased. May overwrite `pixels`.

    A bilinear filter that is as wide as the step between output pixels (Pillow's BILINEAR) has, in input pixels, the
    variance scale**2 / 6. Up to LARGEST_BLURRED_SCALE it is done as a blur with the variance (scale**2 - 1) / 6 before
    an interpolation between neighbours, whose own is 1/6: three times faster, and in the mean over photographs within
    one grey level of Pillow's. Beyond that Pillow does it.
    """
    scales = [length / side for length in pixels.shape[:2]]
    if max(scales) > LARGEST_BLURRED_SCALE:
        return np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BILINEAR))
    if max(scales) > 1:
        rows, columns = (_blur_taps(scale) for scale in scales)
        target = pixels if pixels.flags.writeable else None  # in place: half the memory traffic
        pixels = _opencv().sepFilter2D(pixels, -1, columns, rows, dst=target, borderType=cv2.BORDER_REFLECT)
    # _EXACT rounds, and the same on every processor; INTER_LINEAR makes images darker by an eighth of a grey level.
    return np.asarray(_opencv().resize(pixels, (side, side), interpolation=cv2.INTER_LINEAR_EXACT))


@cache
def _opencv() -> ModuleType:
    """OpenCV without threads of its own: images are shared out to workers, with which those would only compete."""
    cv2.setNumThreads(1)
    return cv2


@lru_cache(4096)
def _blur_taps(scale: float) -> np.ndarray:
    """Three taps with the variance that is wanted, or as many such blurs in one as keep each at 1/4, 1/2, 1/4."""
    outer = max(0.0, (scale**2 - 1) / 12)
    times = max(1, ceil(outer * 4))
    three = np.array([outer / times, 1 - 2 * outer / times, outer / times])
    return reduce(np.convolve, [three] * times).astype(np.float32)
