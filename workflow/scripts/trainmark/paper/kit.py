"""Makes the folder of the paper kit from the tables, the summary and the figures of a campaign."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from trainmark.errors import DataError, HangError
from trainmark.files.whole import write_text, written_whole
from trainmark.machine.programs import run_program
from trainmark.paper.latex import numbers_file, tables
from trainmark.paper.numbers import Number, numbers_of, versions_of
from trainmark.paper.references import references
from trainmark.plan.figures import known_figures, options_of_group
from trainmark.plan.products import PAPER_FILES
from trainmark.report.figures.caption import for_latex
from trainmark.report.figures.data import read_data
from trainmark.report.figures.options import STYLES, FigureOptions
from trainmark.report.figures.save import laid_out, write_figure
from trainmark.report.figures.style import ONE_COLUMN, TWO_COLUMNS
from trainmark.report.figures.text import lettered
from trainmark.tables.formatting import DISTURBED_MARK, format_figure, summary_figure
from trainmark.tables.mixed_environments import causes_of
from trainmark.tables.results import Results, read_results
from trainmark.tables.tables import rows_of, select_group, summary_table, with_names
from trainmark.tables.verdicts import absent_word, format_comparison
from trainmark.trainer import Trainer

FIGURE_KINDS = ("pdf", "svg", "caption.tex", "details.tex")

EXAMPLE_PDF = "example.pdf"

MEDIANS = {"training_seconds": "training time, s", "test_loss": "test loss", "test_accuracy": "test accuracy, %"}

MOST_GROUPS = 3
"""Number of sections that the example shows."""

NO_LATEX = "; example.tex was not compiled: there is no latexmk (in Debian with texlive-latex-recommended and lmodern)"

REPRODUCIBLE = {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
"""Environment variables with which the same source gives the same PDF, byte for byte."""

SETS_TEX = re.compile("^TEX|(INPUTS|FONTS)$|[a-z]")
"""Names of environment variables that set what TeX reads and prints."""

TOLD = re.compile(r"^(!.*|.*(not found|can't find|error while).*)$", re.IGNORECASE | re.MULTILINE)
"""The line in which a program says why LaTeX ended. latexmk's own last lines say only that it did."""


def make_kit(folder: Path, plan: Mapping, out: Path, *, compiles: bool = True) -> str:
    """Write the kit, and return a line on what was made. Files of the user's in its folder stay.

    All of it is made in a scratch folder first, so that a call that is stopped leaves the kit before it.

    folder: the results folder. plan: see `plan_file.read_plan`. out: folder of the kit. compiles: whether the
        example is compiled where LaTeX is installed.

    Raises DataError if the user has a file of their own by a name of the kit's.
    """
    results, numbers = read_results(folder), list(numbers_of(folder / "tables"))
    with TemporaryDirectory() as scratch:
        kit = Path(scratch)
        figures = dict(_figures(folder, plan["config"]["figures"], results, kit))
        texts = dict(_texts(results, numbers))
        texts["example.tex"] = _example(results, numbers, figures, texts)
        for name, text in texts.items():
            write_text(kit / name, text)
        problem = _compile(kit) if compiles else ""
        _replace(out, kit)
    return f"{len(numbers)} numbers in {out}/numbers.tex{problem}"


def _texts(results: Results, numbers: list[Number]) -> Iterator[tuple[str, str]]:
    """Yield (file, its text) of all but the example."""
    yield "numbers.tex", numbers_file(numbers)
    yield "numbers.json", json.dumps({one.key: asdict(one) for one in numbers}, indent=1) + "\n"
    summary = json.loads((results.folder / "summary.json").read_text(encoding="utf-8"))
    told = [(one["title"], one["text"]) for one in summary["methods"]]
    heading = "% {}\n" if len(summary["methods"]) == 1 else "\\paragraph{{{}.}}\n"
    paragraphs = [f"{heading.format(for_latex(title))}{for_latex(text)}\n" for title, text in told]
    yield "methods.tex", "\n".join(paragraphs)
    yield "references.bib", references(versions_of(results.runs), results.runs["dataset"].unique())
    for of_group, name, runs in results.groups():
        place = "/".join(name)
        rows = [
            [Trainer.of(row).name, str(row["epochs"]), *(_with_range(row, metric) for metric in MEDIANS)]
            for row in rows_of(summary_table(with_names(runs)))
        ]
        is_marked = any(DISTURBED_MARK in cell for row in rows for cell in row)
        note = f"{DISTURBED_MARK} All runs behind this time were disturbed ({causes_of(runs)})." if is_marked else ""
        yield from tables(
            f"tables/{place}/medians", ["trainer", "epochs", *MEDIANS.values()], rows, filter(None, [note])
        )
        compared = select_group(of_group.comparisons, name)
        compared = compared[compared["metric"] == "training_seconds"]
        reasons = lettered(verdict for verdict in compared["verdict"] if absent_word(verdict) != verdict)
        rows = [
            [
                f"{row['second']} / {row['first']}",
                str(row["epochs"]),
                "" if row["ratio"] is None else format_comparison(row),
                f"{absent_word(row['verdict'])} ({reasons[row['verdict']]})"
                if row["verdict"] in reasons
                else row["verdict"],
            ]
            for row in rows_of(compared)
        ]
        headings = ["training time of", "epochs", "ratio (95 % interval)", "verdict"]
        notes = [f"({letter}) {reason}" for reason, letter in reasons.items()]
        yield from tables(f"tables/{place}/comparisons", headings, rows, notes)


