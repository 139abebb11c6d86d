"""The caption of a figure, as plain text and for LaTeX: what it shows, the notes on its runs, and their numbers."""

from matplotlib.figure import Figure

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


def caption_of(name: str, sentence: str, figure: Figure, data: Data) -> str:
    """The caption of a figure, a paragraph in each line: what it shows, the pairs that must not be ranked, the calls of
    snakemake, the runs that were disturbed or waited for data, the published results that it shows, and its runs.

    sentence: why it shows nothing; "" if it shows something.
    """
    runs = data.runs
    notes = [parity_note(data.pairs), *mixed_calls(runs), *disturbances(runs), *waiting_sentences(runs)]
    notes = [_paragraph(note) for note in [*notes, *reference_note(figure, data.references)] if note]
    lines = [known_figures()[name], sentence, *notes, f"{named_runs(runs['number']).capitalize()}."]
    return "\n".join(filter(None, lines))


def _paragraph(note: str) -> str:
    """A note of several lines, of which the first may be a heading, as a paragraph."""
    first, *others = note.splitlines()
    text = " ".join(filter(None, [first, "; ".join(others)]))
    return text if text.endswith(".") else f"{text}."


def for_latex(text: str) -> str:
    """A text as LaTeX prints it, without a command of its own; for the argument of a caption."""
    return "-{}-".join(part.translate(_TABLE) for part in text.split("--"))  # LaTeX would make a dash of two hyphens
