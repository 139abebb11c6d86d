"""Image files as they are met: each comes out as upright RGB pixels, or says in a phrase why it can't."""

import io
import os
import resource
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageOps

from trainmark.datasets.catalogue import STORED_SIDE
from trainmark.datasets.images import decoding as images
from trainmark.datasets.images.decoding import (
    LARGEST_FILE_BYTES,
    ORIENTATION,
    UnreadableImage,
    decode_stored,
    load_stored,
    resize,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # as the module does outside of tests

STORED_SHAPE = (STORED_SIDE, STORED_SIDE, 3)
SMOOTH = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
RED, WHITE = (254, 0, 0), (255, 255, 255)  # JPEG's red is 254
RGB_LEVELS = 5
"""How far a flat colour may come out from what was written: JPEG's and CMYK's rounding."""


def picture(width: int, height: int) -> Image.Image:
    """A smooth colour picture, as photographs mostly are."""
    return Image.fromarray(SMOOTH).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, form: str, **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def jpeg(width: int = 300, height: int = 280, **options) -> bytes:
    return encoded(picture(width, height), "JPEG", **{"quality": 95, **options})


def exif_of(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


def flat(mode: str, colour, form: str, **options) -> bytes:
    return encoded(Image.new(mode, (60, 50), colour), form, **options)


def chunk(kind: bytes, content: bytes, crc_error: int = 0) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content) ^ crc_error)


def with_chunks(*chunks: bytes, after: int = 33, data: bytes = b"") -> bytes:
    """A PNG with more chunks behind its header, or elsewhere."""
    data = data or encoded(picture(300, 280), "PNG")
    return data[:after] + b"".join(chunks) + data[after:]


def with_segment(data: bytes, marker: int, content: bytes) -> bytes:
    """A JPEG with a segment put behind its first two bytes."""
    return data[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content + data[2:]


def png(width: int, height: int, depth: int, colour_type: int, data: bytes) -> bytes:
    """A PNG by hand: what it announces need not be there."""
    header = struct.pack(">2I5B", width, height, depth, colour_type, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def with_exif(data: bytes, tiff: bytes) -> bytes:
    return with_segment(data, 0xE1, b"Exif\0\0" + tiff)


def exif_entry(kind: int, count: int, value: bytes, tag: int = ORIENTATION) -> bytes:
    return b"II*\0\x08\0\0\0\x01\0" + struct.pack("<2HI", tag, kind, count) + value.ljust(4, b"\0") + bytes(4)


def with_flipped_bits(data: bytes) -> bytes:
    """A file with damage in the middle of its pixels."""
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0x01 for byte in data[middle : middle + 40]) + data[middle + 40 :]


def palette_with_a_hole() -> bytes:
    image = Image.new("P", (60, 50), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    return encoded(image, "PNG", transparency=1)


def animated() -> bytes:
    frames = [Image.new("RGB", (60, 50), colour) for colour in ((254, 0, 0), (0, 0, 254))]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])


def several_pictures() -> bytes:
    """What phones write: a JPEG with others behind it, and a table of them."""
    return encoded(picture(300, 280), "MPO", quality=95, save_all=True, append_images=[Image.new("RGB", (60, 50), RED)])


def inverted_cmyk() -> bytes:
    """What Photoshop writes, and Pillow too: every ink inverted, and Adobe's marker that says so."""
    data = flat("CMYK", (0, 255, 255, 0), "JPEG", quality=100)
    assert b"Adobe" in data
    return data


def unmarked_cmyk() -> bytes:
    """The same without the marker, as some programs leave it: inverted it is nevertheless."""
    data = inverted_cmyk()
    place = data.index(b"Adobe") - 4
    length = struct.unpack_from(">H", data, place + 2)[0]
    return data[:place] + data[place + 2 + length :]