def _with_range(row: Mapping, metric: str) -> str:
    low, high = (row[f"{metric}_{end}"] for end in ("min", "max"))
    median, is_single = summary_figure(row, metric, "median"), low is None or low == high
    text = median if is_single else f"{median} ({format_figure(metric, low)} to {format_figure(metric, high)})"
    return text.replace(" %", "")


def _figures(
    folder: Path, chosen: Mapping, results: Results, out: Path
) -> Iterator[tuple[tuple[str, str, str], dict[str, float]]]:
    """Draw the figures of each group in the style for a paper; yield (group, the width in inches of each by its path).

    Those that show nothing are left out.
    """
    for _, group, runs in results.groups():
        of_group = options_of_group(chosen, {str(Trainer.of(row)) for row in rows_of(runs)})
        options = FigureOptions.of({"style": STYLES[1]} | of_group)
        data, widths = read_data(group, folder, options), {}
        for name in known_figures():
            drawn = laid_out(name, data)
            if drawn.shows:
                path = f"figures/{'/'.join(group)}/{name}"
                widths[path] = float(drawn.figure.get_size_inches()[0])
                for kind in FIGURE_KINDS:
                    write_figure(drawn, out / f"{path}.{kind}")
        yield group, widths


def kit_files(folder: Path) -> set[str]:
    """Return the paths, in the folder of a kit, of what was made there. Raises DataError if the list is not ours."""
    listed = folder / PAPER_FILES
    if not os.path.lexists(listed):
        return set()
    with suppress(FileNotFoundError, IsADirectoryError, ValueError, RecursionError, TypeError):
        names = json.loads(listed.read_text(encoding="utf-8"))
        leaves = any(Path(name).is_absolute() or ".." in Path(name).parts for name in names)  # TypeError: not of texts
        if isinstance(names, list) and PAPER_FILES in names and not leaves:
            return set(names)
    raise DataError(f"{listed} is not one that trainmark wrote: rename yours")


def _replace(out: Path, kit: Path) -> None:
    """Copy the files of a new kit, each whole or not at all, and remove those of an earlier call that it has not."""
    listed = out / PAPER_FILES
    made = {file.relative_to(kit).as_posix() for file in kit.rglob("*") if file.is_file()}
    earlier = kit_files(out) - {PAPER_FILES}
    ours = earlier | ({EXAMPLE_PDF} if "example.tex" in earlier else set())  # also compiled by hand

    def write_list(names: Iterable[str]) -> None:
        write_text(listed, json.dumps(sorted([*names, PAPER_FILES]), indent=1) + "\n")

    for name in sorted(made):
        file, folders = out / name, map(out.joinpath, Path(name).parents)
        own = [one for one in folders if os.path.lexists(one) and not one.is_dir()]
        if os.path.lexists(file) and not (
            file.is_file() and (name in ours or file.read_bytes() == (kit / name).read_bytes())
        ):
            own.append(file)
        if own:
            raise DataError(f"{own[0]} is your own, and the kit has a file or folder of this name; rename yours")
    write_list(made | earlier)  # a call that is stopped here leaves no file that none lists
    for name in made:
        with written_whole(out / name) as part:
            shutil.copyfile(kit / name, part)
    for name in earlier - made:
        if (out / name).is_file():
            (out / name).unlink()
    write_list(made)


