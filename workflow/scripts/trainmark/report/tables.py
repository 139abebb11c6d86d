"""The tables of a section: rows of numbers in a form that one macro prints. A function's docstring is the caption."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from inspect import getdoc
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.report.cells import NO_RATIO, Cell, cells_of
from trainmark.tables.formatting import DISTURBED_NOTE, counted, format_figure, named_runs, troubled
from trainmark.tables.frames import SETTING, groups, longest_runs, rows_of, select_trainer
from trainmark.tables.metrics import CACHE_COUNTS, CURRENCY, KNOWN, METRICS, PHASE_METRICS
from trainmark.tables.numbers import scored_texts
from trainmark.tables.published import TIME_RATIO, WITHIN, counts_within
from trainmark.tables.sections import Section
from trainmark.tables.verdicts import reasons_beside_verdict, verdict_notes
from trainmark.trainer import Trainer

PEAKS = (
    "training_gflop_per_second", "peak_gflop_per_second", "memory_gb_per_second", "peak_share", "machine_peak_share",
)  # fmt: skip
"""The metrics of peaks, which have a table of their own."""

ALWAYS = ("training_seconds", "test_loss", "test_accuracy")
"""Metrics that are shown even if all runs were censored. Other metrics are left out if no run measured them."""


class Entry(NamedTuple):
    """What stands in a column of a row.

    shown: a text, or a cell; "" for links to the runs of the row. ends: of the interval or range below it. below: a
    text below it.
    """

    shown: str | Cell = ""
    ends: tuple[Cell, Cell] | None = None
    below: str = ""

    @property
    def text(self) -> str:
        """What stands there without what is below, as in "1.10 (1.08 to 1.13)"."""
        shown = self.shown.text if isinstance(self.shown, Cell) else self.shown
        if not self.ends or self.ends[0].value == self.ends[1].value:
            return shown
        return f"{shown} ({self.ends[0].text} to {self.ends[1].text})"

    @property
    def is_number(self) -> bool:
        """Whether a number stands there, or the word in place of one."""
        return isinstance(self.shown, Cell) and self.shown.statistic != "verdict"


class Table(NamedTuple):
    """A table of a section.

    rows: of each the numbers of its runs, behind those of its cells that name no others, and its entries.
    lead: sentences before it. most: it is folded if it has more rows. kind: its CSS classes. names: how many of its
    columns name a row. heading: what stands above it; by default its title. note: what follows its caption.
    """

    title: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, list[Entry]]]
    lead: Sequence[str] = ()
    most: int = 10
    kind: str = "sorts"
    names: int = 1
    heading: str = ""
    note: str = ""


def tables(section: Section, columns: list[str], certificate: str) -> list[Table]:
    """The tables of a section that have rows, but for its comparisons. certificate: its file."""
    setting = [*columns, "epochs"]
    first = published_table(section), break_even_table(section), targets_table(section, columns)
    medians = peaks_table(section, setting), medians_table(section, setting)
    last = scored_texts_table(section, setting), parity_table(section, certificate), phases_table(section, setting)
    return [table for table in (*first, *medians, *last) if table.rows]


def medians_of(section: Section, metrics: Collection[str]) -> Iterator[tuple[pd.DataFrame, dict[str, dict]]]:
    """Yield (its runs, its medians by metric) for each setting of a section."""
    medians, runs = section.rows("median"), dict(groups(section.runs, SETTING))
    for setting, own in groups(medians[medians["metric"].isin(metrics)], SETTING):
        yield runs[setting], {row["metric"]: row for row in rows_of(own)}


def too_few(section: Section) -> int | None:
    """The number of repeats of a section's comparisons if it is too small for a verdict. A command never gets one."""
    ratios = section.rows("ratio")
    repeats = LEAST_PAIRS if section.is_command or ratios.empty else int((ratios["runs"] + ratios["left_out"]).max())
    return repeats if repeats < LEAST_PAIRS else None


def _entries(*shown: Entry | Cell | object) -> list[Entry]:
    """The entries of a row. What is neither an entry nor a cell is shown as text."""
    return [one if isinstance(one, Entry) else Entry(one if isinstance(one, Cell) else str(one)) for one in shown]


def _with_ends(row: Mapping) -> Entry:
    """A value with the ends of its interval or range, if it has any."""
    cells = cells_of(row)
    return Entry(cells["value"], None if row["low"] is None else (cells["low"], cells["high"]))


def _caption(function: Callable) -> str:
    return " ".join((getdoc(function) or "").split())


