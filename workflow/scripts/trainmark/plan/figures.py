"""The list of figures: every function `draw_<name>` in report/figures/. Its docstring is the caption.

The files are parsed and not imported, because matplotlib may be missing in a dry run.
"""

import ast
from functools import cache
from pathlib import Path

FIGURE_FORMATS = ("pdf", "svg", "png")

FOLDER = Path(__file__).parents[1] / "report" / "figures"

MODULES = ("curves", "times", "parity")
"""The modules that hold figures, in the order of the report."""

PREFIX = "draw_"

NOTHING_TO_SHOW = "nothing to show"
"""Description in the metadata of an SVG whose figure shows nothing."""


@cache
def known_figures() -> dict[str, str]:
    """Return the caption of each figure by its name, in the order of MODULES and of each file."""
    return {
        node.name.removeprefix(PREFIX): " ".join((ast.get_docstring(node) or "").split())
        for module in MODULES
        for node in ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(PREFIX)
    }
