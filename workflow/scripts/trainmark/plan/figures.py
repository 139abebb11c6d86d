"""The list of figures: every function `draw_<name>` in report/figures/. Its docstring is the caption.

The files are parsed and not imported, because matplotlib may be missing in a dry run.
"""

import ast
from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path

FIGURE_FORMATS = ("pdf", "svg", "png", "caption.txt", "caption.tex", "details.tex")
"""The files of a figure, by the ends of their names: its artwork; its caption with all details as plain text; and for
LaTeX, what it shows, and the details."""

FOLDER = Path(__file__).parents[1] / "report" / "figures"

MODULES = ("curves", "lines", "rows", "parity")
"""The modules that hold figures."""

PREFIX = "draw_"

NOTHING_TO_SHOW = "nothing to show"
"""Description in the metadata of an SVG whose figure shows nothing."""


@cache
def known_figures() -> dict[str, tuple[str, str]]:
    """Return (what it shows, the details) of the caption of each figure, in the order of MODULES and of each file.

    They are the first paragraph of its docstring, and the others.
    """
    return {
        node.name.removeprefix(PREFIX): _caption(ast.get_docstring(node) or "")
        for module in MODULES
        for node in ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(PREFIX)
    }


def _caption(docstring: str) -> tuple[str, str]:
    shown, _, details = docstring.partition("\n\n")
    return " ".join(shown.split()), " ".join(details.split())


def options_of_group(chosen: Mapping, trainers: Container[str]) -> dict:
    """The key `figures` of a config for a group. Of the chosen trainers it has those of the group, and if there are
    none, all.

    trainers: those of the group, as written in paths.
    """
    drawn = [trainer for trainer in chosen.get("trainers") or () if trainer in trainers]
    return {**chosen, "trainers": drawn or None}


def figure_arguments(options: Mapping) -> list[str]:
    """The arguments of plot.py for options under their names in the config. A value of None has none."""
    lists = {key: value for key, value in options.items() if isinstance(value, list)}
    words = [f"--{key}={value}" for key, value in options.items() if value and key not in lists]
    return words + [word for key, values in lists.items() for word in (f"--{key}", *values)]
