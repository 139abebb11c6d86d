"""The figures of a run that follow from its curves."""

import statistics
from collections.abc import Mapping, Sequence


def result(curves: Sequence[Mapping], first_step_seconds: float | None, samples: int) -> dict:
    """A run's figures from its curves (see record.schema.json); a figure that there is not is None.

    samples: training samples of an epoch.
    """
    steady = [entry["seconds"] for entry in curves if entry["part"] == "steady"]
    steady_epoch_seconds = statistics.median(steady) if steady else None
    last = curves[-1]["evaluations"] if curves else {}
    absent = {"loss": None, "accuracy": None}
    test, train = last.get("test", absent), last.get("train", absent)
    trained = sum(entry["seconds"] for entry in curves)
    return {
        "epochs_trained": len(curves),
        "training_seconds": None if first_step_seconds is None else first_step_seconds + trained,
        "first_step_seconds": first_step_seconds,
        "steady_epoch_seconds": steady_epoch_seconds,
        "samples_per_second": samples / steady_epoch_seconds if steady_epoch_seconds else None,
        "test_loss": test["loss"],
        "test_accuracy": test["accuracy"],
        "train_loss": train["loss"],
        "train_accuracy": train["accuracy"],
    }
