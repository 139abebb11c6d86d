"""Simulated ratios of the times of two trainers, repeat by repeat, (trials, pairs), and tables of simulated runs."""

import numpy as np
import pandas as pd

from trainmark.machine.disturbance import FOREIGN_LOAD, FOREIGN_SHARE
from trainmark.tables.bounds import LEAST, least_seconds


def of_a_machine(machine: str, trials: int, pairs: int) -> np.ndarray:
    """Two runs in each repeat, in an order drawn at random, as the workflow trains them.

    machine: "quiet"; "heavy tails", where some runs take far longer; "drifting", which slows down by a fifth; or
        "wandering", whose speed is a random walk.
    """
    rng = np.random.default_rng(pairs)
    shape = (trials, 2 * pairs)
    logs = 0.01 * (rng.standard_t(2, shape) if machine == "heavy tails" else rng.normal(size=shape))
    if machine == "drifting":
        logs += np.linspace(0, 0.2, 2 * pairs)
    if machine == "wandering":
        logs += np.cumsum(rng.normal(0, 0.02, shape), axis=1)
    in_order = np.diff(logs.reshape(trials, pairs, 2), axis=2)[:, :, 0]
    return np.exp(in_order * rng.choice([-1, 1], (trials, pairs)))


def correlated(trials: int, pairs: int, correlation: float) -> np.ndarray:
    """Ratios whose logarithms are a stationary autoregressive process of normal values."""
    return np.exp(0.05 * autoregressive(np.random.default_rng(pairs), (trials, pairs), correlation))


def autoregressive(rng: np.random.Generator, shape: tuple[int, int], correlation: float = 0.5) -> np.ndarray:
    """Series of normal values, (series, values), of which each correlates with the one before it."""
    values = rng.normal(size=shape)
    for place in range(1, shape[1]):
        values[:, place] = correlation * values[:, place - 1] + np.sqrt(1 - correlation**2) * values[:, place]
    return values


SAME = {
    "recipe": "r", "dataset": "d", "device": "cpu", "loop": "stock", "workers": 1, "epochs": 1, "status": "ok",
    "disturbed": "", "calls": "c", "host": "h", "cpu_model": "p", "threads": 2, "held_cpus": 2, "environment": "venv",
    "packages_sha256": "0", "library_settings": "", "dropout": False, "batch_size": 128, "test_loss": None,
    "test_accuracy": None,
}  # fmt: skip
MISSING = (
    "steady_epoch_seconds", "waiting_share", "training_waiting_share", "target_accuracy", "target_seconds",
    "training_joules", "foreign_share", *LEAST.values(),
)  # fmt: skip


def simulated_runs(experiments: int, repeats: int, factor: float) -> pd.DataFrame:
    """Experiments of two frameworks, the second slower by `factor`. The machine drifts; now and then a run is slow."""
    rng = np.random.default_rng(1)
    drift = 1 + 0.3 * np.arange(repeats) / repeats
    rows = []
    for experiment in range(experiments):
        for framework, slower in (("a", 1.0), ("b", factor)):
            seconds = slower * drift * rng.lognormal(0, 0.02, repeats) * np.where(rng.random(repeats) < 0.1, 1.2, 1)
            rows += [
                {"experiment": str(experiment), "framework": framework, "repeat": repeat, "training_seconds": time}
                for repeat, time in enumerate(seconds, start=1)
            ]
    runs = pd.DataFrame(rows).assign(**SAME, **dict.fromkeys(MISSING)).astype(dict.fromkeys(MISSING, "float64"))
    return runs.assign(number=runs.index + 1, versions=runs["framework"] + " 1.0")


MOST_DELAY = 1.3
"""Seconds by which other work delays a run at most, per second of its CPU time."""


def beside_load(runs: pd.DataFrame, share: float, delays: str = "alike") -> pd.DataFrame:
    """The same runs beside other work that takes this share of their CPUs' time in the mean, and a half to one and a
    half times as much of that of a run.

    delays: "alike": of each run by 0 to MOST_DELAY; or "of the second", the others' being 0.
    """
    rng = np.random.default_rng(2)
    cpus = runs["held_cpus"] * share * rng.uniform(0.5, 1.5, len(runs))
    of_second = np.where(runs["framework"] == "b", MOST_DELAY, 0.0)
    delay = cpus * (of_second if delays == "of the second" else rng.uniform(0, MOST_DELAY, len(runs)))
    seconds = runs["training_seconds"] * (1 + delay)
    foreign_seconds = cpus * runs["training_seconds"]
    least = [least_seconds(*both) for both in zip(seconds, foreign_seconds, strict=True)]
    foreign_share = foreign_seconds / seconds / runs["held_cpus"]
    is_disturbed = foreign_share > FOREIGN_SHARE
    times = {
        "training_seconds": seconds,
        LEAST["training_seconds"]: pd.Series(least, runs.index, "float64"),
    }
    return runs.assign(disturbed=np.where(is_disturbed, FOREIGN_LOAD, ""), foreign_share=foreign_share, **times)
