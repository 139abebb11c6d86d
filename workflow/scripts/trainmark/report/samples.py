"""How the trained networks score the same few texts of the test set."""

import json

import pandas as pd

from trainmark.records.record import decode_loss
from trainmark.report.cells import summary_cells
from trainmark.tables.tables import rows_of, summary_table


def sample_scores(runs: pd.DataFrame) -> dict | None:
    """The table of sample texts of a section; None without any.

    headings: by figure, whose name is samples.<split>.<place in the split>. rows: one a setting, as of the medians. of:
    the class whose probability is shown; None for each text's own, as it is of more than two classes.
    """
    of_runs = [{_field(sample): sample for sample in json.loads(text)} for text in runs["samples"]]
    texts = {field: sample for samples in of_runs for field, sample in samples.items()}
    if not texts:
        return None
    scores = {
        field: [decode_loss(samples[field]["probability"]) if field in samples else None for samples in of_runs]
        for field in texts
    }
    scored = runs.assign(**{field: pd.array(values, "float64") for field, values in scores.items()})
    rows = [
        row | {"cells": {(cell.field, cell.statistic): cell for cell in summary_cells(row, texts)}}
        for row in rows_of(summary_table(scored, texts))
    ]
    headings = {field: f"{sample['class_name']} (test text {sample['index']})" for field, sample in texts.items()}
    classes = {sample["label"]: sample["class_name"] for sample in texts.values()}
    return {"headings": headings, "rows": rows, "of": classes.get(1) if max(classes) <= 1 else None}


def _field(sample: dict) -> str:
    return f"samples.{sample['split']}.{sample['index']}"
