"""Values of a record that are computed from losses and logits: where a run diverged, and the scored texts."""

from collections.abc import Mapping, Sequence

import numpy as np

from trainmark.recipes.outputs import Evaluation, probabilities
from trainmark.records.record import encode_loss

Evaluations = Mapping[str, Evaluation]
"""Evaluations by split."""


def encode_evaluation(evaluation: Evaluation) -> dict:
    """Encode an evaluation as the record holds it: loss, accuracy and top5_accuracy."""
    return evaluation._asdict() | {"loss": encode_loss(evaluation.loss)}


def divergence(
    epoch: int, steps_before: int, losses: np.ndarray, last_finite: float | None, evaluations: Evaluations
) -> dict | None:
    """Return where the loss of an epoch became NaN or infinite, as the record holds it; None if it stayed finite.

    If only the evaluation after the epoch is not finite, the epoch's last step is returned: its update broke the
    network.

    epoch: number of the epoch, from 1.
    steps_before: number of steps in the epochs before it.
    losses: loss of each step of the epoch, (steps,).
    last_finite: the last loss before the epoch; None before the first one.
    """
    not_finite = np.flatnonzero(~np.isfinite(losses))
    if len(not_finite):
        step = int(not_finite[0])
        bad_losses, last_finite = [losses[step]], float(losses[step - 1]) if step else last_finite
    else:
        bad_losses = [one.loss for one in evaluations.values() if not np.isfinite(one.loss)]
        step, last_finite = len(losses) - 1, float(losses[-1])
    if not bad_losses:
        return None
    kind = "nan" if np.isnan(bad_losses).any() else "inf"
    return {"kind": kind, "epoch": epoch, "step": steps_before + step + 1, "last_finite_loss": last_finite}


def score_first_texts(logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> list[dict]:
    """Score the first test text of each class, as `scored_texts` of the record holds it (see record.schema.json).

    logits: of the test split, (samples, classes). labels: (samples,). class_names: by label.
    """
    classes, indices = np.unique(labels, return_index=True)
    rows = probabilities(logits[indices])
    scored_classes = [1] * len(classes) if len(class_names) == 2 else classes
    return [
        {
            "split": "test",
            "index": int(index),
            "label": int(label),
            "class_name": class_names[label],
            "probability": encode_loss(float(row[scored_class])),
        }
        for index, label, row, scored_class in zip(indices, classes, rows, scored_classes, strict=True)
    ]
