"""Do the bounds of a disturbed run hold its time without the other work? Trainings beside loads of 2 to 60 % of a CPU.

Run: make bench-load. Each of PROGRAMS trains in a process of its own, for about a second a run, without load and with
load in turn. A load computes, copies memory, does either in bursts, or computes for a moment a thousand times a
second; how much of a CPU it uses changes from run to run. A loaded run's true time is one like those of the QUIET runs
around it: its bound misses if all of them took less than the least time, or all took longer than the run itself.
Bounds and limits are those of the library.
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loops import adapter_of
from measuring import parser_of, print_heading, print_row

from trainmark.frameworks.registry import set_environment
from trainmark.machine.disturbance import disturbance
from trainmark.machine.gpus import limit_threads
from trainmark.machine.watch import Watch
from trainmark.tables.bounds import least_seconds
from trainmark.training.turns import Trainee

PROGRAMS = {
    ("flax", "mnist-mlp-chainer"): (6000, 100),
    ("torch", "mnist-mlp-chainer"): (9000, 100),
    ("chainer", "mnist-mlp-chainer"): (6000, 100),
    ("keras-jax", "mnist-mlp-keras"): (12000, 128),
    ("torch", "imdb-cnn"): (1600, 32),
    ("keras-tensorflow", "mnist-mlp-chainer"): (6000, 100),
}
"""What trains, each with its samples per epoch and per step."""

SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6)
"""Shares of a CPU that a load uses."""

KINDS = {"computes": 0.02, "copies memory": 0.02, "in bursts": 0.6, "wakes often": 0.001}
"""Kinds of load, and the seconds after which each begins anew."""

LOAD = """
import os, random, sys, time
import numpy as np
parent = os.getppid()
share, period, copies = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "True"
source = np.ones(6_000_000 if copies else 1)
target = np.empty_like(source)
part = 500_000
print(flush=True)
while os.getppid() == parent:
    seconds = period * random.uniform(0.5, 1.5)
    begin, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < share * seconds:
        for place in range(0, len(source), part) if copies else ():
            np.copyto(target[place : place + part], source[place : place + part])
            if time.process_time() - used >= share * seconds:
                break
    time.sleep(max(seconds - (time.perf_counter() - begin), 0))
