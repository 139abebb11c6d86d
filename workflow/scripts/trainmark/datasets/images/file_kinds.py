"""What an image file is by its first bytes, and its content without the metadata that a decoder may stumble over."""

import re
import zlib

READ = {
    "JPEG": rb"\xff\xd8",
    "PNG": rb"\x89PNG\r\n\x1a\n",
    "GIF": rb"GIF8[79]a",
    "BMP": rb"BM.{4}\0{4}",
    "WEBP": rb"RIFF.{4}WEBP",
    "TIFF": rb"II[*+]\0|MM\0[*+]",
}
"""Formats that may be opened, by their names in Pillow, with their first bytes. Some other readers start programs."""

NOT_READ = {
    "AVIF": rb".{4}ftyp.{0,32}avi[fs]",
    "HEIC": rb".{4}ftyp.{0,32}(hei|hev|mif1|msf1)",
    "JPEG 2000": rb"\0\0\0\x0cjP {2}|\xffO\xffQ",
    "JPEG XL": rb"\0\0\0\x0cJXL |\xff\x0a",
    "ICO": rb"\0\0[\1\2]\0",
    "PSD": rb"8BPS",
    "SVG": rb"\s*<(svg|!DOCTYPE svg|(\?xml|!--).*<svg)",
    "PDF": rb"%PDF-",
    "PostScript": rb"%!PS|\xc5\xd0\xd3\xc6",
    "OpenEXR": rb"v/1\x01",
    "Netpbm (PPM, PGM, PBM)": rb"P[1-7]\s",
}

NO_IMAGE = {
    "a web page, not an image: download the image": rb"(\xef\xbb\xbf)?\s*<(?i:!doctype html|html)",
    "a pointer of Git LFS, not the image: run `git lfs pull` where it lies": rb"version https://git-lfs",
    "a pointer of git-annex, not the image: run `git annex get` where it lies": rb"(\.\./)*(\.git)?/annex/objects/",
}

REASONS = {
    **{pattern: f"cut off or damaged (in its {name} header)" for name, pattern in READ.items()},
    **{pattern: f"{name}, a format that is not read: convert it to JPEG or PNG" for name, pattern in NOT_READ.items()},
    **{pattern: phrase for phrase, pattern in NO_IMAGE.items()},
}

FIRST_BYTES = 1024

JPEG_PIXELS = 0xDA
JPEG_METADATA = {*range(0xE0, 0xF0), 0xFE}
"""Second bytes of the markers of JPEG's pixels, and of its application segments and comments."""

JPEG_KEPT = {b"JFIF\0": 14, b"Adobe": 12, b"Exif\0\0": 0, b"http://ns.adobe.com/xap/1.0/\0": 0}
"""First bytes of the application segments that decide about colours or orientation, and their least length."""

PNG_ORIENTATION = (b"eXIf", b"iTXtXML:com.adobe.xmp\0\0")
"""First bytes of the ancillary chunks that may give the orientation."""


def why_not_opened(data: bytes) -> str:
    """Why a file's content is not opened as an image, as a phrase that names its format."""
    start = data[:FIRST_BYTES]
    return next((why for pattern, why in REASONS.items() if re.match(pattern, start, re.DOTALL)), "not an image")


def without_metadata(data: bytes) -> bytes:
    """A JPEG or PNG without what decides about no pixel: texts, profiles, thumbnails; other content as it is."""
    if re.match(READ["JPEG"], data):
        return _jpeg_without_metadata(data)
    return _png_without_metadata(data) if re.match(READ["PNG"], data) else data


def _jpeg_without_metadata(data: bytes) -> bytes:
    kept, place = [data[:2]], 2
    while place + 4 <= len(data) and data[place] == 0xFF and data[place + 1] != JPEG_PIXELS:
        end = place + 2 + int.from_bytes(data[place + 2 : place + 4])
        content = data[place + 4 : end]
        decides = any(content.startswith(name) and len(content) >= least for name, least in JPEG_KEPT.items())
        if decides or data[place + 1] not in JPEG_METADATA:
            kept.append(data[place:end])
        place = end
    return b"".join((*kept, data[place:]))


def _png_without_metadata(data: bytes) -> bytes:
    """The critical chunks, whose names begin with a capital, transparency, and undamaged chunks of orientation."""
    kept, place = [data[:8]], 8
    while place < len(data) and kept[-1][4:8] != b"IEND":
        chunk = data[place : place + 12 + int.from_bytes(data[place : place + 4])]
        content = chunk[4:-4]
        whole = zlib.crc32(content).to_bytes(4) == chunk[-4:]
        if content[:1].isupper() or content.startswith(b"tRNS") or (whole and content.startswith(PNG_ORIENTATION)):
            kept.append(chunk)
        place += len(chunk)
    return b"".join(kept)
