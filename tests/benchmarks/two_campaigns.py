"""How often are verdicts on two simulated campaigns right, and how long do comparisons of large campaigns take?

Run: make bench-campaigns.
"""

import resource
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from campaigns_for_tests import write_other
from scipy.special import stdtrit
from scipy.stats import nct
from simulated_ratios import MISSING, SAME, autoregressive

from trainmark.campaigns.differences import Comparison, Setting, compare
from trainmark.campaigns.folders import Campaign, read_campaigns
from trainmark.tables.frames import SETTING, groups
from trainmark.tables.metrics import NOT_DISTINGUISHABLE
from trainmark.tables.paired import COSINES, LEVEL

PAIRS = 1000
TRAINERS = ("a", "b", "c", "d")
NOISE = 0.02
MACHINES = {
    "quiet": "normal noise of 2 %",
    "heavy tails": "noise of Student's t with 2 degrees of freedom",
    "drifting": "slows down by a tenth within each campaign",
    "correlated": "noise of successive runs with a correlation of 0.5",
}
CAMPAIGNS, RUNS = 10, 1000


def simulated(machine: str, repeats: int, rng: np.random.Generator, factor: float = 1.0) -> Campaign:
    """A campaign of four trainers; each repeat trains all of them. factor: by how much it is slower."""
    shape = (repeats, len(TRAINERS))
    if machine == "correlated":
        noise = autoregressive(rng, (1, repeats * len(TRAINERS))).reshape(shape)
    else:
        noise = rng.standard_t(2, shape) if machine == "heavy tails" else rng.normal(size=shape)
    logs = NOISE * noise + (np.linspace(0, 0.1, repeats * len(TRAINERS)).reshape(shape) if machine == "drifting" else 0)
    seconds = factor * np.exp(logs.ravel())
    return Campaign("simulated", {}, _runs(repeats).assign(training_seconds=seconds), pd.DataFrame(), {})


@cache
def _runs(repeats: int) -> pd.DataFrame:
    """The table of runs of a simulated campaign, without times."""
    rows = [{"framework": trainer, "repeat": repeat + 1} for repeat in range(repeats) for trainer in TRAINERS]
    runs = pd.DataFrame(rows).assign(experiment="e", waited="", **SAME, **dict.fromkeys(MISSING))
    return runs.astype(dict.fromkeys(MISSING, "float64")).assign(number=runs.index + 1)


def verdicts(machine: str, repeats: int, factor: float) -> tuple[float, float, float]:
    """Of PAIRS pairs of campaigns: the shares of intervals that hold, of ratios with a verdict, of pairs with one."""
    rng = np.random.default_rng(repeats)
    held, told = [], []
    for _ in range(PAIRS):
        both = simulated(machine, repeats, rng), simulated(machine, repeats, rng, factor)
        of_trainers = zip(*(groups(one.runs, SETTING) for one in both), strict=True)
        settings = [Setting(values, "", (first, second), []) for (values, first), (_, second) in of_trainers]
        rows = Comparison(*both, settings, [], []).rows
        held += [row["low"] <= factor <= row["high"] for row in rows]
        told.append([row["verdict"] != NOT_DISTINGUISHABLE for row in rows])
    return float(np.mean(held)), float(np.mean(told)), float(np.mean(np.any(told, axis=1)))


def predicted(repeats: int, factor: float) -> list[float]:
    """The share that a t-test of this spread finds, of normal noise, at the first and the last of Holm's levels."""
    freedom, error = 2 * COSINES, NOISE * np.sqrt(2 / repeats)
    levels = (LEVEL / len(TRAINERS), LEVEL)
    return [float(nct.sf(stdtrit(freedom, 1 - level / 2), freedom, np.log(factor) / error)) for level in levels]


def large() -> None:
    """Print what it takes to compare each of CAMPAIGNS with the first; each has RUNS runs."""
    with TemporaryDirectory() as scratch:
        experiment = {"epochs": [1, 2, 3, 4, 5], "repeats": RUNS // 10}
        folders = [
            write_other(Path(scratch) / str(number), seed=number, experiment=experiment) for number in range(CAMPAIGNS)
        ]
        begin = time.perf_counter()
        first, *others = read_campaigns(folders)
        rows = sum(len(compare(first, other).rows) for other in others)
        seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{CAMPAIGNS} campaigns of {len(first.runs)} runs: {rows} ratios in {seconds:.1f} s, peak memory {peak:.0f} MiB"
    )


def main() -> None:
    """Print a line for each kind of machine, number of repeats and ratio; then what large campaigns take."""
    print(f"{PAIRS} pairs of campaigns of {len(TRAINERS)} trainers:")
    for machine, words in MACHINES.items():
        for repeats in (6, 8, 20) if machine == "quiet" else (8,):
            for factor in (1.0, 1.05):
                held, told, any_told = verdicts(machine, repeats, factor)
                what = f"false in {any_told:.1%} of the pairs of campaigns" if factor == 1 else f"found {told:.1%}"
                if machine == "quiet" and factor > 1:
                    what += " (a t-test finds {:.1%} to {:.1%})".format(*predicted(repeats, factor))
                print(
                    f"{machine} ({words}), {repeats} repeats, ratio {factor:g}: covered {held:.1%}, {what}", flush=True
                )
    large()


if __name__ == "__main__":
    main()
