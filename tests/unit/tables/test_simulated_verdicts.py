"""The verdicts of simulated experiments."""

import numpy as np
import pandas as pd
import pytest
from records_for_tests import certificates_of

from trainmark.tables.comparisons import comparisons_table

# --- verdicts of simulated experiments on a machine with slow moments -----------------------------------------------


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
    same = {"recipe": "r", "dataset": "d", "device": "cpu", "loop": "stock", "workers": 1, "epochs": 1, "status": "ok"}
    same |= {
        "steady_epoch_seconds": None,
        "disturbed": "",
        "calls": "c",
        "host": "h",
        "cpu_model": "p",
        "threads": 2,
        "held_cpus": 2,
    }
    same |= {"environment": "venv", "packages_sha256": "0", "library_settings": ""}
    same |= {"waiting_share": None, "training_waiting_share": None}
    same |= dict.fromkeys(("target_accuracy", "target_seconds", "test_loss", "test_accuracy")) | {"dropout": False}
    missing = ("steady_epoch_seconds", "waiting_share", "training_waiting_share", "target_accuracy", "target_seconds")
    runs = pd.DataFrame(rows).assign(**same).astype(dict.fromkeys(missing, "float64"))
    names = runs["experiment"] + runs["framework"] + runs["repeat"].astype("str")
    return runs.assign(id=names, versions=runs["framework"] + " 1.0")


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [6, 10])
def test_equal_frameworks_are_distinguished_in_at_most_5_percent_of_experiments(repeats):
    runs = simulated_runs(120, repeats, factor=1.0)
    compared = comparisons_table(runs, certificates_of(runs))
    verdicts = compared[compared["metric"] == "training_seconds"]["verdict"]
    assert len(verdicts) == 120
    assert (verdicts != "not distinguishable").mean() <= 0.05


def test_a_framework_slower_by_a_tenth_is_mostly_called_slower_and_never_faster():
    runs = simulated_runs(60, 10, factor=1.1)
    compared = comparisons_table(runs, certificates_of(runs)).query("metric == 'training_seconds'")
    assert (compared["verdict"] == "slower").mean() >= 0.6
    assert "faster" not in set(compared["verdict"])
    assert ((compared["low"] <= 1.1) & (compared["high"] >= 1.1)).mean() >= 0.95
