"""The figures that there are: each function `draw_<name>` of report/figures.py, whose docstring is its caption.

The file is read without being run: a dry run has no matplotlib.
"""

import ast
import inspect
from functools import cache
from pathlib import Path

FIGURE_FORMATS = ("pdf", "svg", "png")

SOURCE = Path(__file__).parents[1] / "report" / "figures.py"

PREFIX = "draw_"


@cache
def known_figures() -> dict[str, str]:
    """The caption of each figure, by its name, in the order of the file."""
    functions = [
        node for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)
    ]
    return {
        function.name.removeprefix(PREFIX): " ".join(inspect.cleandoc(ast.get_docstring(function) or "").split())
        for function in functions
        if function.name.startswith(PREFIX)
    }
