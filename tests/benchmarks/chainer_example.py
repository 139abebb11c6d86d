"""Images per second of Chainer's own ImageNet example and of the same training by trainmark, in turn.

Run: make bench-imagenet EXAMPLE=<examples/imagenet of Chainer 7.8.1> IMAGES=<folder of class folders>. The
example is run as it is, and the moments of its updates are noted. Both train the same photographs, scaled to 256x256 as
the example wants them, with the same batch size and number of loader processes, on all CPUs, for two epochs. The second
one is compared: the example's last update of the first epoch begins it, and trainmark's record has it.
"""

import json
import os
import platform
import runpy
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import count
from pathlib import Path

from harness import REPOSITORY, experiment_of, keyed, record_file, write_config
from measuring import in_turn, parser_of, ratio, run_workflow
from PIL import Image

from trainmark.datasets.images.decoding import load_stored
from trainmark.records.record import read_record

ARCHITECTURE, ROUNDS, BATCH_SIZE, PER_CLASS, JOBS = "nin", 5, 32, 16, os.cpu_count()
"""PER_CLASS: training photographs of each class. JOBS: loader processes."""

NOTED = "TRAINMARK_NOTED_UPDATES"
"""Environment variable with the file for the moments of the example's updates."""


def note_updates(example: Path) -> None:
    """Run the example in this process, with the rest of the command line, and note when each update has ended."""
    from chainer.training.updaters import StandardUpdater  # here: chainer_compat has to come before

    moments = []
    update = StandardUpdater.update

    def noted(updater: StandardUpdater) -> None:
        update(updater)
        moments.append(time.monotonic())
        Path(os.environ[NOTED]).write_text(json.dumps(moments))

    StandardUpdater.update = noted
    sys.path.insert(0, str(example))
    runpy.run_path(str(example / "train_imagenet.py"), run_name="__main__")


def scaled_photographs(images: Path, folder: Path) -> dict[str, int]:
    """Write photographs of each class as 256x256 JPEG files, lists for the example, and return the samples by split."""
    samples = {}
    classes = sorted(path for path in images.iterdir() if path.is_dir())
    for split, first, number_of in (("train", 0, PER_CLASS), ("val", PER_CLASS, 1)):
        lines = []
        for label, source in enumerate(classes):
            photographs = sorted(path for path in source.rglob("*") if path.is_file())
            target = folder / split / source.name
            target.mkdir(parents=True)
            for number in range(first, first + number_of):
                file = target / f"{number}.jpg"
                Image.fromarray(load_stored(photographs[number % len(photographs)])).save(file, quality=90)
                lines.append(f"{file.relative_to(folder)} {label}\n")
        (folder / f"{split}.txt").write_text("".join(lines))
        samples[split] = len(lines)
    return samples


def of_example(example: Path, folder: Path, samples: int) -> float:
    """Return images per second of the example's second epoch."""
    steps = samples // BATCH_SIZE
    chainer_compat = str(REPOSITORY / "workflow" / "scripts" / "trainmark" / "frameworks" / "chainer_compat.py")
    command = [sys.executable, chainer_compat, __file__, "--example-only", str(example), "train.txt", "val.txt"]
    command += ["--arch", ARCHITECTURE, "--batchsize", str(BATCH_SIZE), "--epoch", "2", "--root", "."]
    command += ["--loaderjob", str(JOBS), "--mean", str(keyed(folder, "datasets/photographs/*-*/mean.npy"))]
    noted = folder / "updates.json"
    modules = os.pathsep.join(str(REPOSITORY / path) for path in ("workflow/scripts", "tests"))
    environment = os.environ | {NOTED: str(noted), "PYTHONPATH": modules}
    subprocess.run(command, cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)
    moments = json.loads(noted.read_text())
    return samples / (moments[2 * steps - 1] - moments[steps - 1])


def of_trainmark(folder: Path, repeat: int) -> tuple[float, float]:
    """Return images per second of a run's second epoch, and the share of it for which the run waited for images."""
    name = f"imagenet-{ARCHITECTURE}"
    experiment = experiment_of(
        recipes=[name],
        datasets=["photographs"],
        epochs=[2],
        repeats=repeat,
        batch_size=BATCH_SIZE,
        keep_weights=False,
        loader={"iterator": "process", "jobs": JOBS},
    )
    dataset = {"title": "Photographs", "format": "image_folder", "folder": str(folder)}
    config = write_config(folder, {"experiments": {"bench": experiment}, "datasets": {"photographs": dataset}})
    run_workflow(folder, config, "--until", "train", "--cores", "all", "--set-threads", f"train={os.cpu_count()}")
    result = read_record(record_file(folder, f"bench/{name}/photographs/chainer-cpu/epochs-2/repeat-{repeat}"))[
        "result"
    ]
    return result["samples_per_second"], result["waiting_share"]


def main() -> None:
    """Measure in turn and print each round and the ratio."""
    if sys.argv[1:2] == ["--example-only"]:
        example = Path(sys.argv[2])
        sys.argv = [str(example / "train_imagenet.py"), *sys.argv[3:]]
        note_updates(example)
        return
    parser = parser_of(__doc__)
    parser.add_argument("example", type=Path, help="folder examples/imagenet of Chainer")
    parser.add_argument("images", type=Path, help="folder with a folder of photographs for each class")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, repeats = Path(name), count(1)
        samples = scaled_photographs(arguments.images, folder)["train"]
        of_trainmark(folder, next(repeats))  # makes the mean image, too
        print(f"imagenet-{ARCHITECTURE}: {samples} photographs, batches of {BATCH_SIZE}, {JOBS} "
              f"loader processes; {platform.machine()}, {os.cpu_count()} cores", flush=True)  # fmt: skip
        ways = {
            "example": partial(of_example, arguments.example.resolve(), folder, samples),
            "trainmark": lambda: of_trainmark(folder, next(repeats)),
        }
        example, ours = in_turn(ways, ROUNDS).values()
    speeds, waited = zip(*ours, strict=True)
    print(f"images/s of the example: {min(example):.2f} to {max(example):.2f}")
    print(f"of trainmark: {min(speeds):.2f} to {max(speeds):.2f}, of the time at most {max(waited):.1%} waiting")
    print(f"trainmark against the example: {ratio(speeds, example)} times its images/s")


if __name__ == "__main__":
    main()
