"""Are equal trainers told apart, and slower ones found, also beside other work? The report's verdicts, on real runs.

Run: make bench-verdicts, or with LOADS="0 5 10 30". In a copy of the repository Chainer's adapter has several names:
two that are the same, and others that rest after each epoch for a part of its time. Eight repeats of each go through
the workflow, in its own order; with loads, beside a process that uses such a percentage of the CPUs' time. Disturbed
runs are not trained again. Without bounds of their times, each verdict with bounded pairs would be withheld.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

from harness import copy_of_repository, write_config
from load import KINDS, load
from measuring import parser_of, print_heading, print_row, run_workflow

from trainmark.tables.frames import rows_of
from trainmark.tables.metrics import NOT_DISTINGUISHABLE, VERDICTS
from trainmark.tables.numbers import read_numbers

ADAPTER = '''"""Chainer's adapter under several names, which end in the percentage by which it is slowed."""

import time

from trainmark.frameworks.chainer_adapter import ChainerAdapter

FRAMEWORKS = TRAINERS


def create(framework, threads):
    adapter = Slowed(framework, threads)
    adapter.slowdown = int(framework.rpartition("-")[2]) / 100
    return adapter


class Slowed(ChainerAdapter):
    slowdown = 0.0

    def train_epoch(self, feed):
        begin = time.monotonic()
        losses = super().train_epoch(feed)
        time.sleep(self.slowdown * (time.monotonic() - begin))
        return losses
'''

FIRST = "twin-0"


def name_of(slowdown: int) -> str:
    """The name of the trainer that is compared with FIRST."""
    return f"slowed-{slowdown}"


def prepare(folder: Path, slowdowns: Iterable[int], repeats: int, epochs: int) -> str:
    """Copy the repository with the trainers, and write the config, an experiment for each slowdown; return its name."""
    copy_of_repository(folder)
    names = [FIRST, *map(name_of, slowdowns)]
    trainers = {name: {"packages": ["chainer"], "environment": {}} for name in names}
    adapter = ADAPTER.replace("TRAINERS", repr(trainers))
    (folder / "workflow" / "scripts" / "trainmark" / "frameworks" / "twin_adapter.py").write_text(adapter)
    for name in names:
        (folder / "envs" / f"{name}.yaml").write_text("dependencies: [chainer]\n")
    own = {"recipes": ["mnist-mlp-flux"], "devices": ["cpu"], "epochs": [epochs], "repeats": repeats}
    experiments = {name_of(one): own | {"frameworks": [FIRST, name_of(one)]} for one in slowdowns}
    return write_config(folder, {"experiments": experiments, "rerun_share": 0})


def comparisons(folder: Path, config: str, share: float, kind: str) -> Iterator[dict]:
    """Train beside a load, and yield the comparisons of training times. share: of a CPU."""
    with load(kind, share) if share else nullcontext():
        # Without the search path of this script, which names the library of the repository, not of its copy.
        run_workflow(folder, config, PYTHONPATH="")
    table = read_numbers(folder / "results" / "tables" / "numbers.csv")
    yield from rows_of(table[(table["statistic"] == "ratio") & (table["metric"] == "training_seconds")])


def is_right(row: dict, slowdown: int) -> bool | None:
    """Whether a verdict is the right one, or a false one; None if there is none, or the ratio can't be told from 1."""
    if row["verdict"] not in VERDICTS or (slowdown and row["verdict"] == NOT_DISTINGUISHABLE):
        return None
    return row["verdict"] == ("slower" if slowdown else NOT_DISTINGUISHABLE)


def main() -> None:
    """Run all experiments beside each load and print the verdicts."""
    parser = parser_of(__doc__, repeats=8, epochs=60, slowdowns=["0", "10"], loads=["0"])
    arguments = parser.parse_args()
    slowdowns, false = list(map(int, arguments.slowdowns)), 0
    print_heading("other work", "kind", "slower by", "pairs", "bounded", "ratio", "interval", "verdict", "right")
    for place, percent in enumerate(map(int, arguments.loads)):
        kind = [*KINDS][place % len(KINDS)]
        share = percent / 100 * len(os.sched_getaffinity(0))
        with tempfile.TemporaryDirectory() as folder:
            config = prepare(Path(folder), slowdowns, arguments.repeats, arguments.epochs)
            for row in comparisons(Path(folder), config, share, kind):
                slowdown = int(row["experiment"].rpartition("-")[2])
                right = is_right(row, slowdown)
                false += right is False
                ends = "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
                verdict = row["verdict"] + (f" ({row['reason']})" if "refused" in row["verdict"] else "")
                ratio = "" if row["value"] is None else f"{row['value']:.3f}"
                print_row(
                    f"{percent} %", kind if percent else "", f"{slowdown} %", row["runs"], row["bounded"], ratio, ends,
                    verdict, {True: "yes", False: "no", None: ""}[right],
                )  # fmt: skip
    print(f"false verdicts: {false}")


if __name__ == "__main__":
    main()
