"""Reports differences between runs of one table that are not part of the comparison: their code, machine or load."""

from collections.abc import Mapping

import pandas as pd

from trainmark.tables.formatting import listed, named_runs
from trainmark.trainer import TRAINER

TRAIN_AGAIN = (  # of two --config, Snakemake takes the second alone
    "Keep the machine free of other work, and add --config rerun_disturbed=true to your call of snakemake (to its "
    "--config, if it has one)."
)
"""What to do about disturbed runs."""

MANY = 6
"""If more runs than this were disturbed, only their causes are named, without the measured values."""


def code_versions(runs: pd.DataFrame) -> int:
    """The largest number of versions of the code that these runs share: 1 if the same code trained all of them."""
    return max((len(divided) for divided in _runs_by_code(runs)), default=1)


def _runs_by_code(runs: pd.DataFrame) -> list[list[list[int]]]:
    """The numbers of the runs by the code that all frameworks share, and those of each framework by all of its code."""
    of_frameworks = [(group, "code_sha256") for _, group in runs.groupby("framework", sort=False)]
    return [
        [sorted(numbers) for _, numbers in group.groupby(column, sort=False)["number"]]
        for group, column in [(runs, "shared_code_sha256"), *of_frameworks]
    ]


def mixed_code(runs: pd.DataFrame) -> list[str]:
    """A sentence for each way in which code divides these runs; empty if one code trained all of them."""
    divisions = {tuple(sorted(map(named_runs, divided))) for divided in _runs_by_code(runs) if len(divided) > 1}
    return [
        f"Different code trained {' and '.join(division)}. To make them comparable, delete their records and run "
        "snakemake again, which retrains them."
        for division in sorted(divisions)
    ]


def mixed_machines(runs: pd.DataFrame) -> list[str]:
    """A sentence for each device whose runs were trained on different processors or numbers of CPUs.

    Differences between their times then include differences between machines. A run whose device is not known, because
    it ran out of memory before, is left out.
    """
    sentences = []
    for device, group in runs.groupby("device", sort=False):
        processor = group["cpu_model"] if device == "cpu" else group["device_name"]
        cpus = group["held_cpus"].map(lambda count: f"{count} CPU{'s' if count > 1 else ''}")
        parts = group.groupby([processor, cpus], sort=False)["number"]
        if len(parts) > 1:
            machines = [f"{name}, {count} ({named_runs(numbers)})" for (name, count), numbers in parts]
            sentences.append(
                f"The {device} runs were trained on different machines: {' and '.join(machines)}. Their times "
                "also differ by the machine."
            )
    return sentences


def mixed_settings(runs: pd.DataFrame) -> list[str]:
    """A sentence if runs had different settings of libraries in their environment, with the settings."""
    numbers = dict([*runs.groupby("library_settings")["number"]])
    if len(numbers) == 1:
        return []
    named = [f"{settings or 'none'} ({named_runs(numbers[settings])})" for settings in sorted(numbers)]
    return [f"The settings of libraries in the environment differ: {'; '.join(named)}. Times also differ by them."]


def mixed_calls(runs: pd.DataFrame) -> list[str]:
    """A sentence if runs were trained in several calls of snakemake or on several days, with the load of each day.

    The order of runs is mixed only within one call. If the machine was slower during one call, the runs of the other
    calls are favoured.
    """
    calls = runs["calls"].nunique()
    if calls == 1 and runs["day"].nunique() == 1:
        return []
    parts = []
    for (_, day), group in runs.groupby(["calls", "day"], sort=True):
        loads = dict.fromkeys((f"{group['load_1min'].min():.1f}", f"{group['load_1min'].max():.1f}"))
        parts.append(f"{named_runs(group['number'])} on {day} (load {' to '.join(loads)})")
    where = f"in {calls} calls of snakemake" if calls > 1 else "on several days"
    mixed = ". The order of runs was mixed only within each call" if calls > 1 else ""
    return [f"Trained {where}: {', '.join(parts)}{mixed}."]


def disturbances(runs: pd.DataFrame) -> list[str]:
    """A sentence that names the disturbed runs and the causes; empty if no run was disturbed."""
    disturbed = runs[runs["disturbed"] != ""].sort_values("number")
    if disturbed.empty:
        return []
    by = "disturbance" if len(disturbed) <= MANY else "disturbed"
    parts = [f"{named_runs(group['number'])} ({why})" for why, group in disturbed.groupby(by, sort=False)]
    return [
        f"Disturbed: {', '.join(parts)}. Verdicts leave out their times, and so do medians, unless "
        "all runs of a row were disturbed."
    ]


def causes_of(runs: pd.DataFrame) -> str:
    """What disturbed those of these runs that were disturbed: "foreign load and interruption"."""
    return listed(dict.fromkeys(cause for causes in runs["disturbed"] if causes for cause in causes.split(", ")))


def mixed_compilation(runs: pd.DataFrame) -> list[str]:
    """A sentence if some runs of a setting compiled programs that others took from the compilation cache."""
    compiled = runs["compiled_programs"].astype("float64")
    least = compiled.groupby([runs[key] for key in (*TRAINER, "epochs")]).transform("min")
    if not (compiled > least).any():
        return []
    return [
        f"Compiled by {named_runs(runs.loc[compiled > least, 'number'])}: programs that other runs of the same setting "
        "took from the compilation cache. First steps and training times also differ by that."
    ]


def mixtures(runs: pd.DataFrame) -> list[str]:
    """Sentences on differences between the runs of one table in code, machines, settings, calls and compilation."""
    return mixed_code(runs) + mixed_machines(runs) + mixed_settings(runs) + mixed_calls(runs) + mixed_compilation(runs)


def mixed_environments(runs: pd.DataFrame) -> list[str]:
    """All sentences on the runs of one table: those of `mixtures`, and the disturbed runs."""
    return mixtures(runs) + [f"{sentence} {TRAIN_AGAIN}" for sentence in disturbances(runs)]


def resumed_elsewhere(run: Mapping) -> str | None:
    """The end of a sentence if a run was resumed on another machine, GPU or number of CPUs, or with other settings.

    run: a row of the table of runs.
    """
    if run["machines"] == 1:
        return None
    return f"was resumed on different hardware or settings ({run['session_machines']}): its times mix both."
