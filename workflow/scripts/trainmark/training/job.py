"""The files, device and other circumstances in which a job trains its run."""

from dataclasses import dataclass
from pathlib import Path

from trainmark.machine.locks import DeviceLock


@dataclass(frozen=True)
class Job:
    """What a run needs besides its settings.

    dataset_folder: the prepared dataset.
    mean_file: the dataset's mean image; None for texts, which have none.
    device_lock: the CPUs, and the GPU if any, that the run holds.
    code: digests of the modules that the run depends on, as the record holds them.
    checkpoint_folder: the run's own folder for checkpoints.
    checkpoint_seconds: minimum time between two checkpoints.
    order: the run's position in the workflow's order, as the record holds it; None for a run started by hand.
    weights_file: file for the trained weights.
    keep_weights: whether the trained weights are written.
    call: time at which the workflow was started; None for a run started by hand.
    """

    dataset_folder: Path
    mean_file: Path | None
    device_lock: DeviceLock
    code: dict
    checkpoint_folder: Path
    checkpoint_seconds: float
    order: dict | None
    weights_file: Path
    keep_weights: bool
    call: str | None = None
