"""The numbers of timed tunings: what each step from a stock loop to a tuned loop gained."""

from collections.abc import Iterable, Iterator, Mapping
from statistics import median

from trainmark.tables.frames import columns_of, number
from trainmark.tables.paired import estimate, paired_ratios
from trainmark.trainer import Trainer
from trainmark.variant import GROUP

TAKEN, NOT_TAKEN = "taken", "not taken"
"""The verdicts: whether the tuned loop includes a step."""

STEP = "tuning."
"""Begins the name of the metric of a step."""


def tuning_rows(tunings: Iterable[Mapping]) -> Iterator[dict]:
    """Yield rows of numbers, step by step: the ratio of the time with the step to the time without it, and the time of
    an epoch with it: the stock loop's median (STEP + "stock"), times the ratios of the steps taken so far.
    """
    for tuning in (one for one in tunings if one["steps"]):
        own = columns_of((tuning[key] for key in GROUP), Trainer.parse(tuning["trainer"]))
        turns_per_epoch = tuning["epoch_samples"] / tuning["turn"]["samples"]
        before = median(tuning["steps"][0]["before_seconds"]) * turns_per_epoch
        yield number(own, "epoch_seconds", f"{STEP}stock", "s", [before])
        for step in tuning["steps"]:
            ratios = [after / without for after, without in zip(step["seconds"], step["before_seconds"], strict=True)]
            paired, ratio, metric = paired_ratios(ratios), estimate(ratios), f"{STEP}{step['step']}"
            of_step = own | {"runs": len(ratios), "reason": step["text"], "note": f"{step['threads']} threads"}
            of_step["verdict"] = TAKEN if step["taken"] else NOT_TAKEN
            yield number(of_step, "step_ratio", metric, "1", [ratio, *(paired.interval() if paired else ())])
            yield number(of_step, "epoch_seconds", metric, "s", [before * ratio])
            before = before * ratio if step["taken"] else before
