"""Reading a table of literals out of a module without importing it, so that a dry run needs no heavy library."""

import ast
from pathlib import Path
from typing import Any


def read_literal(path: Path, name: str) -> Any:
    """The literal that is assigned to `name` at the top of a module. Raises LookupError where there is none."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and any(getattr(t, "id", None) == name for t in statement.targets):
            return ast.literal_eval(statement.value)
    raise LookupError(f"{path.name} has no {name} table of literals at its top: see CONTRIBUTING")
