"""Makes all that a results folder holds of its records: tables, figures and report, as the rules of the workflow do."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.files.whole import write_text
from trainmark.plan.figures import known_figures
from trainmark.report.collected import collected, write_tables
from trainmark.report.figures.data import options_of, read_data
from trainmark.report.figures.save import save_figures
from trainmark.report.page import render
from trainmark.tables.sections import Results, read_results


def make_tables_and_figures(plan: Mapping, folder: Path, out: Path) -> Results:
    """Make tables and figures, and return the results. folder: of the records. out: the results folder, with its plan.

    Raises RecordError or CertificateError if a source file can't be read or does not fit the others.
    """
    write_tables(*collected(plan, folder), plan, out / "tables")
    results = read_results(out)
    for section in results.sections:
        data = read_data(section, out, options_of(section, plan["config"]["figures"]))
        save_figures(data, out.joinpath("figures", *section.group), known_figures())
    return results


def make_report(results: Results) -> None:
    """Make the report and summary.json. Raises DataError if a dataset's manifest can't be read."""
    for name, text in zip(("report/index.html", "summary.json"), render(results), strict=True):
        write_text(results.folder / name, text)
