"""What figures are drawn from, made up: a section with any number of trainers, and that of records."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
from records_for_tests import certificates_of, record, timed_tuning, written_tables

from trainmark.report.figures.data import Data
from trainmark.tables.curves import curves_table
from trainmark.tables.numbers import as_table, numbers_table
from trainmark.tables.published import published_rows
from trainmark.tables.sections import Section
from trainmark.tables.trainers import is_compared, parity_table, trainer_pairs
from trainmark.tables.tuning import tuning_rows
from trainmark.trainer import Trainer

GROUP = {"experiment": "e", "recipe": "mnist-mlp-flux", "dataset": "digits"}

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

STEPS = (
    "compiled steps without Keras's fit", "arrays on the device, an epoch as a loop of the graph", "compiled with XLA",
    "batches in one copy", "1 of 2 threads",
)  # fmt: skip


def data_of(folder, *records, **options):
    """What figures are drawn from, made from records; all of one group. options: those of `drawn_from`."""
    by_path, runs = written_tables(folder, *records)
    return drawn_from(by_path, runs, curves_table(by_path), **options)


def drawn_from(by_path, runs, curves, parities=None, references=(), rows=()):
    """What figures are drawn from, made from records and tables. rows: numbers in place of their statistics."""
    certificates = certificates_of(runs, parities)
    pairs = list(trainer_pairs(runs, certificates))
    numbers = numbers_table(
        runs, filter(is_compared, pairs), published_rows(runs, curves, by_path.values(), references)
    )
    section = Section(
        (*GROUP.values(),), runs, numbers, parity_table(pairs), next(iter(certificates.values()), None), False, ""
    )
    return with_rows(Data(section, curves, references), *rows)


def with_rows(data, *rows):
    """The same with these rows of numbers in place of those of the same statistics."""
    table, numbers = as_table(GROUP | row for row in rows), data.section.numbers
    kept = numbers[~numbers["statistic"].isin(table["statistic"])]
    numbers = as_table([*kept.to_dict("records"), *table.to_dict("records")])
    return replace(data, section=replace(data.section, numbers=numbers))


def made_up(folder, frameworks, devices=("cpu",), loops=("stock",), repeats=3, settings=(2, 5, 10, 30)):
    """What figures are drawn from where everything was measured, with any names of frameworks.

    With more than 2 trainers, the first has a disturbed run, the last a diverged one, and the second is not ranked.
    """
    trainers = [Trainer(*parts) for parts in product(frameworks, devices, loops)]
    records = [
        _measured(1 + place / 3, trainer, epochs, repeat)
        for place, trainer in enumerate(trainers)
        for epochs in settings
        for repeat in range(1, repeats + 1)
    ]
    classes = ["bitwise", "rounding", "single", "different", "not certified"]
    pairs = combinations([trainer.name for trainer in trainers], 2)
    parities = {pair: classes[i % len(classes)] for i, pair in enumerate(pairs)}
    by_path, runs = written_tables(folder, *records)
    curves = _learned(runs, curves_table(by_path))
    if len(trainers) > 2:
        _trouble(runs, curves)
    tuned = [_tuning(str(one)) for one in trainers if one.loop == "tuned"]
    rows = [*_break_evens(trainers), *_targets(trainers), *_speed_ups(trainers, settings), *tuning_rows(tuned)]
    return drawn_from(by_path, runs, curves, parities, PUBLISHED, rows)


def _measured(slow, trainer, epochs, repeat):
    slow *= 1 + repeat / 20
    changes = {"energy": {"training_joules": 40.0 * slow * epochs, "source": "nvml", "reason": None}}
    changes["settings.target_accuracy"] = 0.97
    return record(
        trainer.framework, repeat, trainer.device, epochs, seconds=0.4 * slow, changes=changes, loop=trainer.loop
    )


def _learned(runs, curves):
    """The curves with losses that fall and accuracies that grow, on training images, too."""
    places = {run: place for place, run in enumerate(runs["id"])}
    fall = (1 + curves["id"].map(places) / 100) / curves["epoch"] ** 0.7
    learned = {"batch_loss": 1.3 * fall}
    for split, factor in (("test", 1.0), ("train", 0.8)):
        learned |= {f"{split}_loss": factor * fall, f"{split}_accuracy": 1 - factor * fall / 4}
    return curves.assign(**learned)


def _trouble(runs, curves):
    """Disturb the first of the longest runs, and let the loss of the last explode."""
    first, *_, last = runs.index[runs["epochs"] == runs["epochs"].max()]
    runs.loc[first, ["disturbed", "disturbance"]] = ["stopped", "it was stopped"]
    runs.loc[first, "training_seconds"] *= 3
    runs.loc[last, "status"] = "diverged"
    curves.loc[curves["id"] == runs.loc[last, "id"], ["test_loss", "batch_loss", "train_loss"]] *= 1e6


def _tuning(trainer):
    tuning = timed_tuning((0.9, 1.04, 0.7, 0.98, 1.6), [True, True, True, True, False]) | {"trainer": trainer}
    for step, text in zip(tuning["steps"], STEPS, strict=True):
        step["text"] = text
    return tuning


def _break_evens(trainers):
    for (i, first), (j, second) in combinations(enumerate(trainers), 2):
        epochs = 2.0 * (1 + i) * (1 + j) * (30 if (i + j) % 5 == 0 else 1)
        ends = {"low": epochs / 1.3, "high": np.inf if j == 1 else epochs * 1.4} if (i + j) % 4 != 3 else {}
        for metric in ("training_seconds", "wall_seconds"):
            named = second._asdict() | {"compared_with": first.name, "metric": metric, "statistic": "break_even"}
            yield named | {"value": epochs, **ends}
    always = {"compared_with": trainers[0].name, "metric": "training_seconds", "verdict": "always faster"}
    yield trainers[-1]._asdict() | always | {"statistic": "break_even"}


def _targets(trainers):
    for i, trainer in enumerate(trainers):
        reached, own = 3 - i % 4, trainer._asdict() | {"runs": 3}
        times = {"value": 2.0 + i, "low": 1.0 + i, "high": np.inf if i % 3 == 1 else 4.0 + i} if reached else {}
        yield own | {"metric": "target_seconds", "statistic": "median_time_to_accuracy"} | times
        yield own | {"metric": "target_epochs", "statistic": "reached", "value": reached}


def _speed_ups(trainers, settings):
    for epochs, (i, trainer) in product(settings, enumerate(trainers[1:], 1)):
        ratio = (1 + i / 2) * epochs**0.1
        named = trainer._asdict() | {"compared_with": trainers[0].name, "epochs": epochs, "statistic": "speed_up"}
        ends = {"low": ratio / 1.2, "high": ratio * 1.15} if epochs != settings[0] else {}
        is_ranked = i > 1 or len(trainers) == 2
        yield named | ({"value": ratio, "parity": "rounding", **ends} if is_ranked else {"parity": "different"})
