"""The files, device and other circumstances in which a job trains its run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainmark.machine.cpus import instruction_set
from trainmark.machine.locks import DeviceLock, hold_device, run_lock
from trainmark.machine.ranks import ALONE, Ranks
from trainmark.plan.plan_file import TrainerJob
from trainmark.training.display import RunDisplay
from trainmark.training.phases import PhaseTimes

COMPILED_FOLDER = Path("results/compiled")
PEAKS_FOLDER = Path("results/peaks")


@dataclass(frozen=True)
class Job:
    """What a run needs besides its recipe.

    planned: what the plan says of it: settings, inputs, code, and the files that it reads.
    device_lock: the CPUs, and the GPU if any, that the run holds.
    checkpoint_folder: the run's own folder for checkpoints.
    checkpoint_seconds: minimum time between two checkpoints.
    audited_epochs: those of which one is kept for the audit, if its weights are kept.
    order: the run's position in the workflow's order, as the record holds it.
    call: time at which the workflow was started.
    compiled_folder, peaks_folder: of compiled programs and of measured peaks, which runs share.
    tuned_threads: the number of threads that was chosen for a tuned loop; None: one for each CPU held.
    ranks: the ranks that train the run together.
    """

    planned: TrainerJob
    device_lock: DeviceLock
    checkpoint_folder: Path
    checkpoint_seconds: float
    order: dict | None
    weights_file: Path
    keep_weights: bool
    call: str | None = None
    compiled_folder: Path = COMPILED_FOLDER
    peaks_folder: Path = PEAKS_FOLDER
    tuned_threads: int | None = None
    ranks: Ranks = ALONE
    audited_epochs: range = range(0)

    @property
    def threads(self) -> int:
        """Number of threads that the run uses."""
        return self.tuned_threads or len(self.device_lock.cpus)

    def compilation_cache(self, framework: str) -> Path:
        """Return the folder of the programs that a framework compiles for these CPUs.

        Their number is in its name because XLA may divide a program among the CPUs of its process.
        """
        return self.compiled_folder.resolve() / framework / f"{instruction_set()}-{self.threads}-cpus"


@contextmanager
def hold_run_and_device(
    record: Path,
    own_folder: Path,
    device: str,
    threads: int,
    display: RunDisplay,
    phase_times: PhaseTimes,
    ranks: Ranks = ALONE,
) -> Iterator[DeviceLock]:
    """Lock a run and its device. The time until both are locked is the phase `device_wait`.

    record, own_folder: see `locks.run_lock`. device, threads, ranks: see `locks.hold_device`.
    """
    with ExitStack() as held:
        with phase_times.phase("device_wait"):
            display.wait()
            if ranks.rank == 0:
                held.enter_context(run_lock(record, own_folder))
            device_lock = held.enter_context(
                hold_device(
                    device, threads, title=display.title, stream=display.terminal, waiting_seconds=60, ranks=ranks
                )
            )
        yield device_lock
