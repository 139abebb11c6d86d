"""What a call is going to replace: said before its first job, with time to stop it."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainmark.console import Terminal, print_line
from trainmark.plan.campaign import Campaign
from trainmark.plan.products import MANIFEST, RECORD_FILE, RESULTS, TRAINING_RULES, prepared_folder
from trainmark.plan.run import Run
from trainmark.variant import split_name

PAUSE_SECONDS = 10
"""Time to stop a call on a terminal before it replaces finished runs."""

OF_NEW_RUNS = {"runs", "records"}
"""What differs in tables to which runs are added."""


def announce(
    campaign: Campaign, jobs: Iterable[Any], stale: Mapping[str, list[str]], stream: Terminal, *, pauses: bool = True
) -> None:
    """Print which finished runs are trained again or become outdated, and which other results are made again.

    Where runs are concerned, a call on a terminal pauses first: Ctrl-C ends it, and no result has changed. Runs that
    the user asked to train again (`campaign.repeated`) are not counted.

    stale: what differs from the config, by the path of the result.
    """
    jobs = list(jobs)
    prepared = _datasets_made_again(jobs)
    again = _records_to_replace(campaign, jobs)
    lines = _lines_on_runs(again, stale, prepared)
    lines += [line for name in prepared if (line := _line_on_others(name, campaign))]
    others = (names for path, names in stale.items() if path not in again and not OF_NEW_RUNS.issuperset(names))
    for changes, count in Counter(map(", ".join, others)).most_common():
        files = f"{count} outdated result{'s are' if count > 1 else ' is'}"
        print_line(f"{files} made again (changed: {changes})", stream)
    for line in lines:
        print_line(line, stream)
    if lines and pauses and stream.isatty():
        print_line(f"Ctrl-C within {PAUSE_SECONDS} s keeps all results as they are", stream)
        try:
            time.sleep(PAUSE_SECONDS)
        except KeyboardInterrupt:
            sys.exit("stopped: all results are as they were")


def _datasets_made_again(jobs: Iterable[Any]) -> list[str]:
    """Return the names of the datasets whose prepared form this call replaces."""
    names = [job.wildcards_dict["dataset"] for job in jobs if job.rule.name == "prepare_dataset"]
    return sorted(name for name in names if Path(prepared_folder(name), MANIFEST).exists())


def _records_to_replace(campaign: Campaign, jobs: Iterable[Any]) -> dict[str, Run]:
    """Return the finished runs that are trained again, by the path of the record."""
    to_train = {file for job in jobs if job.rule.name in TRAINING_RULES for file in job.output}
    by_record = {RECORD_FILE.format_map(vars(run)): run for run in campaign.runs if run.id not in campaign.repeated}
    return {record: run for record, run in by_record.items() if record in to_train and Path(record).exists()}


def _lines_on_runs(again: Mapping[str, Run], stale: Mapping[str, list[str]], prepared: Iterable[str]) -> list[str]:
    """Return a line on the finished runs of each experiment and dataset that are trained again, by what changed."""
    counts: Counter = Counter()
    for record, run in again.items():
        # Before a dataset is prepared again, the records match the one that is there.
        changes = stale.get(record) or ["dataset"] * (run.dataset in prepared)
        counts[split_name(run.experiment)[0], run.dataset, ", ".join(changes)] += 1
    return [
        f"{_finished(count)} of {experiment} on {dataset} {'are' if count > 1 else 'is'} trained again"
        + (f" (changed: {changes})" if changes else "")
        for (experiment, dataset, changes), count in counts.items()
    ]


def _line_on_others(dataset: str, campaign: Campaign) -> str:
    """Return a line on the finished runs of other configs that a new form of a dataset concerns, or an empty text."""
    files = Path(RESULTS, "runs").glob(RECORD_FILE.split("/", 2)[2].format_map(_AnyBut(dataset=dataset)))
    others = sorted(set(map(str, files)) - set(campaign.records))
    if not others:
        return ""
    experiments = sorted({split_name(Path(file).parts[2])[0] for file in others})
    return (
        f"the dataset {dataset} is prepared again: if its content changes, {_finished(len(others))} of experiments "
        f"that this config lacks ({', '.join(experiments)}) {'are' if len(others) > 1 else 'is'} outdated; a dataset "
        "of another name keeps them"
    )


class _AnyBut(dict):
    """Wildcards of which those that are missing stand for anything, in a pattern of paths."""

    def __missing__(self, key: str) -> str:
        return "*"


def _finished(count: int) -> str:
    return f"{count} finished run{'s' if count > 1 else ''}"
