"""The caption of a figure: what it shows, and the details: how to read it, notes on its runs, their numbers."""

import re
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from trainmark.parity.compare import REFUSED
from trainmark.plan.figures import known_figures
from trainmark.report.figures.data import Data
from trainmark.report.figures.references import reference_note
from trainmark.tables.formatting import named_runs
from trainmark.tables.mixed_environments import disturbances, mixed_calls
from trainmark.tables.verdicts import parity_note
from trainmark.tables.waiting import waiting_sentences

LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "\N{NO-BREAK SPACE}": "~", "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{LEFT SINGLE QUOTATION MARK}": "`", "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``", "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{EN DASH}": "--", "\N{EM DASH}": "---", "\N{MINUS SIGN}": "$-$", "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{PLUS-MINUS SIGN}": r"$\pm$", "\N{LESS-THAN OR EQUAL TO}": r"$\leq$", "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "\N{ALMOST EQUAL TO}": r"$\approx$", "\N{MICRO SIGN}": r"$\mu$", "\N{DEGREE SIGN}": r"$^\circ$",
    "\N{RIGHTWARDS ARROW}": r"$\rightarrow$", "\N{LEFTWARDS ARROW}": r"$\leftarrow$",
}  # fmt: skip
"""Characters that LaTeX takes for commands, or that its default fonts lack, and how they are written."""


_TABLE = str.maketrans(LATEX)


ONLY_WHERE: dict[str, Callable[[str, Data], bool]] = {
    "hollow": lambda texts, _: "disturbed run" in texts or "too few" in texts,
    "cross:": lambda texts, _: "diverged" in texts,
    "training batches": lambda texts, _: "training batches" in texts,
    "top-5": lambda texts, _: "top-5" in texts,
    "training images": lambda texts, _: "training loss" in texts or "training accuracy" in texts,
    "relative difference": lambda texts, _: "relative difference" in texts,
    "vertical lines": lambda texts, _: "relative difference" in texts,
    "stands its class": lambda texts, _: "relative difference" in texts,
    "column of the other": lambda texts, _: "relative difference" not in texts,
    "extrapolated": lambda texts, _: "extrapolated" in texts,
    "never": lambda texts, _: "never" in texts,
    "are left out and named": lambda texts, _: "Not ranked against" in texts,
    "strong scaling": lambda texts, _: "strong scaling" in texts,
    "weak scaling": lambda texts, _: "weak scaling" in texts,
    "must not be ranked": lambda _, data: bool(data.pairs["parity"].isin(REFUSED).any()),
    "disturbed": lambda _, data: bool((data.runs["disturbed"] != "").any()),
    "call of snakemake": lambda _, data: data.runs["calls"].nunique() > 1,
    "moved aside": lambda _, data: len(data.trainers) > 1,
    "an arrow": lambda _, data: any(
        np.isinf(one["high"].astype(float)).any() for one in (data.targets, data.break_even)
    ),
    "white": lambda _, data: not data.tuning["taken"].astype(bool).all(),
    "restart": lambda _, data: bool(data.runs["optimizer_restarts"].gt(0).any()),
}
"""For words of a caption, when what they explain is drawn: by the texts of the figure, or its data. Clauses with others
are left out."""


def caption_of(name: str, sentence: str, figure: Figure, data: Data) -> tuple[str, str]:
    """The caption of a figure: (what it shows, the details: a paragraph in each line).

    The details name the pairs that must not be ranked, the calls of snakemake, the runs that were disturbed or waited
    for data, the published results that it shows, and its runs.

    sentence: why it shows nothing; "" if it shows something.
    """
    texts = " ".join(text.get_text().replace("\n", " ") for text in figure.findobj(Text))
    shown, details = (_of_what_is_drawn(part, texts, data) for part in known_figures()[name])
    runs = data.runs
    notes = [parity_note(data.pairs), *mixed_calls(runs), *disturbances(runs), *waiting_sentences(runs)]
    notes = [_paragraph(note) for note in [*notes, *reference_note(figure, data.references)] if note]
    named = named_runs(runs["number"])
    is_named = bool(mixed_calls(runs)) or any(f"{named} (" in note for note in notes)
    lines = ["" if sentence else details, *notes, "" if is_named else f"{named.capitalize()}."]
    return " ".join(filter(None, [shown, sentence])), "\n".join(filter(None, lines))


def _of_what_is_drawn(text: str, texts: str, data: Data) -> str:
    """Leave out the clauses that explain what is not drawn. texts: those of the figure."""
    sentences = []
    for sentence in re.split(r"(?<=[.?]) ", text):
        clauses = [
            clause
            for clause in sentence.removesuffix(".").split("; ")
            if all(is_drawn(texts, data) for words, is_drawn in ONLY_WHERE.items() if words in clause.lower())
        ]
        if joined := "; ".join(clauses):
            sentences.append(joined[0].upper() + joined[1:] + ("" if joined.endswith("?") else "."))
    return " ".join(sentences)


def _paragraph(note: str) -> str:
    """A note of several lines, of which the first may be a heading, as a paragraph."""
    first, *others = note.splitlines()
    text = " ".join(filter(None, [first, "; ".join(others)]))
    return text if text.endswith(".") else f"{text}."


POWER_OF_TEN = re.compile(r"(?<![\w.+-])(-?[\d.]+)e([+-]?)0*(\d+)(?!\.?\w)")


def for_latex(text: str) -> str:
    """A text as LaTeX prints it, without a command of its own, with powers of ten as such; also for a caption."""
    text = re.sub('"([^"]*)"', "\N{LEFT DOUBLE QUOTATION MARK}\\1\N{RIGHT DOUBLE QUOTATION MARK}", text)
    escaped = "-{}-".join(part.translate(_TABLE) for part in text.split("--"))  # LaTeX would make a dash of two hyphens
    return POWER_OF_TEN.sub(_power, escaped)


def _power(number: re.Match[str]) -> str:
    factor, sign, exponent = number.groups()
    factor = "" if factor == "1" else factor + r"\times"
    return rf"\ensuremath{{{factor}10^{{{sign.replace('+', '')}{exponent}}}}}"
