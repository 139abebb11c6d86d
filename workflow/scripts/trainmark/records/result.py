"""The summary values of a run, computed from its curves."""

import statistics
from collections.abc import Mapping, Sequence


def result(curves: Sequence[Mapping], first_step_seconds: float | None, samples: int) -> dict:
    """Compute a run's summary values from its curves (described in record.schema.json, `result`).

    Values that do not exist (for example steady_epoch_seconds after one epoch) are None.

    curves: one entry per epoch, as in the record.
    first_step_seconds: time of the compilation; None if memory ran out before its end.
    samples: number of training samples in an epoch.
    """
    steady = [entry["seconds"] for entry in curves if entry["part"] == "steady"]
    steady_epoch_seconds = statistics.median(steady) if steady else None
    last = curves[-1]["evaluations"] if curves else {}
    not_evaluated = {"loss": None, "accuracy": None}
    test, train = last.get("test", not_evaluated), last.get("train", not_evaluated)
    epochs_seconds = sum(entry["seconds"] for entry in curves)
    return {
        "epochs_trained": len(curves),
        "training_seconds": None if first_step_seconds is None else first_step_seconds + epochs_seconds,
        "first_step_seconds": first_step_seconds,
        "steady_epoch_seconds": steady_epoch_seconds,
        "samples_per_second": samples / steady_epoch_seconds if steady_epoch_seconds else None,
        "test_loss": test["loss"],
        "test_accuracy": test["accuracy"],
        "train_loss": train["loss"],
        "train_accuracy": train["accuracy"],
    }


def command_result(curves: Sequence[Mapping]) -> dict:
    """Compute the summary values of a command's run: without a first step of its own, and without known samples."""
    return {**result(curves, 0.0, 0), "first_step_seconds": None, "samples_per_second": None}
