"""Where runs that stand side by side differ in what nobody wanted to compare: in their code, or in their machine."""

import json
from collections import defaultdict
from collections.abc import Mapping

import pandas as pd

from trainmark.tables.formatting import format_range, named_runs

MANY = 6
"""More disturbed runs than this are told by their cause alone, without its figures."""


def _numbers_by_digest(runs: pd.DataFrame) -> dict[str, dict[str, list[int]]]:
    """For each module of the code, the numbers of the runs that have it, by its digest, in the order of the runs.

    Frameworks have adapters of their own: a run says nothing of a module that it has not.
    """
    numbers: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, modules in sorted(zip(runs["number"], runs["code_modules"], strict=True)):
        for module, digest in json.loads(modules).items():
            numbers[module][digest].append(number)
    return numbers


def code_versions(runs: pd.DataFrame) -> int:
    """In how many versions one module occurs among these runs, at most: 1 where the same code trained them all."""
    return max((len(by_digest) for by_digest in _numbers_by_digest(runs).values()), default=1)


def mixed_code(runs: pd.DataFrame) -> list[str]:
    """A sentence for each way in which modules of different versions part these runs; none where all are the same."""
    modules_by_parts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for module, by_digest in _numbers_by_digest(runs).items():
        if len(by_digest) > 1:
            parts = tuple(named_runs(numbers) for numbers in by_digest.values())
            modules_by_parts[parts].append(module)
    return [
        f"Different code trained {' and '.join(parts)} ({', '.join(modules)}). To compare them, delete their records "
        "and call snakemake again, which trains them anew."
        for parts, modules in modules_by_parts.items()
    ]


def mixed_machines(runs: pd.DataFrame) -> list[str]:
    """A sentence for each device whose runs were trained on different processors, or with different numbers of threads.

    Their times then compare machines as well. A run whose device is not known (memory ran out before) is left out.
    """
    sentences = []
    for device, group in runs.groupby("device", sort=False):
        processor = group["cpu_model"] if device == "cpu" else group["device_name"]
        threads = group["threads"].map(lambda count: f"{count} thread{'s' if count > 1 else ''}")
        parts = group.groupby([processor, threads], sort=False)["number"]
        if len(parts) > 1:
            told = [f"{name}, {count} ({named_runs(numbers)})" for (name, count), numbers in parts]
            sentences.append(
                f"The {device} runs were trained on different machines: {' and '.join(told)}. Their times compare "
                "these as well."
            )
    return sentences


def mixed_calls(runs: pd.DataFrame) -> list[str]:
    """A sentence where runs were trained in several calls of snakemake, or on several days: which, when, at which load.

    Only within one call are all runs mixed: a machine that was slower in another favours what was trained in this one.
    """
    calls = runs["calls"].nunique()
    if calls == 1 and runs["day"].nunique() == 1:
        return []
    parts = [
        f"{named_runs(group['number'])} on {day} (load {format_range(group['load_1min'])})"
        for (_, day), group in runs.groupby(["calls", "day"], sort=True)
    ]
    where = f"in {calls} calls of snakemake" if calls > 1 else "on several days"
    mixed = ". Their order was mixed within each call alone" if calls > 1 else ""
    return [f"Trained {where}: {', '.join(parts)}{mixed}."]


def disturbances(runs: pd.DataFrame) -> list[str]:
    """A sentence that names the disturbed runs and what disturbed them; none where none was."""
    disturbed = runs[runs["disturbed"] != ""].sort_values("number")
    if disturbed.empty:
        return []
    by = "disturbance" if len(disturbed) <= MANY else "disturbed"
    parts = [f"{named_runs(group['number'])} ({why})" for why, group in disturbed.groupby(by, sort=False)]
    return [f"Disturbed: {', '.join(parts)}. Medians hold such runs; verdicts leave out their pairs."]


def mixed_environments(runs: pd.DataFrame) -> list[str]:
    """Every sentence on runs that stand side by side: their code, machines and calls, and which were disturbed."""
    return mixed_code(runs) + mixed_machines(runs) + mixed_calls(runs) + disturbances(runs)


def resumed_elsewhere(run: Mapping) -> str | None:
    """A sentence where a run (a row of the table of runs) went on on another machine, or on more CPUs; else None."""
    if run["machines"] == 1:
        return None
    return f"went on on another machine, or another part of it ({run['session_machines']}): its times mix them."