def ycck() -> bytes:
    """What most CMYK photographs are: inverted inks, three of them as luminance and colour."""
    inks = np.full((50, 60, 4), (255, 0, 0, 255), np.uint8)
    return simplejpeg.encode_jpeg(inks, quality=100, colorspace="CMYK", colorsubsampling="444")


def pixel_error(data: bytes, reference: Image.Image) -> np.ndarray:
    """How far the stored pixels of a file are from the picture resized by Pillow's antialiased filter."""
    expected = reference.convert("RGB").resize((STORED_SIDE, STORED_SIDE), Image.Resampling.BILINEAR)
    return np.abs(decode_stored(data).astype(int) - np.asarray(expected))


PIXELS = "pixels of the smooth picture"
CUT_OFF, NO_IMAGE = "cut off or damaged (", "not an image (JPEG, PNG, GIF, BMP, WEBP, TIFF): it begins with b'"

ODD_FILES = {
    "colour JPEG": (jpeg(), PIXELS),
    "progressive JPEG": (jpeg(progressive=True), PIXELS),
    "JPEG of RGB, not YCbCr": (jpeg(keep_rgb=True), PIXELS),
    "JPEG with garbage behind it": (jpeg() + b"garbage" * 999, PIXELS),
    "JPEG with rubbish for EXIF": (with_exif(jpeg(), b"rubbish"), PIXELS),
    "JPEG with EXIF that points nowhere": (with_exif(jpeg(), b"II*\0\xff\xff\xff\xff"), PIXELS),
    "JPEG with orientation 99": (with_exif(jpeg(), exif_entry(3, 1, b"\x63\0")), PIXELS),
    "JPEG with a text for orientation": (with_exif(jpeg(), exif_entry(2, 4, b"six\0")), PIXELS),
    "JPEG with bytes for a comment": (with_segment(jpeg(), 0xFE, b"\xff\xfe\0"), PIXELS),
    "MPO, several JPEGs in one": (several_pictures(), PIXELS),
    "greyscale JPEG": (flat("L", 77, "JPEG"), (77, 77, 77)),
    "CMYK JPEG": (inverted_cmyk(), RED),
    "CMYK JPEG without Adobe's marker": (unmarked_cmyk(), RED),
    "CMYK JPEG as YCCK": (ycck(), RED),
    "RGB PNG": (encoded(picture(300, 280), "PNG"), PIXELS),
    "PNG with rubbish for EXIF": (with_chunks(chunk(b"eXIf", b"rubbish")), PIXELS),
    "PNG, wrong checksum of its size": (with_chunks(chunk(b"IHDR", png(9, 9, 8, 2, b"")[16:29], 1), after=8), NO_IMAGE),
    "PNG with a transparent colour cut off": (with_chunks(chunk(b"tRNS", b"x")), CUT_OFF),
    "RGBA PNG, half to see": (flat("RGBA", (0, 0, 0, 128), "PNG"), (127, 127, 127)),
    "RGB PNG with a transparent colour": (flat("RGB", (1, 2, 3), "PNG", transparency=(1, 2, 3)), WHITE),
    "palette PNG with a transparent colour": (palette_with_a_hole(), WHITE),
    "black and white PNG": (flat("1", 1, "PNG"), WHITE),
    "16-bit colour PNG": (png(2, 1, 16, 2, b"\0" + b"\xff\xff\x80\0\0\0" * 2), (255, 128, 0)),
    "16-bit grey TIFF": (encoded(Image.fromarray(np.full((5, 6), 32768, np.uint16)), "TIFF"), (127, 127, 127)),
    "RGB TIFF": (encoded(picture(300, 280), "TIFF"), PIXELS),
    "animated GIF": (animated(), RED),
    "GIF with bytes for a comment": (animated().replace(b"!", b"!\xfe\2\xff\xfe\0!", 1), RED),
    "WEBP": (encoded(picture(300, 280), "WEBP", lossless=True), PIXELS),
    "WEBP with rubbish for EXIF": (encoded(picture(300, 280), "WEBP", lossless=True, exif=b"rubbish"), PIXELS),
    "BMP": (encoded(picture(300, 280), "BMP"), PIXELS),
    "1 x 1": (encoded(Image.new("RGB", (1, 1), RED), "PNG"), RED),
    "1 x 3000": (encoded(Image.new("RGB", (1, 3000), RED), "JPEG", quality=100, subsampling=0), RED),
    "3000 x 1": (encoded(Image.new("RGB", (3000, 1), RED), "JPEG", quality=100, subsampling=0), RED),
    "nothing": (b"", "empty file"),
    "random bytes": (np.random.default_rng(1).bytes(5000), NO_IMAGE),
    "text": (b"this was to be a photograph\n", NO_IMAGE),
    "web page": (b"\xef\xbb\xbf\n<!DOCTYPE html><html><svg>404</svg></html>", NO_IMAGE),
    "HEIC": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", NO_IMAGE),
    "PNG of 0 x 0": (png(0, 0, 8, 2, b"\0"), NO_IMAGE),
    "PNG without pixels": (png(300, 280, 8, 2, b""), CUT_OFF),
    "PNG, cut off": (encoded(picture(300, 280), "PNG")[:20_000], CUT_OFF),
    "PNG with its pixels under another name": (encoded(picture(9, 9), "PNG").replace(b"IDAT", b"IDAU"), NO_IMAGE),
    "PNG with damaged pixels": (with_flipped_bits(encoded(picture(300, 280), "PNG")), CUT_OFF),
    "GIF, cut off": (animated()[:40], CUT_OFF),
    "WEBP, cut off": (encoded(picture(300, 280), "WEBP")[:3000], CUT_OFF),
    "BMP, cut off": (encoded(picture(300, 280), "BMP")[:3000], CUT_OFF),
    "TIFF, cut off": (encoded(picture(300, 280), "TIFF")[:3000], CUT_OFF),
    "TIFF of floats": (encoded(Image.new("F", (9, 9), 0.5), "TIFF"), "32-bit samples, whose white level is"),
}


