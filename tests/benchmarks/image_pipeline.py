"""How fast images are decoded, averaged and read from a packed store: ratios measured side by side, in one run.

Run: make bench-images IMAGES=<folder of full-size photographs>. The ways are taken in turn, round after round, so that
a machine that slows down slows all of them; a ratio is that of two neighbours, and its median over rounds is printed
with its range. Every way reads the same files, from the page cache.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image

from trainmark.datasets.catalogue import STORED_SIDE
from trainmark.datasets.images import mean as mean_image
from trainmark.datasets.images.lists import CHUNK
from trainmark.datasets.images.packed import IMAGE_SHAPE, open_store, pack
from trainmark.datasets.images.parallel import chunks, in_order

BATCH = 32
FILES_AT_LEAST = 600
"""A smaller folder is gone through several times: the last images of a round keep one worker waiting for the other."""


def pillow_mean(paths: list[Path]) -> np.ndarray:
    """The plain way, in one thread: open, convert, resize, add."""
    total = np.zeros(IMAGE_SHAPE)
    for path in paths:
        with Image.open(path) as image:
            stored = image.convert("RGB").resize((STORED_SIDE, STORED_SIDE), Image.Resampling.BILINEAR)
        total += np.asarray(stored)
    return total / len(paths)


def bare_decode(paths: list[Path], workers: int) -> None:
    """Decoding and nothing else, at full size, shared out as trainmark does it."""

    def decode(chunk: list[Path]) -> None:
        for path in chunk:
            simplejpeg.decode_jpeg(path.read_bytes(), colorspace="RGB", strict=False)

    for _ in in_order(decode, chunks(paths, CHUNK), workers):
        pass


def packed_batches(store: np.memmap, order: np.ndarray) -> None:
    """Shuffled batches out of the packed store."""
    for start in range(0, len(order), BATCH):
        np.asarray(store[order[start : start + BATCH]])


def decoded_batches(paths: list[Path], order: np.ndarray, workers: int) -> None:
    """The same batches, decoded and resized by as many workers."""
    for batch in chunks(order.tolist(), BATCH):
        np.stack(list(in_order(lambda number: mean_image.load_checked(paths[number]), batch, workers)))


def seconds(way: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def measure(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way, round after round, after one round that is not counted."""
    for way in ways.values():
        way()
    taken = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(seconds(way))
    return taken


def ratio(slow: list[float], fast: list[float]) -> str:
    """Median, least and greatest ratio of two ways' times, round by round."""
    ratios = [a / b for a, b in zip(slow, fast, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, help="folder with JPEG files, at any depth")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    found = sorted(path for path in arguments.images.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not found:
        parser.error(f"{arguments.images} holds no .jpg or .jpeg file")
    paths = found * -(-FILES_AT_LEAST // len(found))
    workers = arguments.workers
    sizes = [Image.open(path).size for path in found]
    width, height = (statistics.median(side) for side in zip(*sizes, strict=True))
    print(f"{len(found)} files of {width:g}x{height:g} (medians), {len(paths)} a round, {arguments.rounds} rounds, "
          f"{workers} workers; {platform.machine()}, {os.cpu_count()} cores")  # fmt: skip

    decoding = {
        "Pillow, one thread": lambda: pillow_mean(paths),
        f"bare decode, {workers} workers": lambda: bare_decode(paths, workers),
        f"mean image, {workers} workers": lambda: mean_image.mean_of_files(paths, workers),
    }
    taken = measure(decoding, arguments.rounds)
    for name, times in taken.items():
        print(f"  {name}: {len(paths) / statistics.median(times):.0f} images/s")
    pillow, bare, ours = taken.values()
    print(f"mean image against Pillow's plain loop: {ratio(pillow, ours)} times as fast")
    print(f"mean image against the bare decode: {ratio(bare, ours)} of its speed")

    reference, means = pillow_mean(found), [mean_image.mean_of_files(found, count) for count in (1, 2, 4)]
    print(f"largest difference from Pillow's mean: {np.abs(means[0] - reference).max():.3f} grey levels")
    same = all(np.array_equal(means[0], mean) for mean in means[1:])
    print(f"equal to the last bit with 1, 2 and 4 workers: {'yes' if same else 'NO'}")

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "packed.npy"
        pack(paths, file, workers)
        store = open_store(file)
        order = np.random.default_rng(1).permutation(len(paths))
        batches = {
            "decoded": lambda: decoded_batches(paths, order, workers),
            "packed": lambda: packed_batches(store, order),
        }
        taken = measure(batches, arguments.rounds)
    print(f"  shuffled batches of {BATCH}, decoded by {workers} workers: "
          f"{len(paths) / statistics.median(taken['decoded']):.0f} images/s; packed, one thread: "
          f"{len(paths) / statistics.median(taken['packed']):.0f} images/s")  # fmt: skip
    print(f"packed store against decoding: {ratio(taken['decoded'], taken['packed'])} times as fast")


if __name__ == "__main__":
    main()
