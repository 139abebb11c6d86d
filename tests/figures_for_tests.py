"""What figures are drawn from, made up: the tables of a group with any number of trainers, and those of records."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from records_for_tests import certificates_of, record, timed_tuning, written_tables

from trainmark.report.figures.data import Data
from trainmark.tables.comparisons import comparisons_table, parity_table
from trainmark.tables.curves import curves_table
from trainmark.tables.published import COLUMNS as PUBLISHED_COLUMNS
from trainmark.tables.published import published_table
from trainmark.tables.tables import GROUP
from trainmark.tables.tuning import COLUMNS as TUNING
from trainmark.tables.tuning import tuning_table
from trainmark.trainer import TRAINER, Trainer

COLUMNS = {
    "break_even": [*GROUP, "first", "second", "metric", "pairs", "fixed_first", "epoch_first", "fixed_second",
                   "epoch_second", "epochs", "low", "high", "faster_after"],
    "targets": [*GROUP, *TRAINER, "target_accuracy", "runs", "reached", "seconds", "low", "high",
                "epochs_mean", "epochs_deviation"],
    "speed_ups": [*GROUP, "epochs", *TRAINER, "baseline", "pairs", "ratio", "low", "high", "verdict", "parity"],
    "tuning": TUNING,
    "published": PUBLISHED_COLUMNS,
}  # fmt: skip
"""The tables that are not made from records here."""

PUBLISHED = [
    {
        "name": "an old framework on an old GPU", "recipe": "mnist-mlp-flux", "dataset": "digits", "hardware": "a GPU",
        "year": 2017, "source": "a log", "decimals": 4, "note": "median of 10",
        "results": [
            {"epochs": 2, "training_seconds": 3.5, "test_loss": 0.4, "test_accuracy": 0.8},
            {"epochs": 10, "training_seconds": 20.5, "test_loss": float("nan"), "test_accuracy": 0.9},
        ],
    },
    {
        "name": "another framework", "recipe": "mnist-mlp-flux", "dataset": "digits", "hardware": "a CPU",
        "year": None, "source": "a table", "decimals": 2, "results": [{"epochs": 10, "training_seconds": 9.0}],
    },
]  # fmt: skip


def empty(name):
    """A table without rows."""
    return pd.DataFrame(columns=COLUMNS[name])


def data_of(folder, *records, parities=None, **changes):
    """What figures are drawn from, made from records; all of one group. changes: other fields of it."""
    by_path, runs = written_tables(folder, *records)
    return data_from(runs, curves_table(by_path), certificates_of(runs, parities), **changes)


def data_from(runs, curves, certificates, **changes):
    """What figures are drawn from, made from the tables of one group."""
    tables = {name: empty(name) for name in COLUMNS} | {"certificate": next(iter(certificates.values()), None)}
    curves = curves[curves["id"].isin(runs["id"])].replace([np.inf, -np.inf], np.nan)
    compared, parity = comparisons_table(runs, certificates), parity_table(runs, certificates)
    return Data(runs, curves, compared, parity, **tables | changes)


def made_up(folder, frameworks, devices=("cpu",), loops=("stock",), repeats=3, settings=(2, 5, 10, 30)):
    """What figures are drawn from where everything was measured, with any names of frameworks.

    With more than 2 trainers, the first has a disturbed run, the last a diverged one, and the second is not ranked.
    """
    trainers = [Trainer(*parts) for parts in product(frameworks, devices, loops)]
    records = [
        _measured(place, trainer, epochs, repeat)
        for place, trainer in enumerate(trainers)
        for epochs in settings
        for repeat in range(1, repeats + 1)
    ]
    classes = ["bitwise", "rounding", "single", "different", "not certified"]
    names = [trainer.name for trainer in trainers]
    pairs = [(first, second) for i, first in enumerate(names) for second in names[i + 1 :]]
    parities = {pair: classes[i % len(classes)] for i, pair in enumerate(pairs)}
    group = dict(zip(GROUP, ("e", "mnist-mlp-flux", "digits"), strict=True))
    tables = {
        "break_even": [group | row for row in _break_even(names)],
        "targets": [group | row for row in _targets(trainers)],
        "speed_ups": [group | row for row in _speed_ups(trainers, settings)],
    }
    tables = {name: pd.DataFrame(rows, columns=COLUMNS[name]) for name, rows in tables.items()}
    tables["tuning"] = tuning_table(map(_tuning, (str(one) for one in trainers if one.loop == "tuned")))
    data = _learned(data_of(folder, *records, parities=parities, references=PUBLISHED, **tables))
    data = replace(data, published=published_table(data.runs, data.curves, records, PUBLISHED))
    return _troubled(data, max(settings)) if len(trainers) > 2 else data


STEPS = (
    "compiled steps without Keras's fit", "arrays on the device, an epoch as a loop of the graph", "compiled with XLA",
    "batches in one copy", "1 of 2 threads",
)  # fmt: skip


def _tuning(trainer):
    tuning = timed_tuning((0.9, 1.04, 0.7, 0.98, 1.6), [True, True, True, True, False]) | {"trainer": trainer}
    for step, text in zip(tuning["steps"], STEPS, strict=True):
        step["text"] = text
    return tuning


def _measured(place, trainer, epochs, repeat):
    slow = (1 + place / 3) * (1 + repeat / 20)
    energy = {"energy": {"training_joules": 40.0 * slow * epochs, "source": "nvml", "reason": None}}
    return record(
        trainer.framework, repeat, trainer.device, epochs, seconds=0.4 * slow, changes=energy, loop=trainer.loop
    )


def _learned(data):
    """The same, with losses that fall and accuracies that grow, on training images, too."""
    places = {run: place for place, run in enumerate(data.runs["id"])}
    fall = (1 + data.curves["id"].map(places) / 100) / data.curves["epoch"] ** 0.7
    curves = data.curves.assign(batch_loss=1.3 * fall)
    for split, factor in (("test", 1.0), ("train", 0.8)):
        curves[f"{split}_loss"], curves[f"{split}_accuracy"] = factor * fall, 1 - factor * fall / 4
    return replace(data, curves=curves)


def _troubled(data, epochs):
    """The same with a disturbed run, a diverged run whose loss exploded, and a trainer that is not ranked."""
    runs, curves, speed_ups = data.runs.copy(), data.curves.copy(), data.speed_ups.copy()
    longest = runs.index[runs["epochs"] == epochs]
    runs.loc[longest[0], ["disturbed", "disturbance"]] = ["stopped", "it was stopped"]
    runs.loc[longest[0], "training_seconds"] *= 3
    runs.loc[longest[-1], "status"] = "diverged"
    exploded = curves["id"] == runs.loc[longest[-1], "id"]
    curves.loc[exploded, ["test_loss", "batch_loss", "train_loss"]] *= 1e6
    second = speed_ups["framework"] + speed_ups["loop"] == speed_ups["framework"].iloc[0] + speed_ups["loop"].iloc[0]
    second &= speed_ups["device"] == speed_ups["device"].iloc[0]
    speed_ups.loc[second, ["ratio", "low", "high"]] = np.nan
    speed_ups.loc[second, "parity"] = "different"
    return replace(data, runs=runs, curves=curves, speed_ups=speed_ups)


def _break_even(names):
    for i, first in enumerate(names):
        for j, second in enumerate(names[i + 1 :], i + 1):
            for metric in ("training_seconds", "wall_seconds"):
                wall = 3 * (metric == "wall_seconds")
                parts = {"fixed_first": 1 + 4 * i + wall, "epoch_first": 2.0 / (1 + i)}
                parts |= {"fixed_second": 1 + 4 * j + wall, "epoch_second": 2.0 / (1 + j)}
                epochs = (parts["fixed_second"] - parts["fixed_first"]) / (parts["epoch_first"] - parts["epoch_second"])
                epochs *= 30 if (i + j) % 5 == 0 else 1
                interval = {"low": epochs / 1.3, "high": np.inf if j == 1 else epochs * 1.4}
                interval = {} if (i + j) % 4 == 3 else interval
                yield {"first": first, "second": second, "metric": metric, "pairs": 6, "epochs": epochs,
                       "faster_after": second} | parts | interval  # fmt: skip
    if len(names) == 2:
        yield {"first": names[0], "second": names[1], "metric": "training_seconds", "pairs": 6}


def _targets(trainers):
    for i, trainer in enumerate(trainers):
        row = {**trainer._asdict(), "target_accuracy": 0.97, "runs": 3, "reached": 3 - i % 4}
        reached = {"seconds": 2.0 + i, "low": 1.0 + i, "high": np.inf if i % 3 == 1 else 4.0 + i}
        yield row | (reached if row["reached"] else {})


def _speed_ups(trainers, settings):
    for epochs in settings:
        for i, trainer in enumerate(trainers[1:], 1):
            ratio = (1 + i / 2) * epochs**0.1
            yield {"epochs": epochs, **trainer._asdict(), "pairs": 6, "ratio": ratio,
                   "baseline": trainers[0].name, "parity": "rounding",
                   **({"low": ratio / 1.2, "high": ratio * 1.15} if epochs != settings[0] else {})}  # fmt: skip