def comparisons_table(section: Section) -> Table:
    """Ratio: metric of the trainer divided by that of the trainer that it is compared with, estimated from pairs of
    runs of the same repeat, with its 95 % interval. The verdicts on one metric in this table are corrected for their
    number. Left out: pairs in which a run diverged, ran out of memory, has a value of 0 or, for times, was disturbed;
    where fewer than 6 are left, times that other work disturbed count within bounds.
    Trainers that do not train the same network are not ranked, and trainers that waited for data get no verdict.
    """
    rows = []
    for row in rows_of(section.rows("ratio")):
        cells, notes = cells_of(row), "; ".join(verdict_notes(row))
        named = Trainer.of(row).name, row["compared_with"], row["epochs"], KNOWN[row["metric"]].heading
        left_out = Entry(cells["left_out"], below=reasons_beside_verdict(row))
        verdict = Entry(cells["verdict"], below=f"({notes})" if notes else "")
        parity = [] if section.is_command else [Entry(row["parity"], below=row["reason"])]
        rows.append((row["run_numbers"], _entries(*named, cells["runs"], left_out, _with_ends(row), verdict, *parity)))
    headings = ["trainer", "compared with", "epochs", "metric", "pairs", "left out", "ratio", "verdict", "parity"]
    heading = "Beside the recipes of the experiment" if section.is_command else "Faster or slower?"
    shown, kind = headings[:-1] if section.is_command else headings, "comparisons sorts filters"
    caption = _caption(comparisons_table)
    return Table("All comparisons", caption, shown, rows, most=20, kind=kind, names=2, heading=heading)


def medians_table(section: Section, columns: list[str], chosen: Collection[str] = METRICS) -> Table:
    """Medians over repeats, with the range (smallest to largest) below. Rows are in the order of the config, not
    ranked.
    """
    units = dict(section.rows("median")[["metric", "unit"]].to_numpy())
    priced = {name: f", {units[name]}" for name, metric in METRICS.items() if metric.unit == CURRENCY}
    shown = {name: METRICS[name].heading + priced.get(name, "") for name in chosen if name not in PEAKS}
    more = {"lead": energy_gaps(section.runs), "kind": "sorts filters"}
    return _medians(section, "Medians", _caption(medians_table), shown, columns, **more)


def energy_gaps(runs: pd.DataFrame) -> list[str]:
    """A sentence for each reason why energy was not measured; it names the runs unless it applies to all."""
    missing = runs[runs["training_joules"].isna()]
    of_reasons = missing.groupby(missing["energy_reason"].fillna("no reason given"), sort=False)["number"]
    return [
        f"Energy{'' if len(own) == len(runs) else f' of {named_runs(own)}'}: not measured ({reason})."
        for reason, own in of_reasons
    ]


def peaks_table(section: Section, columns: list[str]) -> Table:
    """Floating-point operations of the network's training per second of a steady epoch, and their share of the product
    of matrices (float32): that of the run's own framework, and the largest of any run of the campaign on the machine.
    Memory: the bandwidth of STREAM's add. The rest is time for other operations, for calls, and for memory. A share can
    exceed 100 %, because some algorithms for convolutions need fewer operations than are counted. Medians over repeats,
    with the range below.
    """
    metrics = {name: METRICS[name].heading for name in PEAKS}
    return _medians(section, "Share of the peak", _caption(peaks_table), metrics, columns)


def phases_table(section: Section, columns: list[str]) -> Table:
    """Seconds in each phase: medians over the runs of a setting that are ok. The phases of one run add up to its wall
    time; their medians need not. Hits and misses are those of the compilation cache.
    """
    metrics = {name: metric.heading for name, metric in (PHASE_METRICS | CACHE_COUNTS).items()}
    return _medians(section, "Wall time by phase", _caption(phases_table), metrics, columns, most=0)


def scored_texts_table(section: Section, columns: list[str]) -> Table:
    """The first test review of each class, with its place in the test set, from 0: the probability that the trained
    network gives to {}. Medians over repeats, with the range below.
    """
    texts = scored_texts(section.runs)
    classes = {text["label"]: text["class_name"] for text in texts.values()}
    of = f"its being {classes.get(1)}" if max(classes, default=0) <= 1 else "its own class"
    metrics = {name: f"{text['class_name']} (test text {text['index']})" for name, text in texts.items()}
    return _medians(section, "Sample reviews", _caption(scored_texts_table).format(of), metrics, columns)


def _medians(
    section: Section, title: str, caption: str, metrics: Mapping[str, str], columns: list[str], **kind: Any
) -> Table:
    """A table of medians: a row for each setting, a column for each metric that has a value."""
    medians = section.rows("median")
    measured = set(medians["metric"][medians["value"].notna()])
    shown = {name: heading for name, heading in metrics.items() if name in measured or name in ALWAYS}
    rows, note = [], ""
    for of_setting, own in medians_of(section, shown):
        first, *_ = numbers = [own[name] for name in shown]
        last = Entry(below=troubled(of_setting))
        named = (first[key] for key in columns)
        rows.append((first["run_numbers"], _entries(*named, *map(_with_ends, numbers), last)))
        note = DISTURBED_NOTE if any(row["disturbed_times"] for row in numbers) else note
    return Table(title, caption, [*columns, *shown.values(), "runs"], rows, names=len(columns), note=note, **kind)


