"""The warnings of the first screen: what a reader must know before the numbers, and what to do about it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from trainmark.datasets.prepared import read_manifest
from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.plan.products import prepared_in
from trainmark.plan.run import Run, of_trainer
from trainmark.recipes.command import DATASET
from trainmark.report.tables import too_few
from trainmark.tables import remarks
from trainmark.tables.formatting import counted, number_ranges
from trainmark.tables.frames import rows_of
from trainmark.tables.remarks import LEFT_OUT, LOAD_FASTER, TRAIN_AGAIN
from trainmark.tables.sections import Results, Section
from trainmark.tables.verdicts import not_ranked

MOST_RANGES = 8
"""If the numbers of runs form more ranges than this, the rest is only counted."""

AGAIN = "delete their records and run snakemake again"

UNCERTIFIED = "uncertified pairs"


class Warned(NamedTuple):
    """A warning: its kind for machines, what is the matter, and how to mend it.

    runs: the numbers of the runs that it is about; empty if it is about no single runs. details: further lines.
    """

    kind: str
    what: str
    what_to_do: str
    runs: tuple[int, ...] = ()
    details: tuple[str, ...] = ()


def warnings(results: Results) -> list[Warned]:
    """All warnings on a campaign, those that touch the results most first."""
    return [
        *_missing(results.plan),
        *_of_other_code(results.runs, results.plan),
        *_about_runs(results.runs),
        *_about_pairs(results),
        *_about_sections([one for one in results.sections if not one.has_variants]),
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
    if lines := remarks.missing_lines(plan):
        what, _, what_to_do = lines[0].partition(". ")
        yield Warned("missing runs", f"{what}.", what_to_do, details=tuple(lines[1:]))


def _of_other_code(runs: pd.DataFrame, plan: Mapping) -> Iterator[Warned]:
    """A warning on runs of other code than the workflow's, which a config can ask to keep (any_code)."""
    of = {run["number"]: (of_trainer(Run.of(run)), run["code_sha256"]) for run in rows_of(runs) if plan["any_code"]}
    other = sorted(number for number, (job, code) in of.items() if plan["jobs"][job]["code"]["sha256"] != code)
    if other:
        what = f"{short_list(other)}: trained by other code of trainmark than this clone's."
        yield Warned("other code", what, "To train them with this code, leave out any_code.", tuple(other))


OF_RUNS: tuple[tuple[str, Callable[[pd.DataFrame], pd.Series], str], ...] = (
    ("diverged", lambda runs: runs["status"] == "diverged",
     "The loss became NaN or infinite; no median counts it. Check the settings, above all the learning rate."),
    ("out of memory", lambda runs: runs["status"] == "out_of_memory",
     "No median counts it. Set a smaller batch_size or a larger memory_limit_mib, or use a larger machine."),
    ("disturbed", lambda runs: runs["disturbed"] != "",
     f"{LEFT_OUT} {TRAIN_AGAIN}"),
    ("throttled GPU", lambda runs: runs["gpu_throttled"] != "",
     f"Such times are those of a slower GPU. Check its cooling and power limit, {AGAIN}."),
    ("library settings", lambda runs: runs["library_settings"] != "",
     f"They may slow a training down, or change it. To measure without them, unset them, {AGAIN}."),
    ("waited for data", lambda runs: runs["waited"] != "",
     LOAD_FASTER),
    ("resumed elsewhere", lambda runs: runs["machines"] > 1,
     f"Such times mix different hardware or settings of libraries. To measure one machine, {AGAIN} there."),
)  # fmt: skip
"""Warnings on single runs: kind, which runs, and what to do."""

CAUSES = {"disturbed": "disturbed", "throttled GPU": "gpu_throttled", "library settings": "library_settings"}
"""The columns with the causes of a kind of warning."""


