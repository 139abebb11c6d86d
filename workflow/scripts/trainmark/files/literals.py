"""Reads a table of literals from a module's source without importing it, so that a dry run needs no heavy library."""

import ast
from pathlib import Path
from typing import Any


def read_literal(path: Path, name: str) -> Any:
    """Return the literal assigned to `name` at the top level of a module. Raises LookupError if there is none."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and any(getattr(t, "id", None) == name for t in statement.targets):
            return ast.literal_eval(statement.value)
    raise LookupError(f"{path.name} has no table of literals named {name} at its top level; see CONTRIBUTING.md")
