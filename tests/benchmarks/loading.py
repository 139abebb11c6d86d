"""How fast streams deliver batches to a network that costs nothing, beside bare decoding of the same files.

Run: make bench-loading IMAGES=<folder of photographs>; without IMAGES it generates JPEG files of 500x375. Windows of
224x224, mirrored at random, less the mean image, in float32. The ways are taken in turn, round after round. Every way
reads the same files, from the page cache.
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
from measuring import in_turn, parser_of, ratio, seconds_of
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
BARE = f"bare decode and resize, {JOBS} threads"
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


def bare_decode(paths: list[Path]) -> None:
    """Decoding and resizing, and nothing else."""

    def load(chunk: list[Path]) -> None:
        for path in chunk:
            load_stored(path)

    for _ in in_order(load, chunks(paths, CHUNK), JOBS):
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


def family() -> list[psutil.Process]:
    """This process and those that load images."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def resident_mib() -> float:
    """Resident size of the family, without what it shares."""
    gc.collect()
    sizes = [process.memory_full_info() for process in family()]
    return sum(getattr(size, "pss", size.rss) for size in sizes) / 2**20


def times_of(work: Callable[[], object]) -> tuple[float, float]:
    """(wall time, CPU time of the family). CPU time tells the cost where other work takes the CPUs, too."""
    cpu_seconds = lambda: sum(sum(process.cpu_times()[:2]) for process in family())  # noqa: E731
    before, wall_seconds = cpu_seconds(), seconds_of(work)
    return wall_seconds, max(cpu_seconds() - before, 0.01)  # counted in ticks of 10 ms


def open_way(folder: Path, way: tuple[str, str]) -> ImageStream:
    """Open the training images in one of WAYS."""
    mean = np.random.default_rng(1).uniform(100, 150, (3, 256, 256))
    settings = {"store": way[0], "iterator": way[1], "jobs": JOBS}
    return open_streams(folder / "prepared", mean, TRANSFORM, "float32", settings, JOBS, folder, ["train"])["train"]


def print_memory(folder: Path, batch_size: int) -> None:
    """Print the resident MiB of each way after the second and after the last of EPOCHS epochs."""
    for way in WAYS:
        stream = open_way(folder, way)
        epoch, sizes = Epochs(stream, batch_size, min(EPOCH_SAMPLES, len(stream.labels))), []
        for _ in range(EPOCHS):
            epoch()
            sizes.append(resident_mib())
        stream.close()
        print(
            f"resident memory, {', '.join(way)}: {sizes[1]:.0f} MiB after 2 epochs, {sizes[-1]:.0f} MiB after {EPOCHS}"
        )


def print_speeds(folder: Path, paths: list[Path], batch_size: int, rounds: int) -> None:
    """Measure the ways in turn, and print images/s and ratios."""
    streams = {", ".join(way): open_way(folder, way) for way in WAYS}
    ways = {BARE: lambda: bare_decode(paths)}
    ways |= {name: Epochs(stream, batch_size, len(paths)) for name, stream in streams.items()}
    for work in ways.values():
        work()
    times = in_turn({name: lambda work=work: times_of(work) for name, work in ways.items()}, rounds)
    bare_wall, bare_cpu = zip(*times.pop(BARE), strict=True)
    print(f"  {BARE}: {len(paths) / statistics.median(bare_wall):.0f} images/s")
    for name, of_rounds in times.items():
        wall, cpu = zip(*of_rounds, strict=True)
        print(
            f"  {name}: {len(paths) / statistics.median(wall):.0f} images/s, {ratio(bare_wall, wall)} times the bare "
            f"decode; by CPU time {ratio(bare_cpu, cpu)}"
        )
    for stream in streams.values():
        stream.close()


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
    width, height = (statistics.median(side) for side in zip(*(Image.open(path).size for path in found), strict=True))
    print(f"{len(found)} files of {width:g}x{height:g} (medians), {len(paths)} images an epoch, batches of "
          f"{arguments.batch_size}, {arguments.rounds} rounds, {JOBS} jobs; {platform.machine()}, "
          f"{os.cpu_count()} cores")  # fmt: skip
    print_memory(folder, arguments.batch_size)
    print_speeds(folder, paths, arguments.batch_size, arguments.rounds)


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__, rounds=9, batch_size=32, samples=1000, files=200)
    parser.add_argument("images", type=Path, nargs="?", help="folder with JPEG files, at any depth")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if arguments.images is None:
            (folder / "generated").mkdir()
            generate(folder / "generated", arguments.files)
        run(arguments, arguments.images or folder / "generated", folder)


if __name__ == "__main__":
    main()
