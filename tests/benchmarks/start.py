"""What a process does besides training, by phase, beside the bare import of the framework.

The sum to the first training step has a budget, and so has all that is no training: also evaluation, the peak of the
machine, which the first run of a workflow alone measures, and writing.

Run: make bench-start. In each round and for each framework these processes are started one after the other: one that
only imports the framework, and trainings of one epoch on the digits, without the compilation cache, with an empty one
and with the one that the latter filled. Each figure is the least of all rounds, and a ratio is one of two such figures.
A framework that has no cache is trained only without one. Ratios hold on other machines; seconds do not.

Exit status 1 if a ratio is above its budget.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import train_by_hand
from measuring import parser_of, print_heading, print_row

from trainmark.frameworks import registry
from trainmark.frameworks.registry import known_frameworks

BEFORE_FIRST_STEP = ("start", "import", "data_load", "build", "transfer", "compilation")
"""The phases up to the first step, without the wait for the device."""

VARIANTS = {"no cache": False, "empty cache": True, "filled cache": True}
"""For each training, whether it has the compilation cache."""

BUDGETS = {"chainer": 1.4, "keras-tensorflow": 1.0, "keras-jax": 1.2, "keras-jax, filled cache": 0.8}
"""Largest ratio of the time to the first step to that of the bare import."""

TRAINING = ("device_wait", "warm_up", "steady")
"""The phases that are no overhead."""

OVERHEAD_BUDGETS = {"chainer": 1.7, "keras-tensorflow": 1.3, "keras-jax": 1.6}
"""Largest ratio of all that is no training to the bare import."""

COMPATIBILITY = Path(registry.__file__).with_name("chainer_compat.py")

BARE = "import {package}, time\nprint(time.monotonic())\n"


def digits(folder: Path) -> None:
    """Prepare the digits of scikit-learn."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    train_by_hand.prepare_images(folder, loaded.images[:, None].astype("uint8"), loaded.target)


def bare_import(folder: Path, framework: str) -> float:
    """Return the seconds from the start of a process until it has imported a framework as its users do."""
    entry = known_frameworks()[framework]
    program = folder / "bare.py"
    program.write_text(BARE.format(package=entry.packages[-1]))
    first = [str(COMPATIBILITY)] if framework == "chainer" else []
    environment = os.environ | entry.environment | entry.cpu_environment | {"CUDA_VISIBLE_DEVICES": ""}
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, *first, str(program)], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout) - begin


def training(folder: Path, framework: str, loop: str, variant: str) -> dict:
    """Return the seconds of each phase up to the first step, their sum, and what the cache did."""
    if variant == "empty cache":
        shutil.rmtree(folder / "results", ignore_errors=True)
    record = train_by_hand.train(folder, framework, loop, compilation_cache=VARIANTS[variant])
    phases = {phase: record["phases_seconds"][phase] for phase in BEFORE_FIRST_STEP}
    overhead = sum(seconds for phase, seconds in record["phases_seconds"].items() if phase not in TRAINING)
    return {"cache": record["compilation_cache"], **phases, "sum": sum(phases.values()), "overhead": overhead}


def measured(folder: Path, framework: str, loop: str, rounds: int) -> dict:
    """Return the least seconds of a framework's bare import, and of the phases of each variant."""
    bare, trainings = [], {variant: [] for variant in VARIANTS}
    for _ in range(rounds):
        bare.append(bare_import(folder, framework))
        for variant in list(trainings):
            trainings[variant].append(seconds := training(folder, framework, loop, variant))
            if VARIANTS[variant] and seconds["cache"] is None:
                del trainings[variant]
    return {
        "bare import": min(bare),
        **{
            variant: {"cache": of[-1]["cache"]} | {key: min(one[key] for one in of) for key in of[0] if key != "cache"}
            for variant, of in trainings.items()
        },
    }


def rows(framework: str, loop: str, bare_import: float, trainings: dict) -> Iterator[tuple[list[str], bool]]:
    """Yield the cells of each training, and whether it is above a budget."""
    overhead_budget = OVERHEAD_BUDGETS.get(framework)
    for variant, seconds in trainings.items():
        cache, budget = seconds["cache"], BUDGETS.get(f"{framework}, {variant}", BUDGETS.get(framework))
        counts = f", {cache['hits']} hits, {cache['misses']} misses" if cache else ""
        cells = [f"{framework} {loop}", f"{variant}{counts}", f"{bare_import:.2f}"]
        cells += [f"{seconds[phase]:.2f}" for phase in BEFORE_FIRST_STEP]
        exceeded = False
        for figure, limit in (("sum", budget), ("overhead", overhead_budget)):
            ratio = seconds[figure] / bare_import
            cells += [f"{seconds[figure]:.2f}", f"{ratio:.2f}", str(limit or "none")]
            exceeded |= ratio > (limit or float("inf"))
        yield cells, exceeded


def main() -> None:
    """Measure and print a table."""
    arguments = parser_of(__doc__, rounds=3).parse_args()
    print_heading(
        "trainer", "training", "bare import, s", *BEFORE_FIRST_STEP, "sum", "sum / bare import", "budget",
        "all but training", "/ bare import", "budget",
    )  # fmt: skip
    exceeded = False
    with tempfile.TemporaryDirectory() as folder:
        digits(Path(folder))
        for framework, entry in known_frameworks().items():
            for loop in () if entry.missing_packages() else entry.loops:
                trainings = measured(Path(folder), framework, loop, arguments.rounds)
                for cells, above in rows(framework, loop, trainings.pop("bare import"), trainings):
                    print_row(*cells)
                    exceeded |= above
    sys.exit(exceeded)


if __name__ == "__main__":
    main()
