"""The texts of the kit: numbers, tables, methods, references and the example."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import jinja2

from trainmark.paper.numbers import key_of, versions_of
from trainmark.report.figures.caption import for_latex
from trainmark.report.figures.style import ONE_COLUMN, TWO_COLUMNS
from trainmark.report.tables import ALWAYS, medians_table
from trainmark.tables.formatting import absent_word, with_interval
from trainmark.tables.frames import rows_of, shown_of_trainers
from trainmark.tables.metrics import METRICS
from trainmark.tables.sections import Results, Section
from trainmark.trainer import Trainer

FOLDER = Path(__file__).parent

MOST_ROWS = 48
"""A table with more rows is divided, so that each part fits a page."""

LETTERS = [first + second for first in ("", *ascii_uppercase) for second in ascii_uppercase]
"""What stands for a verdict that is too long for its cell."""

OF_DATASETS = {name: name for name in ("digits", "fashion-mnist", "mnist", "imdb", "imagenette")}
OF_DATASETS["imagenet"] = "imagenette ilsvrc2012 mini-imagenet"
"""How the names of datasets begin that have an entry in references.bib, by its key."""

Table = tuple[Sequence[str], list[list[str]], list[str]]
"""The headings of a table, the cells of its rows, and the notes below it."""


def texts_of(
    results: Results, numbers: Sequence[Mapping], figures: Mapping[tuple[str, str, str], Mapping[str, float]]
) -> Iterator[tuple[str, str]]:
    """Yield (file, its text). figures: of each group, the width in inches of each figure by its path."""
    templates = jinja2.Environment(  # noqa: S701 - LaTeX has no tags
        *("<%", "%>", "<<", ">>", "<#", "#>", "%%"),  # around blocks, values and comments, and before lines
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["latex"] = lambda value: for_latex(value) if isinstance(value, str) else str(value)
    yield "numbers.tex", templates.get_template("numbers.tex.j2").render(numbers=numbers)
    yield "numbers.json", json.dumps({number["key"]: number for number in numbers}, indent=1) + "\n"
    methods = json.loads((results.folder / "summary.json").read_text(encoding="utf-8"))["methods"]
    heading = "% {}\n" if len(methods) == 1 else "\\paragraph{{{}.}}\n"
    paragraphs = (f"{heading.format(for_latex(one['title']))}{for_latex(one['text'])}\n" for one in methods)
    yield "methods.tex", "\n".join(paragraphs)
    yield "references.bib", "\n".join(_references(versions_of(results.runs), results.runs["dataset"].unique()))
    sections, columns = [], [*shown_of_trainers(results.runs), "epochs"]
    for section in results.sections:
        ratios, shown = _ratios(section), {}
        tables = {"medians": _medians(section.named, columns), "comparisons": _comparisons(ratios)}
        for name, (headings, rows, notes) in tables.items():
            for start in range(0, len(rows), MOST_ROWS):
                path = f"tables/{'/'.join(section.group)}/{name}{f'-{start // MOST_ROWS + 1}' if start else ''}"
                values: dict[str, Any] = {"headings": headings, "rows": rows[start : start + MOST_ROWS], "notes": notes}
                yield f"{path}.tex", templates.get_template("table.tex.j2").render(values)
                shown[path] = name
        longest = section.runs["epochs"].max()
        named = [row for row in ratios if row["epochs"] == longest and row["value"] is not None]
        sections.append((" ".join(section.group), named, shown, figures[section.group]))
    values = {"sections": sections, "one_column": ONE_COLUMN, "two_columns": TWO_COLUMNS}
    yield "example.tex", templates.get_template("example.tex.j2").render(values)


def _medians(section: Section, columns: list[str]) -> Table:
    """Medians with the smallest and the largest run."""
    table = medians_table(section, columns, ALWAYS)
    rows = [[entry.text.replace(" %", "") for entry in entries[:-1]] for _, entries in table.rows]
    shares = {METRICS[name].heading for name in ALWAYS if METRICS[name].unit == "share"}
    headings = [f"{heading}, %" if heading in shares else heading for heading in table.headings[:-1]]
    return headings, rows, [table.note] if table.note else []


def _ratios(section: Section) -> list[dict]:
    """The rows of ratios of training times with their keys and the names of their trainers."""
    rows, named = (rows_of(one.rows("ratio", "training_seconds")) for one in (section, section.named))
    keys = map(key_of, rows)
    return [row | {"key": key, "trainer": Trainer.of(row).name} for key, row in zip(keys, named, strict=True)]


def _comparisons(ratios: Iterable[Mapping]) -> Table:
    """Ratios with their verdicts. What is longer than a verdict stands below them, by a letter."""
    long = dict.fromkeys(row["verdict"] for row in ratios if absent_word(row["verdict"]) != row["verdict"])
    letters = dict(zip(long, LETTERS, strict=False))
    short = {verdict: f"{absent_word(verdict)} ({letter})" for verdict, letter in letters.items()}
    rows = []
    for row in ratios:
        verdict = short.get(row["verdict"], row["verdict"])
        rows.append([f"{row['trainer']} / {row['compared_with']}", str(row["epochs"]), with_interval(row), verdict])
    notes = [f"({letter}) {verdict}" for verdict, letter in letters.items()]
    return ["training time of", "epochs", "ratio (95 % interval)", "verdict"], rows, notes


def _references(versions: Mapping[str, str], datasets: Iterable[str]) -> Iterator[str]:
    """Yield the entries of references.bib for packages, each with its version, and for datasets."""
    for entry in re.split(r"\n(?=@)", (FOLDER / "references.bib").read_text(encoding="utf-8").strip()):
        key = entry.partition("{")[2].partition(",")[0]
        if key in versions:
            yield f"{entry.removesuffix('}')},\n  note = {{Version {versions[key]}}}}}\n"
        elif any(name.startswith(tuple(OF_DATASETS.get(key, "").split())) for name in datasets):
            yield f"{entry}\n"