@pytest.mark.parametrize(("data", "outcome"), ODD_FILES.values(), ids=ODD_FILES)
def test_an_odd_file_gives_its_pixels_or_its_reason(data, outcome, tmp_path, capfd):
    path = tmp_path / "misnamed.JPEG"
    path.write_bytes(data)
    if outcome == PIXELS:
        assert load_stored(path).shape == STORED_SHAPE
        assert pixel_error(data, picture(300, 280)).mean() < 1
    elif isinstance(outcome, tuple):
        assert np.abs(load_stored(path).astype(int) - outcome).max() <= RGB_LEVELS
    else:
        assert reason_of(path).startswith(outcome)
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == data
    assert capfd.readouterr() == ("", "")


def reason_of(path: Path) -> str:
    with pytest.raises(UnreadableImage) as caught:
        load_stored(path)
    reason = str(caught.value)
    assert "\n" not in reason and str(path) not in reason and "0x" not in reason
    return reason


def test_sixteen_bits_are_scaled_and_not_clipped_and_turned_too():
    levels = np.arange(0, 65536, dtype=np.uint16).reshape(STORED_SIDE, STORED_SIDE)
    stored = decode_stored(encoded(Image.fromarray(levels), "PNG"))
    assert np.array_equal(stored[..., 0], (levels / 257).astype(np.uint8))
    assert np.array_equal(stored[..., 0], stored[..., 2])
    turned = decode_stored(encoded(Image.fromarray(levels), "PNG", exif=exif_of(6)))
    assert np.array_equal(turned, np.rot90(stored, -1))


