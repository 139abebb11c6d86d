"""What a run is trained with: what a user sets, and what the job gives it."""

from dataclasses import dataclass
from pathlib import Path

from trainmark.machine.locks import Slot
from trainmark.recipes.recipe import InputTransform

DTYPE = "float32"


@dataclass(frozen=True)
class Settings:
    """What decides a run's arithmetic, besides the run's place in the matrix.

    batch_size: samples a step, None for the whole training set. input: None where the network sees token ids.
    step_losses: how many of them the record keeps.
    memory_limit_mib: what the process's resident memory may not exceed, None for no limit.
    """

    seed: int
    batch_size: int | None
    input: InputTransform | None
    step_losses: int
    memory_limit_mib: float | None = None


@dataclass(frozen=True)
class Job:
    """Where a run is trained, and with what.

    mean_file: the dataset's mean image; None for texts, which have none. checkpoint_seconds: the least time between two
    checkpoints. weights_file: where the trained weights go. keep_weights: whether they do.
    order: the run's place in the workflow's order, as the record keeps it. code: digests of modules, as it keeps them.
    """

    dataset_folder: Path
    mean_file: Path | None
    slot: Slot
    code: dict
    checkpoint_folder: Path
    checkpoint_seconds: float
    order: dict | None
    weights_file: Path
    keep_weights: bool