def _about_runs(runs: pd.DataFrame) -> Iterator[Warned]:
    for kind, which, what_to_do in OF_RUNS:
        found = runs[which(runs)]
        if len(found):
            causes = found[CAUSES[kind]].str.split(", ").explode().unique() if kind in CAUSES else ()
            because = f" ({', '.join(causes)})" if len(causes) else ""
            numbers = sorted(found["number"].tolist())
            yield Warned(kind, f"{short_list(numbers)}: {kind}{because}.", what_to_do, tuple(numbers))


OF_SECTIONS: tuple[tuple[str, Callable[[Section], list[str]], str, str], ...] = (
    ("mixed code", lambda one: remarks.mixed_code(one.runs),
     "Different code trained runs of one section.", f"To compare them, {AGAIN}."),
    ("mixed versions", lambda one: remarks.mixed_versions(one.runs),
     "Runs of one framework had different versions.", f"Choose one version; for runs of the other, {AGAIN}."),
    ("mixed machines", lambda one: remarks.mixed_machines(one.runs),
     "Runs of one section were trained on different machines.", "Train a section on one kind of machine."),
    ("mixed settings", lambda one: remarks.mixed_settings(one.runs),
     "Runs of one section had different settings of libraries.", f"To compare them, {AGAIN} without them."),
    ("several calls", lambda one: remarks.mixed_calls(one.runs),
     "Runs of one section were trained in several calls of snakemake, and mixed only within a call.",
     "Where it matters, delete the records of a section and train it in one call."),
    ("other code certified", lambda one: remarks.code_differences(one.certificate, one.runs),
     "Runs were trained by other code than was certified.", f"Delete the certificate, and {AGAIN}."),
    ("not evaluated", lambda one: [] if one.has_variants else remarks.evaluation_gaps(one.runs),
     "Not all runs were evaluated and audited by another trainer.", f"Set keep_weights to needed or true, {AGAIN}."),
)  # fmt: skip
"""Warnings on the runs of a section: kind, sentences on it, what they say of all, and what to do."""


def section_remarks(section: Section) -> list[str]:
    """The sentences of all warnings on a section, and those on its compilation and on runs that waited."""
    found = [f"{line} {what_to_do}" for _, sentences, _, what_to_do in OF_SECTIONS for line in sentences(section)]
    return [*found, *remarks.mixed_compilation(section.runs), *remarks.waiting_sentences(section.runs)]


def _about_sections(sections: Iterable[Section]) -> Iterator[Warned]:
    for kind, sentences, what, what_to_do in OF_SECTIONS:
        if lines := tuple(line for section in sections for line in sentences(section)):
            yield Warned(kind, what, what_to_do, details=lines)


def _about_pairs(results: Results) -> Iterator[Warned]:
    """Warnings on pairs of trainers: too few repeats, or not certified as the same training."""
    repeats = [count for one in results.sections if not one.has_variants and (count := too_few(one)) is not None]
    if repeats:
        what = f"{counted(min(repeats), 'repeat')} {'is' if min(repeats) == 1 else 'are'} too few for a verdict."
        yield Warned("few repeats", what, f"Set repeats to {LEAST_PAIRS} or more and run snakemake again.")
    if lines := tuple(not_ranked(results.parity)):
        what = f"{counted(len(lines), 'pair')} of trainers not certified to train the same network."
        yield Warned(UNCERTIFIED, what, "They are not ranked. Mend the cause and run snakemake again.", (), lines)


def _about_datasets(results: Results) -> Iterator[Warned]:
    """Warnings on image files that are in both splits of a dataset."""
    for name in sorted(set(results.runs["dataset"]) - {DATASET}):
        folder = Path(prepared_in(results.plan["datasets"][name]["folder"]))
        manifest = read_manifest(results.folder / folder)
        if count := manifest.get("identical", 0):
            what = f"{count} of {manifest['samples']['test']} test images of {name} are also training images."
            what_to_do = f"Remove those in {folder.parent}/identical.txt from one split, and run snakemake again."
            yield Warned("images in both splits", what, what_to_do)
