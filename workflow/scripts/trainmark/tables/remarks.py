"""What a reader must know of the runs of one table: what disturbed them, and how else they differ."""

from collections.abc import Mapping

import pandas as pd

from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.recipes.command import FRAMEWORK
from trainmark.tables.formatting import causes_in, counted, listed, named_runs
from trainmark.tables.frames import SETTING, by_trainer, select_trainer
from trainmark.trainer import TRAINER, Trainer

TRAIN_AGAIN = (  # of two --config, Snakemake takes the second alone
    "Keep the machine free of other work, and add --config rerun_disturbed=true to your call of snakemake (to its "
    "--config, if it has one)."
)
"""What to do about disturbed runs."""

LEFT_OUT = (
    f"Verdicts leave out their times; where fewer than {LEAST_PAIRS} undisturbed pairs are left, they count them "
    "within bounds. Medians leave them out, too, unless all runs of a row were disturbed."
)
"""What becomes of the times of disturbed runs."""

LOAD_FASTER = (
    "Such times measure the loader: medians include them, and verdicts on trainers that waited are withheld. Set "
    "loader.store to mapped, or give runs more CPUs and loader.jobs."
)
"""What to do about runs that waited for data."""

MANY = 6
"""If more runs than this were disturbed, only their causes are named, without the measured values."""


def _named(runs: pd.DataFrame, by: list) -> list[str]:
    """The runs by the values of these columns: ["Processor, 2 CPUs (runs 1-3)", ...]."""
    parts = runs.groupby(by, sort=False)["number"]
    return [f"{', '.join(map(str, values))} ({named_runs(numbers)})" for values, numbers in parts]


def mixed_code(runs: pd.DataFrame) -> list[str]:
    """A sentence for each way in which code divides these runs: all of them by the code that frameworks share, those of
    a framework by all of its code. Empty if one code trained all of them.
    """
    of_frameworks = [own.groupby("code_sha256")["number"] for _, own in runs.groupby("framework")]
    divided = [runs.groupby("shared_code_sha256")["number"], *of_frameworks]
    divisions = {tuple(sorted(named_runs(numbers) for _, numbers in parts)) for parts in divided if len(parts) > 1}
    return [f"Different code trained {' and '.join(division)}." for division in sorted(divisions)]


def mixed_versions(runs: pd.DataFrame) -> list[str]:
    """A sentence for each framework whose runs had different packages. A tuned loop may use further ones."""
    return [
        f"Runs of {framework} had different versions: {' or '.join(versions)}."
        for (framework, _), group in runs.groupby(["framework", "loop"], sort=False)
        if len(versions := sorted(filter(None, group["versions"].unique()))) > 1
    ]


def mixed_machines(runs: pd.DataFrame) -> list[str]:
    """A sentence for each device whose runs were trained on different processors or numbers of CPUs."""
    sentences = []
    for device, group in runs.groupby("device", sort=False):
        processor = group["cpu_model"] if device == "cpu" else group["device_name"]
        # A run that ran out of memory before its device was known is left out.
        machines = _named(group, [processor, group["held_cpus"].map(lambda count: counted(count, "CPU"))])
        if len(machines) > 1:
            sentences.append(f"The {device} runs were trained on different machines: {' and '.join(machines)}.")
    return sentences


def mixed_settings(runs: pd.DataFrame) -> list[str]:
    """A sentence if runs had different settings of libraries in their environment, with the settings."""
    ordered = runs.sort_values("library_settings")
    named = _named(ordered, [ordered["library_settings"].replace("", "none")])
    return [f"Settings of libraries in the environment differ: {'; '.join(named)}."] if len(named) > 1 else []


def mixed_calls(runs: pd.DataFrame) -> list[str]:
    """A sentence if runs were trained in several calls of snakemake, with the day and the load of each.

    If the machine was slower during one call, the runs of the other calls are favoured.
    """
    parts = []
    for (_, day), group in runs.groupby(["calls", "day"]):
        load = " to ".join(dict.fromkeys(group["load_1min"].agg(["min", "max"]).map("{:.1f}".format)))
        parts.append(f"{named_runs(group['number'])} on {day} (load {load})")
    calls = runs["calls"].nunique()
    mixed = f"Trained in {calls} calls of snakemake, and mixed only within a call: {', '.join(parts)}."
    return [mixed] if calls > 1 else []