"""

RUN_SECONDS = 1.2

QUIET = 6
"""So many quiet runs around a loaded one, half of them before it."""


def trainee(framework: str, recipe: str, sizes: tuple[int, int]) -> Callable[[int], dict]:
    """Return a function that trains some epochs and returns what the watch counted, and the seconds of the training."""
    cpus = sorted(os.sched_getaffinity(0))
    train, watch = adapter_of(framework, recipe, sizes=sizes), Watch(cpus, None)

    def run(epochs: int) -> dict:
        watch.begin(1)
        begin = time.perf_counter()
        for _ in range(epochs):
            train()
        seconds = time.perf_counter() - begin
        (stretch,) = watch.after(epochs, force=True)
        return stretch | {"seconds": seconds, "causes": (disturbance([stretch], len(cpus)) or {}).get("causes", [])}

    return run


@contextmanager
def load(kind: str, share: float) -> Iterator[None]:
    """Let a process use a share of a CPU."""
    period, copies = KINDS[kind], kind == "copies memory" or (kind == "in bursts" and random.random() < 0.5)
    command = [sys.executable, "-c", LOAD, str(share), str(period), str(copies)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield
        process.kill()


def measured(framework: str, recipe: str, rounds: int) -> Iterator[dict]:
    """Yield loaded runs in the order of their measurement, each with the quiet run before it."""
    limit_threads(sorted(os.sched_getaffinity(0)))
    set_environment(framework, "stock")
    program = Trainee(framework, trainee, framework, recipe, PROGRAMS[framework, recipe])
    program.take_turn(2)
    epochs = max(1, round(RUN_SECONDS / min(program.take_turn(1)["seconds"] for _ in range(4))))
    loads, process = [*itertools.product(KINDS, SHARES)], time.time()
    try:
        for _ in range(rounds):
            for kind, share in random.sample(loads, len(loads)):
                quiet = program.take_turn(epochs)
                with load(kind, share):
                    loaded = program.take_turn(epochs)
                yield {"process": process, "kind": kind, "share": share, "quiet": quiet, "loaded": loaded}
    finally:
        program.close()


def judged(runs: list[dict]) -> Iterator[dict]:
    """Yield the loaded runs of a program with the true time, its bounds and whether they missed it.

    needed: the seconds of delay per second of foreign CPU time that explain the run, if its true time was the longest
    of the quiet ones around it.
    """
    for place, run in enumerate(runs):
        nearest = runs[max(0, place + 1 - QUIET // 2) : place + 1 + QUIET // 2]
        around = [one["quiet"]["seconds"] for one in nearest if one["process"] == run["process"]]
        seconds, foreign = run["loaded"]["seconds"], max(run["loaded"]["foreign_seconds"], 0.0)
        least, true = least_seconds(seconds, foreign), statistics.median(around)
        yield run | {
            "foreign": foreign / seconds, "slower": seconds / true, "disturbed": bool(run["loaded"]["causes"]),
            "other_causes": any(cause["cause"] != "foreign load" for cause in run["loaded"]["causes"]),
            "least": least and least / seconds, "too_short": least is not None and seconds < min(around),
            "too_long": least is not None and least > max(around),
            "needed": (seconds - max(around)) / foreign if foreign else 0.0,
        }  # fmt: skip


def print_table(runs: Iterable[dict]) -> None:
    """Print a row for each kind and share of load, and one for all of them."""
    rows = defaultdict(list)
    for run in runs:
        for key in ((run["kind"], f"{run['share']:.0%}"), ("all", "")):
            rows[key].append(run)
    print_heading(
        "load", "of a CPU", "runs", "foreign, CPUs", "slower: median", "most", "disturbed", "bounded", "least / time",
        "true time below", "above", "delay needed, s/s: median", "99 %", "most",
    )  # fmt: skip
    for (kind, share), own in sorted(
        rows.items(), key=lambda row: ([*KINDS, "all"].index(row[0][0]), len(row[0][1]), row[0][1])
    ):
        usable = [run for run in own if run["disturbed"] and not run["other_causes"]]
        bounded = [run for run in usable if run["least"] is not None]
        needed = sorted(run["needed"] for run in bounded) or [float("nan")]
        middle = [statistics.median([run[name] for run in some]) if some else float("nan")
                  for name, some in (("foreign", own), ("slower", own), ("least", bounded))]  # fmt: skip
        print_row(
            kind, share, len(own), f"{middle[0]:.3f}", f"{middle[1]:.2f}", f"{max(run['slower'] for run in own):.2f}",
            sum(run["disturbed"] for run in own), len(bounded), f"{middle[2]:.2f}",
            sum(run["too_long"] for run in bounded), sum(run["too_short"] for run in bounded),
            f"{statistics.median(needed):.2f}", f"{needed[int(0.99 * (len(needed) - 1))]:.2f}", f"{needed[-1]:.2f}",
        )  # fmt: skip
    of_all = [run for run in rows["all", ""] if run["disturbed"] and not run["other_causes"] and run["least"]]
    missed = sum(run["too_long"] or run["too_short"] for run in of_all)
    print(f"of {len(of_all)} bounded runs, {missed} missed ({missed / max(len(of_all), 1):.1%})")


def main() -> None:
    """Measure all programs, or read earlier measurements, and print the tables."""
    parser = parser_of(__doc__, rounds=3, programs=len(PROGRAMS))
    parser.add_argument(
        "--keep", type=Path, help="file of measurements: those in it are printed, too, and new ones are added"
    )
    arguments = parser.parse_args()
    file, runs = arguments.keep or Path(os.devnull), defaultdict(list)
    for line in file.read_text().splitlines() if file.is_file() else ():
        one = json.loads(line)
        runs[tuple(one["program"])].append(one)
    for program in list(PROGRAMS)[: arguments.programs] if arguments.rounds else ():
        for run in measured(*program, arguments.rounds):
            runs[program].append(run | {"program": program})
            with file.open("a") as kept:
                print(json.dumps(runs[program][-1]), file=kept)
    cpus = len(os.sched_getaffinity(0))
    found = {program: [*judged(own)] for program, own in runs.items()}
    for program, own in found.items():
        spread = statistics.pstdev([run["quiet"]["seconds"] for run in runs[program]])
        spread /= statistics.mean([run["quiet"]["seconds"] for run in runs[program]])
        print(f"\n{' '.join(program)} on {cpus} CPUs; quiet runs vary by {spread:.1%} (standard deviation)")
        print_table(own)
    print(f"\nall programs on {cpus} CPUs")
    print_table(itertools.chain.from_iterable(found.values()))


if __name__ == "__main__":
    main()