def published_table(section: Section) -> Table:
    """What others published, and the smallest and largest number of ours after as many epochs, in the runs of all
    trainers. A ratio of times is to the source's fewest epochs. Within: the published number, up to its rounding, is in
    the range of a trainer's runs.
    """
    published, rows = section.rows("published"), []
    for (source, epochs, metric), own in groups(published, ["compared_with", "epochs", "metric"]):
        first, *_ = found = rows_of(own.assign(low=own["low"].min(), high=own["high"].max()))
        runs = " ".join(row["run_numbers"] for row in found)
        heading = KNOWN[metric].heading if metric != TIME_RATIO else "training time, ratio"
        ends = (
            Cell(_figure(metric, first[end], "diverged"), runs, metric, f"published_{end}", first[end])
            for end in ("low", "high")
        )
        texts = source, epochs, heading, _figure(metric, first["value"], "not a number")
        rows.append((runs, _entries(*texts, *ends, _within(found))))
    headings = ["published by", "epochs", "metric", "published", "smallest", "largest", "within"]
    lead = [f"{line}." for line in counts_within(published)]
    return Table("Published results", _caption(published_table), headings, rows, lead)


def _figure(metric: str, value: float | None, otherwise: str) -> str:
    return otherwise if value is None else format_figure(metric, value)


def _within(of_trainers: Sequence[Mapping]) -> str:
    """In how many trainers a published number lies within, and which experiment explains it if in none."""
    judged = [row["verdict"] for row in of_trainers]
    count = judged.count(WITHIN)
    if count == len(judged) or not any(judged):
        return "yes" if count else ""
    explained = next((f"; explained by {row['reason']}" for row in of_trainers if row["reason"]), "")
    return (f"in {count} of {counted(len(judged), 'trainer')}" if count else "no") + explained


def break_even_table(section: Section) -> Table:
    """The number of epochs at which both trainers take the same time, computed from the fixed part and the part per
    epoch of the runs with the most epochs, with its 95 % interval.
    """
    rows = []
    for row in rows_of(section.rows("break_even")):
        time = KNOWN[row["metric"]].heading.removesuffix(", s")
        rows.append((row["run_numbers"], _entries(Trainer.of(row).name, row["compared_with"], time, _with_ends(row))))
    headings = ["faster after it", "faster before it", "time", "break-even, epochs"]
    return Table("Break-even", _caption(break_even_table), headings, rows, names=2)


def targets_table(section: Section, columns: list[str]) -> Table:
    """Training time until the target accuracy that the config set: median over the runs with the most epochs, and its
    95 % interval. A run that did not reach it counts as longer.
    """
    reached = {Trainer.of(row): row for row in rows_of(section.rows("reached"))}
    runs, rows = longest_runs(section.runs), []
    for row in rows_of(section.rows("median_time_to_accuracy")):
        trainer = Trainer.of(row)
        target = format_figure("test_accuracy", select_trainer(runs, trainer)["target_accuracy"].iloc[0])
        numbers = cells_of(reached[trainer])["value"], _with_ends(row), f"{row['runs']} runs"
        rows.append((row["run_numbers"], _entries(*(row[key] for key in columns), target, *numbers)))
    headings = [*columns, "target", "reached", "median, s", "of"]
    return Table("Time to accuracy", _caption(targets_table), headings, rows, names=len(columns))


def parity_table(section: Section, certificate: str) -> Table:
    """The class of each pair in float64; then how far the losses of the steps agree in pairs of runs with the same
    initial weights and batches. Median and largest are of the largest relative difference in the first steps. The last
    column says in how many first epochs the losses still agree so well that another order of the batches would show.
    Rounding alone makes two float32 runs diverge: slowly as a rule, but at once if a hidden unit lies on different
    sides of ReLU's kink in the two runs. The largest value is then far above the median. With dropout, each framework
    draws its own masks.
    """
    agreement: dict[frozenset, list[dict]] = {}
    metrics = ("step_losses", "compared_steps", "ordered_epochs")
    for row in rows_of(section.numbers[section.numbers["metric"].isin(metrics)]):
        agreement.setdefault(frozenset((Trainer.of(row).name, row["compared_with"])), []).append(row)
    rows = []
    for pair in rows_of(section.parity):
        found = agreement.get(frozenset((pair["first"], pair["second"])), [])
        numbers: list[str | Cell] = [NO_RATIO] * 4
        if found:  # always in this order
            losses, steps, epochs = map(cells_of, found)
            in_order = epochs["value"]._replace(text=f"{epochs['value'].text} of {epochs['high'].text}")
            numbers = [steps["value"], losses["value"], losses["high"], in_order]
        parity = Entry(pair["parity"], below=pair["reason"])
        entries = _entries(pair["first"], pair["second"], parity, *numbers)
        rows.append((found[0]["run_numbers"] if found else "", entries))
    headings = ["first", "second", "class", "steps", "median over pairs of runs", "largest", "epochs in order"]
    link = Markup(' <a href="../{}">Certificate</a> with all differences.').format(certificate) if certificate else ""
    heading = "Parity: do all trainers train the same network?"
    caption = _caption(parity_table) + link
    return Table("Parity of all pairs", caption, headings, rows, names=2, heading=heading)
