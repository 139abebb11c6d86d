"""The templates of the report: those of the page, and those of sentences and texts."""

from functools import cache
from pathlib import Path

import jinja2

from trainmark.networks.layers import layers
from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.report.cells import cells_of
from trainmark.report.standings import OF_VARIANTS
from trainmark.tables.comparability import TOO_FEW, WITHHELD
from trainmark.tables.formatting import counted, listed, troubled
from trainmark.tables.verdicts import reasons_beside_verdict, refused_pairs, short_note
from trainmark.trainer import Trainer


@cache
def templates(*, autoescape: bool = False) -> jinja2.Environment:
    """The templates, with filters that name and format what is in rows of tables. autoescape: for HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=autoescape,  # noqa: S701 (a text is no HTML)
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"of_variants": OF_VARIANTS, "needed": LEAST_PAIRS, "too_few": TOO_FEW, "withheld": WITHHELD}
    environment.filters |= {
        "trainer": lambda row: Trainer.of(row).name,
        "cells": cells_of,
        "certified": lambda pairs: f"{len(pairs) - len(refused_pairs(pairs))} of {len(pairs)}",
        "counted": counted,
        "counts": lambda of_words: listed(f"{count} {word}" for word, count in of_words.items()),
        "layers": layers,
        "listed": listed,
        "lost": lambda row: "" if row["runs"] else reasons_beside_verdict(row),
        "troubled": troubled,
        "why": short_note,
    }
    return environment
