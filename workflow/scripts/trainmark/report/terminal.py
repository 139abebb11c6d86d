"""The summary that is printed in the terminal at the end of a workflow."""

from collections.abc import Iterator, Mapping

import pandas as pd
from tabulate import tabulate

from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.plan.run import group_title
from trainmark.recipes.command import DATASET
from trainmark.records.sentences import pair_lines
from trainmark.report.standings import OF_VARIANTS
from trainmark.tables.comparisons import Certificates
from trainmark.tables.consistency import code_differences
from trainmark.tables.formatting import DISTURBED_MARK, DISTURBED_NOTE, censored_counts, counted, summary_figure
from trainmark.tables.mixed_environments import TRAIN_AGAIN, disturbances, mixtures
from trainmark.tables.published import counts_within
from trainmark.tables.run_checks import evaluation_gaps
from trainmark.tables.tables import GROUP, METRICS, groups, rows_of, select_group, shown_of_trainers, summary_table
from trainmark.tables.variants import runs_of_variants
from trainmark.tables.verdicts import format_comparison, format_verdict, not_ranked
from trainmark.tables.waiting import waiting_sentences

SHOWN = ("training_seconds", "test_loss", "test_accuracy")
"""The metrics shown in the terminal; the report shows all."""

COMPARED_SHOWN = {"training_seconds": "training time", "test_accuracy": "test accuracy"}
"""The metrics whose verdicts are shown, each in words."""

OF_SECTIONS = ("runs", "published", "comparisons", "parity")
"""The tables of which a section shows its rows."""

MOST_RATIOS = 12
"""Largest number of ratios of a metric that are shown of a section."""


def terminal_text(tables: Mapping[str, pd.DataFrame], certificates: Certificates) -> str:
    """The summary, section by section: medians, published results, mixed environments, parity and comparisons; then
    the disturbed runs of all sections, and the claims.

    tables: by name; see `collected`.
    """
    runs = tables["runs"]
    parts, columns = list(_of_variants(runs_of_variants(runs), tables["variants"])), shown_of_trainers(runs)
    for values, rows in groups(tables["summary"], GROUP):
        experiment, recipe, dataset = values
        of_group = {name: select_group(tables[name], values) for name in OF_SECTIONS}
        title = group_title(recipe, dataset)
        parts.append(f"{experiment}: {title} (medians over the runs of a row)\n{_medians(rows, columns)}")
        if lines := counts_within(of_group["published"]):
            parts.append("\n  ".join(["Published results:", *lines]))
        section_runs = of_group["runs"]
        parts += mixtures(section_runs) + code_differences(certificates.get(values), section_runs)
        parts += waiting_sentences(section_runs) + evaluation_gaps(section_runs)
        if values in certificates:
            lines = list(pair_lines(certificates[values]["pairs"]))
            parts.append("\n  ".join(["Parity check (float64), per pair of trainers:", *lines]))
        compared = of_group["comparisons"]
        if dataset == DATASET:
            parts.append("Not certified: nothing shows what a command trains, so it is not ranked.")
            steady = compared[compared["metric"] == "steady_epoch_seconds"]
            parts += [_ratios(steady, "the time of a steady epoch")] if len(steady) else []
            continue
        told = {pair["sentence"] for pair in certificates.get(values, {"pairs": []})["pairs"]}
        if lines := not_ranked(of_group["parity"][~of_group["parity"]["reason"].isin(told)]):
            parts.append("\n  ".join(lines))  # those that are refused because of their runs
        if len(compared):
            parts += _comparisons(compared)
    parts += [f"{sentence} {TRAIN_AGAIN}" for sentence in disturbances(runs)]
    if len(tables["claims"]):
        claims = [f"{row['status']}: {row['says']} ({row['sentence']})" for row in rows_of(tables["claims"])]
        parts.append("\n  ".join(["Claims:", *claims]))
    return "\n\n".join(parts) + "\n"


def _of_variants(named: pd.DataFrame, comparisons: pd.DataFrame) -> Iterator[str]:
    """The medians and comparisons of variants. named: see `runs_of_variants`."""
    for values, group in groups(named, GROUP):
        experiment, recipe, dataset = values
        title = f"{experiment}: {group_title(recipe, dataset)}, {counted(group['variant'].nunique(), 'variant')}"
        yield f"{title} (medians over the runs of a row)\n{_medians(summary_table(group), shown_of_trainers(group))}"
        compared = select_group(comparisons, values)
        if len(compared):
            yield "\n".join(f"{reason}." for reason in compared["reason"].unique())
            yield from _comparisons(compared, OF_VARIANTS)


def _medians(summary: pd.DataFrame, columns: list[str]) -> str:
    """The table of medians. columns: those of the trainers."""
    rows = []
    for row in summary.to_dict("records"):
        figures = [summary_figure(row, metric, "median") for metric in SHOWN]
        trainer = [row[key] for key in columns]
        rows.append([*trainer, row["epochs"], censored_counts(row) or row["runs"], *figures])
    headings = [*columns, "epochs", "runs", *(METRICS[metric] for metric in SHOWN)]
    aligned = ["left"] * len(columns) + ["right"] * (len(headings) - len(columns))
    table = tabulate(rows, headings, tablefmt="simple", disable_numparse=True, colalign=aligned)
    is_marked = any(str(cell).endswith(DISTURBED_MARK) for row in rows for cell in row)
    return f"{table}\n{DISTURBED_NOTE}" if is_marked else table


def _comparisons(comparisons: pd.DataFrame, shown: Mapping[str, str] = COMPARED_SHOWN) -> list[str]:
    """A paragraph on each of the metrics shown; only one line if repeats are too few for a verdict."""
    repeats = (comparisons["pairs"] + comparisons["left_out"]).max()
    if repeats < LEAST_PAIRS:
        repeated = f"{repeats} repeat{'s' if repeats > 1 else ''}"
        return [f"Faster or slower? {repeated}: too few for a verdict ({LEAST_PAIRS} needed)"]
    by_metric = {metric: comparisons[comparisons["metric"] == metric] for metric in shown}
    return [_ratios(rows, shown[metric]) for metric, rows in by_metric.items() if len(rows)]


def _ratios(comparisons: pd.DataFrame, what: str) -> str:
    """A line per pair of trainers and number of epochs; if these are many, only at the largest number."""
    if len(comparisons) > MOST_RATIOS:
        comparisons = comparisons[comparisons["epochs"] == comparisons["epochs"].max()]
    rows = [
        [
            f"  {row['second']} against {row['first']}",
            f"{row['epochs']} epochs",
            "" if pd.isna(row["ratio"]) else format_comparison(row),  # else the verdict says why
            format_verdict(row),
        ]
        for row in comparisons.to_dict("records")
    ]
    heading = f"Ratios of {what}, each with its 95 % interval (all comparisons are in the report):"
    return "\n".join([heading, tabulate(rows, tablefmt="plain", disable_numparse=True, preserve_whitespace=True)])
