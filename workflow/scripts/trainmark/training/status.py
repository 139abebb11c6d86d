"""How a run ended, from its losses and logits: diverged or not, and scores of sample texts."""

from collections.abc import Mapping, Sequence

import numpy as np

from trainmark.recipes.outputs import probabilities
from trainmark.records.record import encode_loss

Evaluations = Mapping[str, tuple[float, float]]
"""(loss, accuracy) by split."""


def divergence(
    epoch: int, steps_before: int, losses: np.ndarray, last_finite: float | None, evaluations: Evaluations
) -> dict | None:
    """Where an epoch's loss stopped being finite, as the record keeps it, or None where it did not.

    losses: the epoch's, a step each, (steps,). steps_before: steps of the epochs before it. last_finite: the last loss
    before the epoch. Where only the evaluation after the epoch is not finite, its last step is named, since that update
    broke the network.
    """
    wrong = np.flatnonzero(~np.isfinite(losses))
    if len(wrong):
        step = int(wrong[0])
        bad, last_finite = [losses[step]], float(losses[step - 1]) if step else last_finite
    else:
        bad = [loss for loss, _ in evaluations.values() if not np.isfinite(loss)]
        step, last_finite = len(losses) - 1, float(losses[-1])
    if not bad:
        return None
    kind = "nan" if np.isnan(bad).any() else "inf"
    return {"kind": kind, "epoch": epoch, "step": steps_before + step + 1, "last_finite_loss": last_finite}


def score_first_texts(logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> list[dict]:
    """The first test sample of each class with its probability, as the record keeps them (see record.schema.json).

    logits: of the test split, (samples, classes). labels: (samples,).
    """
    found, indices = np.unique(labels, return_index=True)
    scored = probabilities(logits[indices])
    of_class = [1] * len(found) if len(class_names) == 2 else found
    return [
        {
            "split": "test",
            "index": int(index),
            "label": int(label),
            "class_name": class_names[label],
            "probability": encode_loss(float(row[shown])),
        }
        for index, label, row, shown in zip(indices, found, scored, of_class, strict=True)
    ]
