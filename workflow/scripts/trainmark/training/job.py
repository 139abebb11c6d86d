"""Where and with what a job trains its run."""

from dataclasses import dataclass
from pathlib import Path

from trainmark.machine.locks import DeviceLock


@dataclass(frozen=True)
class Job:
    """What a run is given besides its settings.

    mean_file: the dataset's mean image; None for texts, which have none. checkpoint_seconds: the least time between two
    checkpoints. weights_file: where the trained weights go. keep_weights: whether they are written.
    call: when the workflow was started, None for a run that somebody started by hand.
    order: the run's place in the workflow's order, as the record keeps it. code: digests of modules, as it keeps them.
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