def test_what_can_not_be_opened_as_a_file_says_so(tmp_path):
    (tmp_path / "folder.jpg").mkdir()
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "nowhere.jpg").symlink_to(tmp_path / "gone")
    assert reason_of(tmp_path / "folder.jpg") == "not a regular file"
    assert reason_of(tmp_path / "pipe.jpg") == "not a regular file"
    assert reason_of(tmp_path / "nowhere.jpg") == "can't be read (No such file or directory)"
    with open(tmp_path / "large.jpg", "wb") as stream:
        stream.truncate(LARGEST_FILE_BYTES + 1)
    assert reason_of(tmp_path / "large.jpg") == "larger than 256 MiB"


def test_no_damage_raises_anything_but_a_reason():
    generator = np.random.default_rng(2)
    wholes = [
        jpeg(90, 70, exif=exif_of(6)),
        *(encoded(picture(90, 70), form) for form in ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF")),
    ]
    outcomes = []
    for number in range(350):
        data = bytearray(wholes[number % len(wholes)])
        for place in generator.integers(0, min(len(data), 400), generator.integers(1, 6)):
            data[place] = generator.integers(256)
        try:
            outcomes.append(decode_stored(bytes(data)).shape == STORED_SHAPE)
        except UnreadableImage as error:
            assert str(error)
            outcomes.append(False)
    assert 50 < sum(outcomes) < 300, "some are damaged, and some still decode"


def test_a_bomb_costs_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnreadableImage, match=r"^more than 178,956,970 pixels$"):
        decode_stored(png(60_000, 60_000, 8, 2, bytes(1 << 20)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_comes_out_upright(orientation, form):
    quality = {"JPEG": {"quality": 95}, "WEBP": {"lossless": True}, "PNG": {}}
    data = encoded(picture(300, 200), form, exif=exif_of(orientation), **quality[form])
    with Image.open(io.BytesIO(data)) as image:
        upright = ImageOps.exif_transpose(image)
    error = pixel_error(data, upright)
    assert error.mean() < 0.5 and error.max() <= 2


SIZES = [
    (100, 120), (256, 256), (400, 200), (300, 600), (512, 512), (333, 500), (257, 511), (1200, 800), (400, 1), (1, 300),
]  # fmt: skip
"""(width, height): scales below 1, up to 2, above 2, and one of each."""


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_pixels_are_those_of_the_antialiased_filter_also_out_of_a_jpeg(width, height):
    pixels = np.asarray(picture(width, height))
    error = np.abs(resize(pixels).astype(int) - resized_by_pillow(pixels))
    assert error.mean() < 0.2 and error.max() <= 2  # measured: 0.195 and 2
    data = jpeg(width, height)
    error = pixel_error(data, Image.open(io.BytesIO(data)))
    assert error.mean() < 0.5 and error.max() <= 3  # measured: 0.416 and 3, where a JPEG is scaled while decoded


def resized_by_pillow(pixels: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels).resize((STORED_SIDE, STORED_SIDE), Image.Resampling.BILINEAR))


@pytest.mark.parametrize(("width", "height"), [(256, 256), (100, 120), (510, 500)])
@pytest.mark.parametrize(("mode", "subsampling"), [("RGB", 0), ("RGB", 2), ("L", 2)])
def test_both_ways_of_decoding_a_jpeg_give_the_same_pixels(width, height, mode, subsampling, monkeypatch):
    data = encoded(picture(width, height).convert(mode), "JPEG", quality=90, subsampling=subsampling)
    fast = decode_stored(data)
    asked = []
    monkeypatch.setattr(images, "_decode_jpeg", lambda *arguments: asked.append(arguments))
    assert np.array_equal(decode_stored(data), fast)
    assert len(asked) == 1


def test_a_large_jpeg_is_scaled_while_it_is_decoded_and_never_below_the_stored_size(monkeypatch):
    seen = []
    monkeypatch.setattr(images, "resize", lambda pixels: seen.append(pixels.shape))
    for width, height in [(510, 600), (512, 512), (1024, 600), (2400, 1600), (300, 4000)]:
        decode_stored(jpeg(width, height))
    assert seen == [(600, 510, 3), (256, 256, 3), (300, 512, 3), (400, 600, 3), (4000, 300, 3)]
