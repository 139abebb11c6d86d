"""Reads a table of literals from a module's source without importing it, so that a dry run needs no heavy library."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from trainmark.errors import ConfigError, why_not_made

Made = TypeVar("Made")


def made_of(cls: type[Made], table: Mapping[str, Any], where: str, **others: Any) -> Made:
    """Return a dataclass made of a table and other arguments. Raises ConfigError if the table does not fit it.

    where: what the message calls the table.
    """
    if problem := why_not_made(cls, {**table, **others}):
        raise ConfigError(f"{where}: {problem}")
    return cls(**table, **others)


def read_literal(path: Path, name: str) -> Any:
    """Return the literal assigned to `name` at the top level of a module. Raises LookupError if there is none."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and any(getattr(t, "id", None) == name for t in statement.targets):
            return ast.literal_eval(statement.value)
    raise LookupError(f"{path.name} has no table of literals named {name} at its top level; see CONTRIBUTING.md")
