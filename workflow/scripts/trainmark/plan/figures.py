"""The list of figures: every function `draw_<name>` in report/figures.py. Its docstring is the caption.

The file is parsed and not imported, because matplotlib may be missing in a dry run.
"""

import ast
from functools import cache
from pathlib import Path

FIGURE_FORMATS = ("pdf", "svg", "png")

SOURCE = Path(__file__).parents[1] / "report" / "figures.py"

PREFIX = "draw_"


@cache
def known_figures() -> dict[str, str]:
    """Return the caption of each figure by its name, in the order of the file."""
    return {
        node.name.removeprefix(PREFIX): " ".join((ast.get_docstring(node) or "").split())
        for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(PREFIX)
    }
