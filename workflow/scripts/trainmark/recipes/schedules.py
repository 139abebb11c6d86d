"""The constants of an update rule by epoch: learning-rate schedules, and the rates of rmsprop_warmup.

All are evaluated once per epoch, at its start, as in torchvision's reference training. In formulas e is the number of
epochs that are completed by then: 0 in the first.
"""

from collections.abc import Mapping
from math import exp, inf
from typing import Any

from trainmark.recipes.recipe import Optimizer, Rates

REFERENCE_BATCH = 256
"""Number of samples per step for which a scaled learning rate is meant (Goyal et al. 2017)."""

DEFAULT_FACTOR = 0.1

SLOW_START = ((40, 0.5), (70, 0.075), (85, 0.01), (inf, 0.001))
"""The slow start of Akiba et al. 2017: (e below which it holds, factor on the scaled learning rate)."""

WARM_UP_CENTRE, WARM_UP_PERIOD = 10, 5
"""e at which the shares of momentum SGD and RMSprop are equal, and how many epochs the transition takes."""

RMSPROP_RATE = 3e-4
"""Learning rate of RMSprop alone."""


def epoch_rates(optimizer: Optimizer, schedule: Mapping[str, Any], batch_size: int, epoch: int) -> Rates:
    """Return the constants of the update rule that the schedule changes in an epoch (counted from 1), by name.

    schedule: the key `learning_rate_schedule` of an experiment; empty for a constant rate.
    """
    scale = batch_size / REFERENCE_BATCH
    if optimizer.rule == "rmsprop_warmup":
        legacy = bool(dict(optimizer.constants)["legacy"])
        return rmsprop_warmup_rates(scale * optimizer.learning_rate, epoch - 1, legacy)
    if not schedule:
        return ()
    scaled = scale if schedule.get("scale_with_batch") else 1.0
    factor = _warm_up(scaled, schedule.get("warmup_epochs", 0), epoch - 1) * _decay(schedule, epoch - 1)
    return (("learning_rate", factor * optimizer.learning_rate),)


def _warm_up(scale: float, epochs: int, completed: int) -> float:
    """Return the factor of a gradual warm-up: from 1 to `scale`, in equal parts (Goyal et al. 2017, section 2.2)."""
    return scale if completed >= epochs else 1 + (scale - 1) * completed / epochs


def _decay(schedule: Mapping[str, Any], completed: int) -> float:
    """Return `factor` to the power of the milestones that are passed. A single number n means every n epochs."""
    milestones = schedule.get("milestones", [])
    passed = completed // milestones if isinstance(milestones, int) else sum(one <= completed for one in milestones)
    return float(schedule.get("factor", DEFAULT_FACTOR) ** passed)


def rmsprop_warmup_rates(base: float, completed: int, legacy: bool) -> Rates:
    """Return the constants of rmsprop_warmup after `completed` epochs.

    The share of SGD is exp(2 (e - 10) / 5) / 2 up to e = 10, then 1/2 + (e - 10) / 5 up to e = 12.5, then 1. That of
    RMSprop is (1 - share of SGD) times the ratio of the two learning rates.

    base: the learning rate, scaled with the batch.
    legacy: keep the slope of the second part as it was published, 2/5 instead of 1/5. It overshoots: 1.3 at e = 12, and
        a negative share of RMSprop.
    """
    rate = base * next(factor for end, factor in SLOW_START if completed < end)
    position = (completed - WARM_UP_CENTRE) / WARM_UP_PERIOD
    linear = 0.5 + (2 if legacy else 1) * position
    share = exp(2 * position) / 2 if position < 0 else linear if position < 0.5 else 1.0
    return (("learning_rate", rate), ("sgd_share", share), ("rmsprop_share", (1 - share) * RMSPROP_RATE / rate))
