"""The warnings of the first screen: what a reader must know before the numbers, and what to do about it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trainmark.datasets.prepared import read_manifest
from trainmark.parity.compare import REFUSED
from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.plan.products import prepared_in
from trainmark.plan.run import OF_TRAINER
from trainmark.recipes.command import DATASET
from trainmark.tables.consistency import code_differences
from trainmark.tables.formatting import number_ranges
from trainmark.tables.missing import missing_lines
from trainmark.tables.mixed_environments import TRAIN_AGAIN, code_versions, mixed_machines
from trainmark.tables.results import Results
from trainmark.tables.run_checks import evaluation_gaps
from trainmark.tables.tables import GROUP, groups, rows_of
from trainmark.trainer import TRAINER, Trainer

MOST_RANGES = 8
"""If the numbers of runs form more ranges than this, the rest is only counted."""

AGAIN = "delete their records and run snakemake again"

UNCERTIFIED = "uncertified pairs"


@dataclass(frozen=True)
class Warned:
    """A warning.

    kind: its name, for machines.
    what: what is the matter.
    what_to_do: how to mend it.
    runs: the numbers of the runs that it is about; empty if it is about no single runs.
    details: further lines.
    """

    kind: str
    what: str
    what_to_do: str
    runs: tuple[int, ...] = ()
    details: tuple[str, ...] = ()


def warnings(results: Results, plan: Mapping) -> list[Warned]:
    """All warnings on a campaign, those that touch the results most first. plan: see `plan_file.read_plan`."""
    return [
        *_missing(plan),
        *_of_other_code(results.runs, plan),
        *_about_runs(results.runs),
        *_unlike_runs(results.runs),
        *_about_pairs(results),
        *_about_certificates(results),
        *_about_datasets(results),
    ]


def short_list(numbers: Iterable[int]) -> str:
    """Name runs by their numbers, at most MOST_RANGES ranges of them: "Runs 1-3, 7"."""
    ordered = sorted(numbers)
    ranges = number_ranges(ordered).split(", ")
    shown = ", ".join(ranges[:MOST_RANGES])
    more = f" ... ({len(ordered):,} runs)" if len(ranges) > MOST_RANGES else ""
    return f"Run{'s' if len(ordered) > 1 else ''} {shown}{more}"


def _missing(plan: Mapping) -> Iterator[Warned]:
    if lines := missing_lines(plan):
        what, _, what_to_do = lines[0].partition(". ")
        yield Warned("missing runs", f"{what}.", what_to_do, details=tuple(lines[1:]))


def _of_other_code(runs: pd.DataFrame, plan: Mapping) -> Iterator[Warned]:
    """A warning on runs of other code than the workflow's, which a config can ask to keep (any_code)."""
    if plan["any_code"]:
        own = {of: job["code"]["sha256"] for of, job in plan["jobs"].items()}
        rows = rows_of(runs[[*GROUP, *TRAINER, "code_sha256", "number"]])
        of = [OF_TRAINER.format_map({**row, "trainer": Trainer.of(row)}) for row in rows]
        other = [row["number"] for row, job in zip(rows, of, strict=True) if own[job] != row["code_sha256"]]
        if other:
            what = f"{short_list(other)}: trained by other code of trainmark than this clone's."
            yield Warned("other code", what, "To train them with this code, leave out any_code.", tuple(sorted(other)))


OF_RUNS: tuple[tuple[str, Callable[[pd.DataFrame], pd.Series], str], ...] = (
    (
        "diverged",
        lambda runs: runs["status"] == "diverged",
        "The loss became NaN or infinite; no median counts it. Check the settings, above all the learning rate.",
    ),
    (
        "out of memory",
        lambda runs: runs["status"] == "out_of_memory",
        "No median counts it. Set a smaller batch_size or a larger memory_limit_mib, or use a larger machine.",
    ),
    (
        "disturbed",
        lambda runs: runs["disturbed"] != "",
        f"Verdicts leave out such times, and so do medians, unless all runs of a row were disturbed. {TRAIN_AGAIN}",
    ),
    (
        "throttled GPU",
        lambda runs: runs["gpu_throttled"] != "",
        f"Such times are those of a slower GPU. Check its cooling and power limit, {AGAIN}.",
    ),
    (
        "library settings",
        lambda runs: runs["library_settings"] != "",
        f"They may slow a training down, or change it. To measure without them, unset them, {AGAIN}.",
    ),
    (
        "waited for data",
        lambda runs: runs["waited"] != "",
        "Such times measure the loader. Set loader.store to mapped, or give runs more CPUs and loader.jobs.",
    ),
    (
        "resumed elsewhere",
        lambda runs: runs["machines"] > 1,
        f"Such times mix different hardware or settings of libraries. To measure one machine, {AGAIN} there.",
    ),
)
"""Warnings on single runs: kind, which runs, and what to do."""

