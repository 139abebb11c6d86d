"""Writes numbers and tables for LaTeX."""

from collections.abc import Iterable, Iterator, Sequence

from trainmark.paper.numbers import Number
from trainmark.report.figures.caption import for_latex

FIELDS = ("value", "low", "high", "unit", "words", "verdict", "runs", "raw")
"""The fields of `Number` that macros print: \\tm the value, and \\tmlow, \\tmhigh, ... the others."""

WARNED = ("value", "low", "high", "words")
"""Those whose macros warn of a number of disturbed runs. The others must expand to nothing but their text."""

PREAMBLE = r"""% Made by trainmark. \tm{key} prints a number, \tmlow and \tmhigh its interval, \tmunit its unit,
% \tmwords all of these, \tmverdict its verdict, \tmruns the number of runs or pairs, and \tmraw all its digits.
% An unknown key is an error. A number of disturbed runs alone gives a warning.
\begingroup
\makeatletter
% In this file, characters that babel and other packages make active are themselves: !"'*+,-./:;<=>?_`|
\catcode33 12 \catcode34 12 \catcode39 12 \catcode42 12 \catcode43 12 \catcode44 12 \catcode45 12 \catcode46 12
\catcode47 12 \catcode58 12 \catcode59 12 \catcode60 12 \catcode61 12 \catcode62 12 \catcode63 12 \catcode95 12
\catcode96 12 \catcode124 12
\gdef\tm@set#1#2{\expandafter\gdef\csname tm@#1\endcsname{#2}}
\gdef\tm@missing#1#2{\expandafter\gdef\csname tm@missing@#1\endcsname{#2}}
% In a key, each part between two / may be a macro, and no other character is expanded.
\gdef\tm@key#1{\tm@parts#1/\tm@stop}
\gdef\tm@parts#1/#2\tm@stop{\detokenize\expandafter{\romannumeral-`0#1}\ifx\tm@stop#2\else/\tm@parts#2\tm@stop\fi}
\gdef\tm@get#1#2{\ifcsname tm@\tm@key{#2}\endcsname
  \expandafter\expandafter\expandafter#1\csname tm@\tm@key{#2}\endcsname\else\tm@none{#2}\fi}
\gdef\tm@disturbed#1{\expandafter\gdef\csname tm@disturbed@#1\endcsname{}}
\gdef\tm@check#1{\ifcsname tm@disturbed@\tm@key{#1}\endcsname\tm@warn{\tm@key{#1}}\fi}
\protected\gdef\tm@warn#1{\PackageWarning{trainmark}{#1 is of disturbed runs alone:\MessageBreak
  say so beside it, or train them again on a quiet machine\MessageBreak (rerun_disturbed)}}
\gdef\tm@none#1{\PackageError{trainmark}{There is no number \tm@key{#1}\ifcsname tm@missing@\tm@key{#1}\endcsname
  : \csname tm@missing@\tm@key{#1}\endcsname\fi}{numbers.tex lists all numbers.}}
"""


def numbers_file(numbers: Iterable[Number]) -> str:
    """Return a file that defines the macros, and a line for each number with the row that it comes from."""
    lines = [PREAMBLE]
    arguments = "".join(f"#{place}" for place in range(1, len(FIELDS) + 1))
    for place, field in enumerate(FIELDS, start=1):
        macro, check = "tm" if field == "value" else f"tm{field}", "\\tm@check{#1}" if field in WARNED else ""
        lines.append(f"\\gdef\\tm@pick@{field}{arguments}{{#{place}}}\n")
        lines.append(
            f"\\newcommand{{\\{macro}}}[1]{{{check}\\tm@get{{\\tm@pick@{field}}}{{#1}}}}\\global\\let\\{macro}\\{macro}\n"
        )
    numbers = list(numbers)
    lines += map(_line, numbers)
    if count := sum(number.disturbed for number in numbers):
        told = f"{count} numbers are of disturbed runs alone;\\MessageBreak \\string\\tm\\space warns of each in use"
        lines.append(f"\\PackageWarningNoLine{{trainmark}}{{{told}}}\n")
    return "".join(lines) + "\\endgroup\n"


def _line(number: Number) -> str:
    if number.raw is None:
        return f"\\tm@missing{{{number.key}}}{{{for_latex(number.verdict)}}}% {number.source}\n"
    texts = [for_latex(getattr(number, field)) for field in FIELDS[:-1]]
    raw = for_latex(number.raw) if isinstance(number.raw, str) else str(number.raw)
    fields = "".join(f"{{{text}}}" for text in (*texts, raw))
    disturbed = f"\\tm@disturbed{{{number.key}}}" if number.disturbed else ""
    return f"\\tm@set{{{number.key}}}{{{fields}}}{disturbed}% {number.source}\n"


MOST_ROWS = 48
"""A table with more rows is divided, so that each part fits a page."""


def tables(
    name: str, headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Iterable[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield (file, its text) of each part of a table of texts in the style of booktabs, with notes below it.

    The first column is on the left, the others on the right. name: of the file without its end.
    """
    below = "".join(f"\\par\\smallskip{{\\footnotesize {for_latex(note)}\\par}}\n" for note in notes)
    for part, start in enumerate(range(0, len(rows), MOST_ROWS), start=1):
        of_part = rows[start : start + MOST_ROWS]
        head, *body = [" & ".join(map(for_latex, cells)) + r" \\" for cells in [headings, *of_part]]
        begin = f"% for table*, in \\footnotesize\n\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}"
        lines = [begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", below]
        yield f"{name}{'' if part == 1 else f'-{part}'}.tex", "\n".join(lines)
