"""What the benchmarks share: ways that are measured in turn, ratios with their range, tables, options and workflows."""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness import environment, snakemake

Measured = TypeVar("Measured")


class Usage(NamedTuple):
    """What a command took: its seconds, those of CPUs, its peak memory, and what it printed."""

    seconds: float
    cpu_seconds: float
    mib: float
    printed: str
    status: int


def parser_of(doc: str, **defaults: int | list[str]) -> argparse.ArgumentParser:
    """Return a parser with an option for each default, which takes several words if that is a list."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        kind = {"nargs": "+"} if isinstance(default, list) else {"type": int}
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, help=f"default: {default}", **kind)
    return parser


def seconds_of(work: Callable[[], object]) -> float:
    """Return the wall time of a call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_turn(
    ways: Mapping[str, Callable[[], Measured]],
    rounds: int,
    on_round: Callable[[dict[str, list[Measured]]], object] = lambda measured: None,
) -> dict[str, list[Measured]]:
    """Return what each way measures, by round. All are called in each round, and the order alternates.

    So a machine that slows down slows all of them. on_round: called after each round with what there is so far.
    """
    measured: dict[str, list[Measured]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in [*ways][:: -1 if number % 2 else 1]:
            measured[name].append(ways[name]())
        on_round(measured)
    return measured


def ratio(of: list[float], to: list[float]) -> str:
    """Return the median and the range of the ratios of the rounds."""
    ratios = [one / other for one, other in zip(of, to, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def print_row(*cells: object) -> None:
    """Print a row of a table."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def print_heading(*names: str) -> None:
    """Print the first two rows of a table."""
    print_row(*names)
    print("|---" * len(names) + "|", flush=True)


def usage_of(folder: Path, *command: str, **variables: str) -> Usage:
    """Run a command in a folder."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command, cwd=folder, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, cpu_seconds = time.monotonic() - begin, usage.ru_utime + usage.ru_stime
    return Usage(seconds, cpu_seconds, usage.ru_maxrss / 1024, printed, process.returncode)


def run_workflow(folder: Path, config: str, *arguments: str, **variables: str) -> None:
    """Run snakemake in a folder, on two CPUs unless the arguments say otherwise. Exits if it fails."""
    cores = () if "--cores" in arguments else ("--cores", "2")
    done = snakemake(folder, *arguments, *cores, "--configfile", config, **variables)
    if done.returncode:
        sys.exit(done.printed[-5000:])
