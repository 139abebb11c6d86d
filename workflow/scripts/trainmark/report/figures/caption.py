"""The caption of a figure: what it shows, and the details: how to read it, notes on its runs, their numbers."""

import re
from collections.abc import Iterable, Mapping

from matplotlib.figure import Figure
from matplotlib.text import Text

from trainmark.plan.figures import known_figures
from trainmark.report.figures.data import Data
from trainmark.tables.formatting import named_runs
from trainmark.tables.remarks import disturbances, mixed_calls, waiting_sentences
from trainmark.tables.verdicts import parity_note

LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "\N{NO-BREAK SPACE}": "~", "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{LEFT SINGLE QUOTATION MARK}": "`", "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``", "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{EN DASH}": "--", "\N{EM DASH}": "---", "\N{MINUS SIGN}": "$-$", "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{PLUS-MINUS SIGN}": r"$\pm$", "\N{LESS-THAN OR EQUAL TO}": r"$\leq$", "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "\N{ALMOST EQUAL TO}": r"$\approx$", "\N{MICRO SIGN}": r"$\mu$", "\N{DEGREE SIGN}": r"$^\circ$",
    "\N{RIGHTWARDS ARROW}": r"$\rightarrow$", "\N{LEFTWARDS ARROW}": r"$\leftarrow$",
})  # fmt: skip
"""Characters that LaTeX takes for commands, or that its default fonts lack, and how they are written."""


def caption_of(name: str, sentence: str, figure: Figure, data: Data) -> tuple[str, str]:
    """The caption of a figure: (what it shows, the details: a paragraph in each line).

    The details name the pairs that must not be ranked, the calls of snakemake, the runs that were disturbed or waited
    for data, the published results that it shows, and its runs.

    sentence: why it shows nothing; "" if it shows something.
    """
    texts = "".join("".join(text.get_text().split()) for text in figure.findobj(Text))  # lines may end within a name
    shown, details = known_figures()[name]
    runs, named = data.runs, named_runs(data.runs["number"])
    notes = [parity_note(data.pairs), *mixed_calls(runs), *disturbances(runs), *waiting_sentences(runs)]
    notes.append(_reference_note(texts, data.references))
    is_named = bool(mixed_calls(runs)) or any(f"{named} (" in note for note in notes)
    lines = ["" if sentence else details, *notes, "" if is_named else f"{named.capitalize()}."]
    return " ".join(filter(None, [shown, sentence])), "\n".join(filter(None, lines))


def _reference_note(texts: str, references: Iterable[Mapping]) -> str:
    """A sentence on the published results that a figure names; "" for none. texts: its texts, without spaces."""
    described = [
        f"{one['name']}: {one['hardware']}, {'; '.join(filter(None, parts))}"
        for one in references
        for parts in [(str(one["year"] or "year not stated"), one["source"], one.get("note"))]
        if f"published:{''.join(one['name'].split())}" in texts
    ]
    return f"Published results, on other hardware: {'. '.join(described)}." if described else ""


def for_latex(text: str) -> str:
    """A text as LaTeX prints it, without a command of its own, with powers of ten as such; also for a caption."""
    text = re.sub('"([^"]*)"', "\N{LEFT DOUBLE QUOTATION MARK}\\1\N{RIGHT DOUBLE QUOTATION MARK}", text)
    escaped = "-{}-".join(part.translate(LATEX) for part in text.split("--"))  # LaTeX would make a dash of two hyphens
    return re.sub(r"(?<![\w.+-])(-?[\d.]+)e([+-]?)0*(\d+)(?!\.?\w)", _power, escaped)


def _power(number: re.Match[str]) -> str:
    factor, sign, exponent = number.groups()
    factor = "" if factor == "1" else factor + r"\times"
    return rf"\ensuremath{{{factor}10^{{{sign.replace('+', '')}{exponent}}}}}"
