"""The templates of this room, with the style and the macros of the report."""

from pathlib import Path
from typing import Any

import jinja2

from trainmark.report import templates as of_report


def render(template: str, *, autoescape: bool = True, **values: Any) -> str:
    """Render a template of this folder. autoescape: for HTML."""
    folders = [Path(__file__).parent, Path(of_report.__file__).parent]
    environment = of_report.templates(autoescape=autoescape).overlay(loader=jinja2.FileSystemLoader(folders))
    return environment.get_template(template).render(values)
