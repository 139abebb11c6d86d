"""Checks that the settings in which two variants differ reached their runs."""

from collections.abc import Mapping
from itertools import combinations
from math import isclose
from typing import Any

from trainmark.config.load import keys_that_decide
from trainmark.errors import RecordError
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.recipe import Optimizer, differing_settings, effective_settings
from trainmark.recipes.schedules import epoch_rates
from trainmark.records.resolved import batch_size_of, optimizer_of
from trainmark.variant import split_name

NO_OTHER_LOSSES = ("loader", "input.crop", "input.mean_window", "input.random_crop")
"""Settings that decide the training, and may rightly change nothing: a loader gives the same batches, and a window that
is the whole image has one position."""

SMALL_EPSILON = 1e-7
"""A smaller epsilon may change no bit."""

NEAR = 1e-6
"""Relative difference of two constants that may change no bit of float32."""


def check_variants(records: Mapping[str, Mapping]) -> None:
    """Raise RecordError if a setting in which two variants differ did not reach a run. records: by path.

    Then the runs of one trainer and repeat have the same losses, to the last bit.
    """
    runs: dict[tuple, list[tuple[str, Mapping]]] = {}
    for path, record in records.items():
        run, (experiment, variant) = record["run"], split_name(record["run"]["experiment"])
        # The first update knows neither momentum nor the mean of earlier gradients.
        if variant and run["framework"] != FRAMEWORK and record["status"] == "ok" and record["counted"]["updates"] > 1:
            own = tuple(run[key] for key in run if key not in ("id", "experiment"))
            runs.setdefault((experiment, *own), []).append((path, record))
    for of_run in runs.values():
        for (first_path, first), (second_path, second) in combinations(of_run, 2):
            if _losses(first) == _losses(second) and (settings := _telling_settings(first, second)):
                variants = " and ".join(split_name(one["run"]["experiment"])[1] for one in (first, second))
                raise RecordError(
                    f"{first_path} and {second_path}: the variants {variants} differ in {' and '.join(settings)}, but "
                    "these runs have the same losses to the last bit, so one was trained with the settings of the "
                    "other; delete both, and snakemake trains the runs again"
                )


def _losses(record: Mapping) -> list[Any]:
    return [[entry["step_losses"], entry["evaluations"]["test"]["loss"]] for entry in record["curves"]]


def _telling_settings(first: Mapping, second: Mapping) -> list[str]:
    """Return the settings in which two variants differ, of those that change the losses of every run."""
    both = (first, second)
    differing = differing_settings(*(effective_settings(one["inputs"]["recipe"], one["settings"]) for one in both))
    deciding = [key for key in keys_that_decide(["training"]) if key not in ("optimizer", "learning_rate_schedule")]
    may_be_equal = {
        **dict.fromkeys(NO_OTHER_LOSSES, True),
        "batch_size": batch_size_of(first) == batch_size_of(second),
        "dropout": _dropout_rates(first) == _dropout_rates(second),
        "initial_weights": first["inputs"]["initial_weights_sha256"] == second["inputs"]["initial_weights_sha256"],
        "optimizer_restarts": "sgd" in (optimizer_of(first)["rule"], optimizer_of(second)["rule"]),
    }
    found = [
        key
        for key in differing
        if key.split(".")[0] in deciding and not (may_be_equal.get(key) or may_be_equal.get(key.split(".")[0]))
    ]
    return found + [f"optimizer.{key}" for key in _differing_constants(first, second)]


def _dropout_rates(record: Mapping) -> list[float]:
    recipe, rate = RECIPES.get(record["run"]["recipe"]), record["settings"].get("dropout")
    rates = recipe.dropout_rates if recipe else []
    return rates if rate is None or not rates else [rate]


def _differing_constants(first: Mapping, second: Mapping) -> list[str]:
    """Return the constants of the update rule that differ in an epoch that was trained: a schedule may not have begun.

    Constants that only one of two rules has are left out.
    """
    differing: dict[str, None] = {}
    for entry in first["curves"]:
        mine, others = (_constants(one, entry["epoch"]) for one in (first, second))
        differing |= dict.fromkeys(
            key for key in mine if key in others and not _may_be_equal(key, mine[key], others[key])
        )
    return list(differing)


def _constants(record: Mapping, epoch: int) -> dict[str, Any]:
    values = optimizer_of(record)
    optimizer = Optimizer(values.pop("rule"), values.pop("learning_rate"), tuple(values.items()))
    rates = epoch_rates(optimizer, record["settings"].get("learning_rate_schedule", {}), batch_size_of(record), epoch)
    return optimizer.with_rates(rates).as_dict()


def _may_be_equal(key: str, first: Any, second: Any) -> bool:
    if isinstance(first, str):
        return bool(first == second)
    return (key == "epsilon" and max(first, second) <= SMALL_EPSILON) or isclose(first, second, rel_tol=NEAR)
