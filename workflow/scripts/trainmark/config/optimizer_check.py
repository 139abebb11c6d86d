"""Check that optimizer, restarts and learning-rate schedule of an experiment fit each other and its recipes."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainmark.config.schema_check import Finding
from trainmark.config.wording import format_value
from trainmark.recipes.recipe import Recipe, configured_batch_size, merged_constants
from trainmark.recipes.schedules import REFERENCE_BATCH


def optimizer_findings(name: str, experiment: Mapping, recipe: Recipe) -> Iterator[Finding]:
    """Yield a finding for each of these keys that has no effect with this recipe, or is impossible.

    name: the name of the experiment.
    """
    path = ("experiments", name)
    chosen = experiment["optimizer"]
    constants = merged_constants(recipe.optimizer.as_dict(), {key: chosen[key] for key in chosen if key == "rule"})
    rule = constants.pop("rule")
    whose = "" if "rule" in chosen else f" of the recipe {recipe.name}"
    for key, value in chosen.items():
        if key not in ("rule", *constants):
            yield (
                (*path, "optimizer", key),
                f"found {format_value(value)}, but the rule {rule}{whose} has no {key}; "
                f"allowed: {', '.join(constants)}, or another rule",
            )
    schedule = experiment["learning_rate_schedule"]
    if schedule and rule == "rmsprop_warmup":
        yield (
            (*path, "learning_rate_schedule"),
            f"found {format_value(schedule)}, but the rule rmsprop_warmup has a schedule of its own; "
            "allowed: no learning_rate_schedule, or another rule",
        )
    elif sentence := _without_effect(schedule, configured_batch_size(recipe.batch_size, experiment["batch_size"])):
        yield (*path, "learning_rate_schedule", sentence[0]), sentence[1]
    yield from _restart_findings(name, experiment, rule)


def _restart_findings(name: str, experiment: Mapping, rule: str) -> Iterator[Finding]:
    restarts, parts = experiment["optimizer_restarts"], experiment["optimizer_restarts"] + 1
    path, found = ("experiments", name, "optimizer_restarts"), f"found {restarts}, but"
    if restarts and rule == "sgd":
        yield path, f"{found} the rule sgd has no state to restart; allowed: 0, or another rule"
    if wrong := [epochs for epochs in experiment["epochs"] if epochs % parts]:
        yield path, f"{found} {wrong[0]} epochs have no {parts} equal parts; allowed: epochs divisible by {parts}"


def _without_effect(schedule: Mapping[str, Any], batch_size: int | None) -> tuple[str, str] | None:
    """Return (key of the schedule that has no effect, why, as a sentence), or None.

    batch_size: samples per step; None for the whole training set.
    """
    if "factor" in schedule and not schedule.get("milestones"):
        found = format_value(schedule["factor"])
        return "factor", f"found {found}, but there are no milestones; allowed: no factor, or milestones with it"
    if not schedule.get("warmup_epochs"):
        return None
    found = f"found {format_value(schedule['warmup_epochs'])}, but"
    if not schedule.get("scale_with_batch"):
        return "warmup_epochs", f"{found} the rate is not scaled; allowed: no warmup_epochs, or scale_with_batch: true"
    if batch_size is not None and batch_size <= REFERENCE_BATCH:
        return "warmup_epochs", (
            f"{found} batches of {batch_size} samples do not raise the rate, which is that of {REFERENCE_BATCH}; "
            f"allowed: no warmup_epochs, or a batch_size above {REFERENCE_BATCH}"
        )
    return None
