"""The summary values of a run, computed from its curves."""

import statistics
from collections.abc import Iterable, Mapping, Sequence


def part_steps(experiment: Mapping, is_streamed: bool) -> int | None:
    """Return the number of steps after which an epoch may be evaluated, saved or ended; None for its end alone.

    experiment: the settings of the run's experiment.
    is_streamed: whether the run takes its images from a stream.
    """
    streamed = experiment.get("checkpoint_steps") if is_streamed else None
    return experiment.get("evaluation_steps") or streamed


def part_of(record: Mapping) -> int | None:
    """Return the number of steps of a part of a record's epochs; None if they have one part."""
    is_streamed = any(entry["waiting_seconds"] is not None for entry in record["curves"])
    return part_steps(record["settings"], is_streamed)


def result(curves: Sequence[Mapping], first_step_seconds: float | None, samples: int) -> dict:
    """Compute a run's summary values from its curves (described in record.schema.json, `result`).

    Values that do not exist (for example steady_epoch_seconds after one epoch) are None.

    curves: one entry per epoch, as in the record.
    first_step_seconds: time of the compilation; None if memory ran out before its end.
    samples: number of training samples in an epoch.
    """
    steady = steady_epochs(curves)
    steady_epoch_seconds = statistics.median(entry["seconds"] for entry in steady) if steady else None
    last = curves[-1]["evaluations"] if curves else {}
    not_evaluated = {"loss": None, "accuracy": None, "top5_accuracy": None}
    test, train = last.get("test", not_evaluated), last.get("train", not_evaluated)
    epochs_seconds = sum(entry["seconds"] or 0.0 for entry in curves)
    return {
        "epochs_trained": len(curves),
        "training_seconds": None if first_step_seconds is None else first_step_seconds + epochs_seconds,
        "first_step_seconds": first_step_seconds,
        "steady_epoch_seconds": steady_epoch_seconds,
        "samples_per_second": samples / steady_epoch_seconds if steady_epoch_seconds else None,
        "waiting_share": waiting_share(steady),
        "test_loss": test["loss"],
        "test_accuracy": test["accuracy"],
        "test_top5_accuracy": test["top5_accuracy"],
        "train_loss": train["loss"],
        "train_accuracy": train["accuracy"],
    }


def untimed(curves: Iterable[Mapping]) -> bool:
    """Return whether epochs have no times, because a command reported several at the same moment."""
    return any(entry["seconds"] is None for entry in curves)


def steady_epochs(curves: Sequence[Mapping]) -> list[Mapping]:
    """Return the entries of the steady epochs."""
    return [entry for entry in curves if entry["part"] == "steady" and entry["seconds"] is not None]


def peak_shares(curves: Sequence[Mapping], samples: int, peak: Mapping) -> dict:
    """Compute the floating-point operations of the training per second, and their share of the peak.

    They are those of a steady epoch, the median; without any, of an epoch.

    curves: one entry per epoch, at least one.
    samples: number of training samples in an epoch.
    peak: training_flops_per_sample and matrix_flops_per_second, as in the record.
    """
    seconds = statistics.median(entry["seconds"] for entry in steady_epochs(curves) or curves)
    training_flops_per_second = samples * peak["training_flops_per_sample"] / seconds
    return {
        "training_flops_per_second": training_flops_per_second,
        "share_of_peak": training_flops_per_second / peak["matrix_flops_per_second"],
    }


def waiting_share(epochs: Sequence[Mapping]) -> float | None:
    """Return the share of the time of these epochs for which the training waited for batches.

    None if there are no epochs, if they took no time, or if the inputs are in memory.
    """
    waiting = [entry["waiting_seconds"] for entry in epochs]
    if None in waiting:
        return None
    seconds = sum(entry["seconds"] for entry in epochs)
    return sum(waiting) / seconds if seconds else None


def cpu_share(record: Mapping) -> float | None:
    """Return the share of the time of its CPUs that the first worker computed while it trained. None for a command."""
    measured = record["epochs"]
    held_seconds = len(record["sessions"][-1]["cpus"]) * sum(entry["seconds"] or 0.0 for entry in record["curves"])
    return sum(one["cpu_seconds"] for one in measured) / held_seconds if measured and held_seconds else None


def communication_share(record: Mapping) -> float | None:
    """Return the share of a step's time that several workers need because they share its batch; None for one worker.

    It is 1 - time of a rank's share alone / time of all together, from the medians of `communication` of the record.
    What the exchange of gradients does beside computing counts only if the step takes longer for it.
    """
    if not (measured := record.get("communication")):
        return None
    together, alone = (statistics.median(measured[name]) for name in ("together_seconds", "alone_seconds"))
    return float(1 - alone / together)


def command_result(curves: Sequence[Mapping], training_seconds: float) -> dict:
    """Compute the summary values of a command's run: without a first step of its own, and without known samples.

    training_seconds: the sum of the times of its epochs, unless these have none.
    """
    unknown = {"first_step_seconds": None, "samples_per_second": None}
    return {**result(curves, 0.0, 0), **unknown, "training_seconds": training_seconds}
