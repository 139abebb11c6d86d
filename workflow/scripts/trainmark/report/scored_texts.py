"""How the trained networks score the same few texts of the test set."""

import json

import pandas as pd

from trainmark.records.record import decode_loss
from trainmark.report.cells import summary_cells
from trainmark.tables.tables import rows_of, summary_table


def scored_texts_table(runs: pd.DataFrame) -> dict | None:
    """The table of scored texts of a section; None where no run scored any.

    headings: heading by column name, which is scored_texts.<split>.<index in the split>.
    rows: one for each setting, as in the table of medians.
    of: the class whose probability is shown; None where it is each text's own, as with more than two classes.
    """
    texts_of_runs = [{_field(text): text for text in json.loads(encoded)} for encoded in runs["scored_texts"]]
    texts = {field: text for texts_of_run in texts_of_runs for field, text in texts_of_run.items()}
    if not texts:
        return None
    scores = {
        field: [decode_loss(scored[field]["probability"]) if field in scored else None for scored in texts_of_runs]
        for field in texts
    }
    with_scores = runs.assign(**{field: pd.array(values, "float64") for field, values in scores.items()})
    rows = [
        row | {"cells": {(cell.field, cell.statistic): cell for cell in summary_cells(row, texts)}}
        for row in rows_of(summary_table(with_scores, texts))
    ]
    headings = {field: f"{text['class_name']} (test text {text['index']})" for field, text in texts.items()}
    classes = {text["label"]: text["class_name"] for text in texts.values()}
    return {"headings": headings, "rows": rows, "of": classes.get(1) if max(classes) <= 1 else None}


def _field(text: dict) -> str:
    return f"scored_texts.{text['split']}.{text['index']}"