def disturbances(runs: pd.DataFrame) -> list[str]:
    """A sentence that names the disturbed runs and the causes; empty if no run was disturbed."""
    disturbed = runs[runs["disturbed"] != ""].sort_values("number")
    by = "disturbance" if len(disturbed) <= MANY else "disturbed"
    parts = [f"{named_runs(numbers)} ({why})" for why, numbers in disturbed.groupby(by, sort=False)["number"]]
    return [f"Disturbed: {', '.join(parts)}. {LEFT_OUT}"] if parts else []


def bounded_note(ratios: pd.DataFrame) -> str:
    """Which of these rows of ratios hold times within bounds: "Within bounds: keras on cpu (5 and 20 epochs)"."""
    bounded = ratios[ratios["bounded"].fillna(0) > 0]
    parts = [f"{one.name} ({listed(own['epochs'].unique())} epochs)" for one, own in by_trainer(bounded)]
    return f"Within bounds, because other work ran beside the runs: {', '.join(parts)}" if parts else ""


def causes_of(runs: pd.DataFrame) -> str:
    """What disturbed those of these runs that were disturbed: "foreign load and interruption"."""
    return listed(causes_in(runs["disturbed"]))


def mixed_compilation(runs: pd.DataFrame) -> list[str]:
    """A sentence if some runs of a setting compiled programs that others took from the compilation cache."""
    compiled = runs["compiled_programs"].astype("float64")
    is_more = compiled > compiled.groupby([runs[key] for key in SETTING]).transform("min")
    sentence = (
        f"Compiled by {named_runs(runs['number'][is_more])}: programs that other runs of the same setting took from "
        "the compilation cache. First steps and training times also differ by that."
    )
    return [sentence] if is_more.any() else []


def waiting_sentences(runs: pd.DataFrame) -> list[str]:
    """A sentence that names the runs that waited beyond the limit, trainer by trainer; empty if none did."""
    parts = []
    for trainer, group in by_trainer(runs[runs["waited"] != ""]):
        shares = 100 * group["waiting_share"].fillna(group["training_waiting_share"])
        share = " to ".join(dict.fromkeys(shares.agg(["min", "max"]).map("{:.0f}".format)))
        parts.append(f"{trainer.name} for {share} % of the time ({named_runs(group['number'])})")
    return [f"Waited for data: {', '.join(parts)}. {LOAD_FASTER}"] if parts else []


def resumed_elsewhere(run: Mapping) -> str | None:
    """The end of a sentence if a run was resumed on another machine, GPU or number of CPUs, or with other settings."""
    where = f"was resumed on different hardware or settings ({run['session_machines']}): its times mix both."
    return where if run["machines"] > 1 else None


def code_differences(certificate: Mapping | None, runs: pd.DataFrame) -> list[str]:
    """A sentence for each certified trainer whose runs were trained by other code than was certified."""
    certified = certificate["trainers"] if certificate else []
    codes = {Trainer.parse(one["trainer"]): one["code"]["sha256"] for one in certified}
    return [
        f"The code that was certified for {trainer.name} differs from the code that trained its runs."
        for trainer, code in codes.items()
        if any(select_trainer(runs, trainer)["code_sha256"] != code)
    ]


def evaluation_gaps(runs: pd.DataFrame) -> list[str]:
    """Which runs of a group of several trainers no other one evaluated, or audited, or only by other code."""
    if len(runs[list(TRAINER)].drop_duplicates()) == 1 or FRAMEWORK in set(runs["framework"]):
        return []
    finished = runs[runs["status"] == "ok"]
    evaluated = finished["evaluated_by"] != ""
    audited = finished["audited_epoch"].notna().groupby([finished[key] for key in TRAINER]).transform("any")
    gaps = {
        "No other trainer evaluated the trained weights of {}.": ~evaluated,
        "The trained weights of {} were evaluated by code that has changed since, and removed.": finished[
            "evaluated_by_other_code"
        ],
        "No epoch of {} was audited, although their weights were evaluated.": evaluated & ~audited,
    }
    return [sentence.format(named_runs(finished["number"][which])) for sentence, which in gaps.items() if which.any()]


def missing_lines(plan: Mapping) -> list[str]:
    """A line that counts the missing runs of a plan, and one for each reason with its runs; none if none is missing."""
    if not (missing := plan["missing"]):
        return []
    lines = [f"Missing: {len(missing)} of {len(plan['order'])} runs. Run snakemake again when the cause is removed."]
    for reason, runs in pd.Series(list(missing), list(missing.values())).groupby(level=0, sort=False):
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        lines.append(f"{runs.iloc[0]}{more}: {reason}")
    return lines
