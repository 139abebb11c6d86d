"""What a process does besides training, by phase, beside the bare import of the framework.

The sum to the first training step has a budget, and so has all that is no training: also evaluation, the peak of the
machine, which the first run of a workflow alone measures, and writing.

Run: make bench-start. In each round and for each framework these processes are started one after the other: one that
only imports the framework, and trainings of one epoch on the digits, without the compilation cache, with an empty one
and with the one that the latter filled. Each figure is the least of all rounds, and a ratio is one of two such figures.
A framework that has no cache is trained only without one. Ratios hold on other machines; seconds do not.

Exit status 1 if a ratio is above its budget.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import train_by_hand

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
    least = {
        variant: {"cache": of[-1]["cache"], **{key: min(one[key] for one in of) for key in of[0] if key != "cache"}}
        for variant, of in trainings.items()
    }
    return {"framework": framework, "loop": loop, "bare_import": min(bare), "trainings": least}


def budget(framework: str, variant: str) -> float | None:
    """Return the budget of a framework's trainings, or None if it has none."""
    return BUDGETS.get(f"{framework}, {variant}", BUDGETS.get(framework))


def exceeds(result: dict) -> bool:
    """Return whether a training of a framework is above its budget."""
    name, bare = result["framework"], result["bare_import"]
    return any(
        seconds["sum"] > bare * (budget(name, variant) or float("inf"))
        or seconds["overhead"] > bare * OVERHEAD_BUDGETS.get(name, float("inf"))
        for variant, seconds in result["trainings"].items()
    )


def rows(result: dict) -> list[str]:
    """Return the lines of a framework in the table."""
    lines = []
    for variant, seconds in result["trainings"].items():
        cache = seconds["cache"]
        counts = f", {cache['hits']} hits, {cache['misses']} misses" if cache else ""
        cells = [f"{result['framework']} {result['loop']}", f"{variant}{counts}", f"{result['bare_import']:.2f}"]
        cells += [f"{seconds[phase]:.2f}" for phase in (*BEFORE_FIRST_STEP, "sum")]
        cells += [f"{seconds['sum'] / result['bare_import']:.2f}", str(budget(result["framework"], variant) or "none")]
        limit = OVERHEAD_BUDGETS.get(result["framework"], "none")
        cells += [f"{seconds['overhead']:.2f}", f"{seconds['overhead'] / result['bare_import']:.2f}", str(limit)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    installed = [name for name, entry in known_frameworks().items() if not entry.missing_packages()]
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        digits(Path(folder))
        results = [
            measured(Path(folder), framework, loop, arguments.rounds)
            for framework in installed
            for loop in known_frameworks()[framework].loops
        ]
    heading = ["trainer", "training", "bare import, s", *BEFORE_FIRST_STEP, "sum", "sum / bare import", "budget"]
    heading += ["all but training", "/ bare import", "budget"]
    print("| " + " | ".join(heading) + " |", "|---" * len(heading) + "|", sep="\n")
    for result in results:
        print("\n".join(rows(result)))
    sys.exit(any(map(exceeds, results)))


if __name__ == "__main__":
    main()
