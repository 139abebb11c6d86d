"""Is one setting under two names told apart, and is a slowdown of 10 % found? The report's own verdicts, on real runs.

Run: make bench-verdicts. In a copy of the repository Chainer's adapter has three names: two that are the same, and
one that rests after each epoch for a tenth of the epoch's time. Ten repeats of each go through the workflow, in its own
order, and what the report says is printed. Exit status 1 where it says anything else than it should.
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd
from harness import copy_of_repository, write_config
from measuring import parser_of, run_workflow

from trainmark.tables.numbers import read_numbers
from trainmark.trainer import Trainer

SLOWDOWN = 0.1

ADAPTER = f'''"""Chainer's adapter under three names."""

import time

from trainmark.frameworks.chainer_adapter import ChainerAdapter

FRAMEWORKS = {{
    "twin-one": {{"packages": ["chainer"], "environment": {{}}}},
    "twin-two": {{"packages": ["chainer"], "environment": {{}}}},
    "twin-slowed": {{"packages": ["chainer"], "environment": {{}}}},
}}


def create(framework, threads):
    return Slowed(framework, threads) if framework == "twin-slowed" else ChainerAdapter(framework, threads)


class Slowed(ChainerAdapter):
    def train_epoch(self, feed):
        begin = time.monotonic()
        losses = super().train_epoch(feed)
        time.sleep({SLOWDOWN} * (time.monotonic() - begin))
        return losses
'''

WANTED = {"same": "not distinguishable", "slowed": "slower"}


def config(repeats: int, epochs: int) -> dict:
    """Two experiments: the same setting twice, and one of them slowed."""
    experiment = {"recipes": ["mnist-mlp-keras"], "devices": ["cpu"], "epochs": [epochs], "repeats": repeats}
    return {
        "experiments": {
            "same": experiment | {"frameworks": ["twin-one", "twin-two"]},
            "slowed": experiment | {"frameworks": ["twin-one", "twin-slowed"]},
        }
    }


def comparisons(folder: Path, repeats: int, epochs: int) -> pd.DataFrame:
    """The comparisons of times of a finished workflow; its terminal output and its report say the same."""
    copy_of_repository(folder)
    (folder / "workflow" / "scripts" / "trainmark" / "frameworks" / "twin_adapter.py").write_text(ADAPTER)
    for name in ("one", "two", "slowed"):
        (folder / "envs" / f"twin-{name}.yaml").write_text("dependencies: [chainer]\n")
    name = write_config(folder, config(repeats, epochs))
    # Without the search path of this script, which names the library of the repository, not of its copy.
    run_workflow(folder, name, PYTHONPATH="")
    print((folder / "results" / "tables" / "summary.txt").read_text())
    table = read_numbers(folder / "results" / "tables" / "numbers.csv")
    return table[(table["statistic"] == "ratio") & table["metric"].str.endswith("_seconds")]


def main() -> None:
    """Run both experiments and print the verdicts."""
    arguments = parser_of(__doc__, repeats=10, epochs=30).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = comparisons(Path(folder), arguments.repeats, arguments.epochs)
    right = []
    for row in table.to_dict("records"):
        print(
            f"{row['experiment']}, {row['metric']}: {Trainer.of(row).name} against {row['compared_with']}: "
            f"{row['value']} ({row['low']} to {row['high']}), {row['runs']} pairs: {row['verdict']}"
        )
        right.append(row["verdict"] == WANTED[row["experiment"]])
        if row["experiment"] == "slowed" and row["verdict"] == "slower":
            right.append(row["low"] <= 1 + SLOWDOWN <= row["high"])
            print(f"  holds {1 + SLOWDOWN:g}: {'yes' if right[-1] else 'no'}")
    print(f"as it should be: {'yes' if all(right) else 'no'}")
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