CAUSES = {"disturbed": "disturbed", "throttled GPU": "gpu_throttled", "library settings": "library_settings"}
"""The columns with the causes of a kind of warning."""


def _about_runs(runs: pd.DataFrame) -> Iterator[Warned]:
    for kind, which, what_to_do in OF_RUNS:
        found = runs[which(runs)]
        if len(found):
            causes = found[CAUSES[kind]].str.split(", ").explode().unique() if kind in CAUSES else ()
            because = f" ({', '.join(causes)})" if len(causes) else ""
            numbers = tuple(sorted(int(number) for number in found["number"]))
            yield Warned(kind, f"{short_list(numbers)}: {kind}{because}.", what_to_do, numbers)


def _unlike_runs(runs: pd.DataFrame) -> Iterator[Warned]:
    """Warnings on runs of one section that differ in more than what is compared."""
    sections = [group for _, group in groups(runs, GROUP)]
    if any(code_versions(group) > 1 for group in sections):
        yield Warned("mixed code", "Different code trained runs of one section.", f"To compare them, {AGAIN}.")
    mixed = [
        f"{framework}: {' or '.join(versions)}"
        for (framework, _), group in groups(runs, ["framework", "loop"])  # a tuned loop may use further packages
        if len(versions := sorted(filter(None, group["versions"].unique()))) > 1
    ]
    if mixed:
        what = f"Runs of one framework had different versions ({'; '.join(mixed)})."
        yield Warned("mixed versions", what, f"Choose one version; for runs of the other, {AGAIN}.")
    if machines := [sentence for group in sections for sentence in mixed_machines(group)]:
        what = "Runs of one section were trained on different machines."
        yield Warned("mixed machines", what, "Train a section on one kind of machine.", details=tuple(machines))
    calls = max(group["calls"].nunique() for group in sections)
    if calls > 1:
        what = f"Runs of one section were trained in {calls} calls of snakemake, and mixed only within a call."
        what_to_do = "Where it matters, delete the records of a section and train it in one call."
        yield Warned("several calls", what, what_to_do)


def _about_pairs(results: Results) -> Iterator[Warned]:
    """Warnings on pairs of trainers: too few repeats, or not certified as the same training."""
    compared = results.comparisons[results.comparisons["dataset"] != DATASET]
    repeats = (compared["pairs"] + compared["left_out"]).groupby([compared[key] for key in GROUP]).max()
    if (repeats < LEAST_PAIRS).any():
        fewest = int(repeats.min())
        what = f"{fewest} repeat{'s are' if fewest != 1 else ' is'} too few for a verdict."
        yield Warned("few repeats", what, f"Set repeats to {LEAST_PAIRS} or more and run snakemake again.")
    refused = results.parity[results.parity["parity"].isin(REFUSED)]
    if len(refused):
        pairs = zip(refused["first"], refused["second"], refused["reason"], strict=True)
        lines = tuple(f"{first} and {second}: {reason}" for first, second, reason in pairs)
        what = f"{len(lines)} pair{'s' if len(lines) > 1 else ''} of trainers not certified to train the same network."
        yield Warned(UNCERTIFIED, what, "They are not ranked. Mend the cause and run snakemake again.", (), lines)


def _about_certificates(results: Results) -> Iterator[Warned]:
    """Warnings on checks that do not cover the code, or the weights, of the runs."""
    sections = [(results.certificates.get(values), group) for values, group in groups(results.runs, GROUP)]
    if lines := [line for certificate, group in sections for line in code_differences(certificate, group)]:
        what = "Runs were trained by other code than was certified."
        what_to_do = "Delete the certificate and the records, and run snakemake again."
        yield Warned("other code certified", what, what_to_do, details=tuple(lines))
    if lines := [line for _, group in sections for line in evaluation_gaps(group)]:
        what = "Not all runs were evaluated and audited by another trainer."
        yield Warned("not evaluated", what, f"Set keep_weights to needed, {AGAIN}.", details=tuple(lines))


def _about_datasets(results: Results) -> Iterator[Warned]:
    """Warnings on image files that are in both splits of a dataset."""
    for name in sorted(set(results.runs["dataset"]) - {DATASET}):
        folder = Path(prepared_in(results.plan["datasets"][name]["folder"]))
        manifest = read_manifest(results.folder / folder)
        if count := manifest.get("identical", 0):
            what = f"{count} of {manifest['samples']['test']} test images of {name} are also training images."
            what_to_do = f"Remove those in {folder.parent}/identical.txt from one split, and run snakemake again."
            yield Warned("images in both splits", what, what_to_do)