def _compile(kit: Path) -> str:
    """Compile the example, of which only the PDF is left beside it. Return why it could not be compiled, or ""."""
    if not shutil.which("latexmk"):
        return NO_LATEX
    with TemporaryDirectory() as scratch:
        command = ["latexmk", "-norc", "-pdf", "-interaction=nonstopmode", "-halt-on-error", f"-outdir={scratch}"]
        kept = {name: value for name, value in os.environ.items() if not SETS_TEX.search(name)}
        try:
            done = run_program([*command, "example.tex"], cwd=kit, env=kept | REPRODUCIBLE)
        except (OSError, HangError) as error:
            return f"; LaTeX can't compile example.tex ({error})"
        if done.returncode or not Path(scratch, EXAMPLE_PDF).is_file():
            printed = (done.stdout + done.stderr).strip()
            told = TOLD.search(printed)
            reason = told.group().removeprefix("! ") if told else printed.rpartition("\n")[2] or "no reason"
            return f"; LaTeX can't compile example.tex ({reason})"
        shutil.copyfile(Path(scratch, EXAMPLE_PDF), kit / EXAMPLE_PDF)
        return ""


# --- the example --------------------------------------------------------------------------------------------------

PREAMBLE = r"""% Uses all that trainmark has made for a paper. Copy what you need: the next call writes this file again.
\documentclass[a4paper,twocolumn]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{lmodern}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage{url}
\usepackage[margin=13mm,columnsep=7mm]{geometry}
\sloppy
\pdftrailerid{}
\pdfsuppressptexinfo=-1
\input{numbers}
\begin{document}
"""

MOST_SENTENCES = 6
"""Number of ratios of a group that the example names."""

TABLE_CAPTIONS = {
    "medians": "Median over repeats, and range in brackets.",
    "comparisons": "Training time of the first trainer divided by that of the second.",
}


def _example(
    results: Results,
    numbers: Iterable[Number],
    figures: Mapping[tuple[str, str, str], Mapping[str, float]],
    files: Iterable[str],
) -> str:
    """The example. figures: from `_figures`. files: the paths of the tables among others."""
    parts = [PREAMBLE]
    for _, group, runs in list(results.groups())[:MOST_GROUPS]:
        place = "/".join(group)
        parts.append(f"\\section*{{{for_latex(' '.join(group))}}}\n")
        ratios = f"/{runs['epochs'].max()}/training_seconds/ratio/"
        own = [one for one in numbers if one.key.startswith(f"{place}/") and ratios in one.key and one.raw is not None]
        parts += map(_sentence, own[:MOST_SENTENCES])
        for file in (file for file in files if file.startswith(f"tables/{place}/")):
            caption = TABLE_CAPTIONS[re.split("[-.]", Path(file).name)[0]]
            parts.append(_float("table*", f"\\footnotesize\\input{{{file.removesuffix('.tex')}}}", caption))
        for path, width in figures[group].items():
            options = "[width=\\textwidth]" if width > TWO_COLUMNS else ""
            shown = f"\\includegraphics{options}{{{path}.pdf}}"
            caption = f"\\protect\\input{{{path}.caption}}"
            parts.append(_float("figure*" if width > ONE_COLUMN else "figure", shown, caption))
        parts.append("\\clearpage\n")
    parts.append(
        "\\section*{Methods}\n\\input{methods}\n\n\\nocite{*}\n\\bibliographystyle{plain}\n\\bibliography{references}\n"
    )
    return "".join([*parts, "\\end{document}\n"])


def _float(environment: str, content: str, caption: str) -> str:
    """A table or a figure. environment: with a star, it is as wide as both columns."""
    begin, end = f"\\begin{{{environment}}}[tp]\n\\centering", f"\\end{{{environment}}}\n"
    above = environment.startswith("table")
    captioned = f"\\caption{{{caption}}}"
    return "\n".join([begin, *([captioned, content] if above else [content, captioned]), end])


def _sentence(number: Number) -> str:
    *_, trainer, epochs, _, _, compared = number.key.split("/")
    interval = f", 95\\,\\% interval \\tmlow{{{number.key}}} to \\tmhigh{{{number.key}}}" if number.low else ""
    return (
        f"At {epochs} epochs, {trainer} takes \\tm{{{number.key}}} times the training time of {compared} "
        f"(\\tmverdict{{{number.key}}}{interval}).\n"
    )
