"""The summary that is printed in the terminal at the end of a workflow. terminal.j2 has its form."""

import re
from collections.abc import Iterator, Mapping

import pandas as pd
from tabulate import tabulate

from trainmark.records.sentences import pair_lines
from trainmark.report.standings import OF_VARIANTS
from trainmark.report.tables import ALWAYS, medians_table, too_few
from trainmark.report.templates import templates
from trainmark.report.warnings import section_remarks
from trainmark.tables.formatting import with_interval
from trainmark.tables.frames import rows_of, shown_of_trainers
from trainmark.tables.published import counts_within
from trainmark.tables.remarks import TRAIN_AGAIN, disturbances, missing_lines
from trainmark.tables.sections import Results, Section
from trainmark.tables.verdicts import not_ranked, verdict_notes
from trainmark.trainer import Trainer

COMPARED_SHOWN = {"training_seconds": "training time", "test_accuracy": "test accuracy"}
"""The metrics whose verdicts are shown, each in words."""

OF_COMMANDS = {"steady_epoch_seconds": "the time of a steady epoch"}

MOST_RATIOS = 12
"""Largest number of ratios of a metric that are shown of a section."""


def terminal_text(results: Results) -> str:
    """The summary, section by section: medians, published results, mixed environments, parity and comparisons; then
    the disturbed runs of all sections, and the claims.
    """
    columns = shown_of_trainers(results.runs)
    template = templates().get_template("terminal.j2")
    text = template.render(
        missing=missing_lines(results.plan),
        sections=[_section(one, columns) for one in results.sections],
        disturbances=[f"{one} {TRAIN_AGAIN}" for one in disturbances(results.runs)],
        claims=results.claims,
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _section(section: Section, columns: list[str]) -> dict:
    """The values of the template of a section. columns: those of the trainers."""
    ratios, pairs = section.rows("ratio"), section.certificate["pairs"] if section.certificate else []
    told = section.parity["reason"].isin([pair["sentence"] for pair in pairs])
    differences = "\n".join(f"{reason}." for reason in ratios["reason"].unique()) if section.has_variants else ""
    shown = OF_VARIANTS if section.has_variants else OF_COMMANDS if section.is_command else COMPARED_SHOWN
    return {
        "of": section,
        "medians": _medians(section, columns),
        "published": counts_within(section.numbers),
        "remarks": [differences] if differences else section_remarks(section),
        "pairs": list(pair_lines(pairs)),
        "refused": not_ranked(section.parity[~told]),  # because of their runs
        "too_few": too_few(section),
        "ratios": dict(_ratios(ratios, shown)) if too_few(section) is None else {},
    }


def _medians(section: Section, columns: list[str]) -> str:
    """The table of medians."""
    table, names = medians_table(section, [*columns, "epochs"], ALWAYS), len(columns) + 1
    rows = []
    for runs, entries in table.rows:
        *texts, _ = (entry._replace(ends=None).text for entry in entries)
        rows.append([*texts[:names], entries[-1].below or len(runs.split()), *texts[names:]])
    headings = [*table.headings[:names], "runs", *table.headings[names:-1]]
    aligned = ["left"] * len(columns) + ["right"] * (len(headings) - len(columns))
    text = tabulate(rows, headings, tablefmt="simple", disable_numparse=True, colalign=aligned)
    return "\n".join(filter(None, [text, table.note]))


def _ratios(ratios: pd.DataFrame, shown: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (metric in words, a line per pair and number of epochs; if these are many, only at the largest number)."""
    for metric, what in shown.items():
        chosen = ratios[ratios["metric"] == metric]
        if len(chosen) > MOST_RATIOS:
            chosen = chosen[chosen["epochs"] == chosen["epochs"].max()]
        rows = [
            [
                f"  {Trainer.of(row).name} against {row['compared_with']}",
                f"{row['epochs']} epochs",
                with_interval(row),
                row["verdict"] + (f" ({'; '.join(notes)})" if (notes := verdict_notes(row)) else ""),
            ]
            for row in rows_of(chosen)
        ]
        if rows:
            yield what, tabulate(rows, tablefmt="plain", disable_numparse=True, preserve_whitespace=True)
