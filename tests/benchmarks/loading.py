"""How fast streams deliver batches to a network that costs nothing, beside bare decoding of the same files.

Run: make bench-loading IMAGES=<folder of photographs>; without IMAGES it generates JPEG files of 500x375. Windows of
224x224, mirrored at random, less the mean image, in float32. The ways are taken in turn, round after round, so that a
machine that slows down slows all of them; a ratio is that of two neighbours, and its median over rounds is printed with
its range. Every way reads the same files, from the page cache.
"""

import argparse
import gc
import os
import platform
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from image_pipeline import ratio, seconds
from PIL import Image

from trainmark.datasets.catalogue import store_file
from trainmark.datasets.images.decoding import load_stored
from trainmark.datasets.images.lists import CHUNK, prepared_paths
from trainmark.datasets.images.packed import pack
from trainmark.datasets.images.parallel import chunks, in_order
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import ImageLists
from trainmark.loading.streams import ImageStream, open_streams
from trainmark.loading.workers import ITERATORS
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.recipe import InputTransform

TRANSFORM = InputTransform(subtract_mean=True, crop=(224, 224), random_crop=True, random_flip=True)
WAYS = [("files", name) for name in ITERATORS] + [("mapped", "thread"), ("mapped", "process"), ("memory", "thread")]
"""(store, iterator) of each stream that is measured."""

JOBS = 2
EPOCHS, EPOCH_SAMPLES = 20, 320
"""Epochs over which memory is measured, and their images; the first epoch fills what is used again."""


def generate(folder: Path, number: int) -> None:
    """Write files like photographs: coarse noise enlarged to soft gradients, with fine noise on it."""
    generator = np.random.default_rng(0)
    for index in range(number):
        coarse = Image.fromarray(generator.integers(0, 256, (12, 16, 3), np.uint8)).resize(
            (500, 375), Image.Resampling.BICUBIC
        )
        noisy = np.asarray(coarse) + generator.normal(0, 8, (375, 500, 3))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / f"{index:04}.jpg", quality=90)


def bare_decode(paths: list[Path], threads: int) -> None:
    """Decoding and resizing, and nothing else."""

    def load(chunk: list[Path]) -> None:
        for path in chunk:
            load_stored(path)

    for _ in in_order(load, chunks(paths, CHUNK), threads):
        pass


class Epochs:
    """Epoch after epoch of a stream, for a network that costs nothing."""

    def __init__(self, stream: ImageStream, batch_size: int, samples: int) -> None:
        self._stream, self._batch_size, self._samples, self._epoch = stream, batch_size, samples, 0

    def __call__(self) -> None:
        """Take the batches of the next epoch."""
        self._epoch += 1
        feed = epoch_feed(self._samples, self._batch_size, (1, 1), self._epoch)
        for _ in self._stream.training_batches(feed):
            pass


def resident_mib() -> float:
    """Resident size of this process and of those that load images, without what they share, in MiB."""
    gc.collect()
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sizes = [process.memory_full_info() for process in family]
    return sum(getattr(size, "pss", size.rss) for size in sizes) / 2**20


def cpu_seconds() -> float:
    """CPU time of this process and of those that load images."""
    times = [process.cpu_times() for process in (psutil.Process(), *psutil.Process().children(recursive=True))]
    return sum(time.user + time.system for time in times)


Seconds = dict[str, list[float]]


def measure(ways: dict[str, Callable[[], object]], rounds: int) -> tuple[Seconds, Seconds]:
    """(wall time, CPU time) of each way, round after round, after one round that is not counted.

    CPU time tells the cost of a way where other work takes the CPUs, too.
    """
    wall: Seconds = {name: [] for name in ways}
    cpu: Seconds = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            before = cpu_seconds()
            taken = seconds(way)
            if number:
                wall[name].append(taken)
                cpu[name].append(max(cpu_seconds() - before, 0.01))  # counted in ticks of 10 ms
    return wall, cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, nargs="?", help="folder with JPEG files, at any depth")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--samples", type=int, default=1000, help="least number of images of an epoch")
    parser.add_argument("--files", type=int, default=200, help="number of files to generate without a folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if arguments.images is None:
            (folder / "generated").mkdir()
            generate(folder / "generated", arguments.files)
        run(arguments, arguments.images or folder / "generated", folder)


def run(arguments: argparse.Namespace, images: Path, folder: Path) -> None:
    """Measure every way on these images. folder: for a prepared dataset and its packed store."""
    found = sorted(path for path in images.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not found:
        raise SystemExit(f"{images} holds no .jpg or .jpeg file")
    entries = [(str(path.relative_to(images)), number % 2) for number, path in enumerate(found)]
    entries *= -(-arguments.samples // len(found))
    lists = ImageLists(images.absolute(), {"train": entries, "test": entries[:2]}, ["a", "b"])
    entry = {"title": "Benchmark", "format": "image_folder", "classes": 2}
    prepare(folder / "prepared", "benchmark", entry, lists, [], JOBS)
    paths = prepared_paths(folder / "prepared", "train")
    pack(paths, store_file(folder, "train"), JOBS)
    sizes = [Image.open(path).size for path in found]
    width, height = (statistics.median(side) for side in zip(*sizes, strict=True))
    print(f"{len(found)} files of {width:g}x{height:g} (medians), {len(paths)} images an epoch, batches of "
          f"{arguments.batch_size}, {arguments.rounds} rounds, {JOBS} jobs; {platform.machine()}, "
          f"{os.cpu_count()} cores")  # fmt: skip
    for way in WAYS:
        second, last = memory_over_epochs(open_way(folder, way), arguments.batch_size)
        print(f"resident memory, {', '.join(way)}: {second:.0f} MiB after 2 epochs, {last:.0f} MiB after {EPOCHS}")
    print_speeds(folder, paths, arguments)


def open_way(folder: Path, way: tuple[str, str]) -> ImageStream:
    """Open the training images in one of WAYS."""
    mean = np.random.default_rng(1).uniform(100, 150, (3, 256, 256))
    settings = {"store": way[0], "iterator": way[1], "jobs": JOBS}
    return open_streams(folder / "prepared", mean, TRANSFORM, "float32", settings, JOBS, folder, ["train"])["train"]


def memory_over_epochs(stream: ImageStream, batch_size: int) -> tuple[float, float]:
    """Resident MiB after the second and after the last of EPOCHS epochs; closes the stream."""
    epoch = Epochs(stream, batch_size, min(EPOCH_SAMPLES, len(stream.labels)))
    sizes = []
    for _ in range(EPOCHS):
        epoch()
        sizes.append(resident_mib())
    stream.close()
    return sizes[1], sizes[-1]


def print_speeds(folder: Path, paths: list[Path], arguments: argparse.Namespace) -> None:
    """Measure the ways in turn, and print images/s and ratios."""
    streams = {way: open_way(folder, way) for way in WAYS}
    bare = f"bare decode and resize, {JOBS} threads"
    ways: dict[str, Callable[[], object]] = {bare: lambda: bare_decode(paths, JOBS)}
    for way, stream in streams.items():
        ways[", ".join(way)] = Epochs(stream, arguments.batch_size, len(paths))
    wall, cpu = measure(ways, arguments.rounds)
    for name, times in wall.items():
        beside = ""
        if name != bare:
            beside = f", {ratio(wall[bare], times)} times the bare decode; by CPU time {ratio(cpu[bare], cpu[name])}"
        print(f"  {name}: {len(paths) / statistics.median(times):.0f} images/s{beside}")
    for stream in streams.values():
        stream.close()


if __name__ == "__main__":
    main()
