"""Holding what a run is timed on, CPUs or a GPU, for one run at a time.

Standard library and filelock only: a device lock is taken before any framework, and numpy, is imported.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from filelock import FileLock, Timeout

from trainmark.console import LONG_SECONDS, Terminal, say_when_long
from trainmark.errors import BusyError, DeviceError
from trainmark.machine.cpus import allowed_cores, spread
from trainmark.machine.gpus import limit_threads, no_gpu_message, visible_gpus

HOST_FOLDER = Path("/tmp")  # noqa: S108 (see _lock_folder)
"""Where locks lie. Not TMPDIR: a batch system sets one for each job, and each would have locks of its own."""

LOCK_FOLDER_VARIABLE = "TRAINMARK_LOCK_FOLDER"
"""Environment variable that names another folder for the locks: one that all jobs of a host share."""

POLL_SECONDS = 0.2
"""How often the first of a queue looks for what it needs."""

QUEUE_POLL_SECONDS = 0.5
"""How often the others look: seldom, since looking takes time from the run that is being timed."""


@dataclass(frozen=True)
class DeviceLock:
    """What one run holds. cpus: numbers of the CPUs that it may run on. gpu: UUID of its GPU, None on the CPU.

    held_from: when it was taken, on the clock of `time.monotonic`.
    """

    cpus: tuple[int, ...]
    gpu: str | None
    held_from: float


@contextmanager
def hold_device(
    device: str,
    threads: int,
    lock_folder: Path | None = None,
    *,
    title: str = "",
    stream: TextIO | Terminal | None = None,
    waiting_seconds: float = LONG_SECONDS,
) -> Iterator[DeviceLock]:
    """Hold `threads` CPUs, and for the device "gpu" one GPU, for one timed run; wait while others have them.

    No --cores or --resources value can then make two timed runs share what they are timed on. CPUs are held by whole
    cores, so that no other run computes on the second CPU of one; where there are fewer cores than threads, all of
    them. A GPU run holds at most its GPU's share of the cores, so that every GPU can be used at once. The locks are the
    operating system's: they are the host's, whoever runs, and go with the process, however it ends.

    Runs that choose from the same cores and GPUs wait one behind the other, so that small ones don't keep the cores
    from one that needs many. Between CPU and GPU runs, and between jobs with other cores, there is no such order.

    A run sees no GPU but its own (CUDA_VISIBLE_DEVICES); a CPU run sees none. A wait longer than `waiting_seconds` is
    said on `stream` (default: standard error), in a line that begins with `title`. Raises DeviceError where there is no
    GPU, or no folder for the locks.
    """
    gpus = visible_gpus() if device == "gpu" else []
    if device == "gpu" and not gpus:
        raise DeviceError(no_gpu_message("this run"))
    cores = allowed_cores()
    share = len(cores) // len(gpus) if gpus else len(cores)
    count = max(1, min(threads, share))
    folder = lock_folder or _lock_folder()
    with ExitStack() as locks:
        what = "a GPU" if gpus else f"{count} CPU{'s' if count > 1 else ''}"
        text = f"{title}: waiting for {what}, held by other jobs"
        with say_when_long(text, stream, waiting_seconds), ExitStack() as queue:
            _take(folder / f"queue-{_short_hash(f'{list(cores)} {gpus}')}.lock", queue, wait=True)
            while not (held := _try_device(cores, count, gpus, folder, locks)):
                time.sleep(POLL_SECONDS)
        held_cores, gpu = held
        cpus = spread(cores[core] for core in held_cores)[:threads]
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu or ""
        yield DeviceLock(tuple(sorted(cpus)), gpu, time.monotonic())


@contextmanager
def cpus_beside_runs(threads: int, title: str) -> Iterator[None]:
    """Lock CPUs for untimed work and pin this process to them, so that it cannot slow down a run that is being timed.

    title: what the process does; it begins the line that says that the process waits.
    """
    with hold_device("cpu", threads, title=title) as device_lock:
        limit_threads(device_lock.cpus)
        yield


def _try_device(
    cores: Iterable[int], count: int, gpus: Sequence[str], folder: Path, locks: ExitStack
) -> tuple[list[int], str | None] | None:
    """(cores, GPU) that are now held in `locks`, or None, and nothing held, where not all that is needed is free."""
    with ExitStack() as choosing:  # one at a time: else two runs that need all cores could each hold a half and give up
        _take(folder / "choosing.lock", choosing, wait=True)
        gpu = next((gpu for gpu in gpus if _take(folder / f"gpu-{gpu.replace('/', '-')}.lock", locks)), None)
        held: list[int] = []
        if gpu or not gpus:
            for core in cores:
                if len(held) < count and _take(folder / f"core-{core}.lock", locks):
                    held.append(core)
        if len(held) == count:
            return held, gpu
        locks.close()
    return None


def _take(path: Path, locks: ExitStack, wait: bool = False) -> bool:
    """Whether the lock, one of the operating system on a file, was free; it is then held until `locks` closes.

    wait: until it is free. Raises DeviceError where the file can't be locked.
    """
    # For everybody, whatever the umask. Not the soft lock that filelock falls back to on a file system without locks:
    # a killed process would leave it.
    lock = FileLock(path, mode=0o666, fallback_to_soft=False, poll_interval=QUEUE_POLL_SECONDS)
    try:
        locks.enter_context(lock.acquire(timeout=-1 if wait else 0))
    except Timeout:
        return False
    except OSError as error:
        raise DeviceError(_no_locks(path.parent, f"{path.name}: {error.strerror}")) from error
    return True


@contextmanager
def run_lock(record: Path, own_folder: Path, lock_folder: Path | None = None) -> Iterator[None]:
    """Hold a run, by the record that it will write: a worker that outlived its workflow may still be training it.

    own_folder: a folder of the run's own, made where there is none. A lock in it holds the run on other hosts too,
    where the file system has locks.
    """
    with ExitStack() as locks:
        name = f"run-{_short_hash(os.fspath(record.resolve()))}.lock"
        _take((lock_folder or _lock_folder()) / name, locks, wait=True)
        own_folder.mkdir(parents=True, exist_ok=True)
        with suppress(DeviceError):
            _take(own_folder / "running.lock", locks, wait=True)
        yield


def hold_directory(directory: Path, lock_folder: Path | None = None) -> ExitStack:
    """Keep other workflows out of a directory, until the stack that this returns closes or the process ends.

    The lock lies in the directory, or, where its file system has none, among the host's. Raises BusyError where another
    workflow holds it, and DeviceError where there is no place for a lock.
    """
    locks = ExitStack()
    try:
        free = _take(directory / ".snakemake" / "trainmark.lock", locks)
    except DeviceError:
        name = f"directory-{_short_hash(os.fspath(directory.resolve()))}.lock"
        free = _take((lock_folder or _lock_folder()) / name, locks)
    if not free:
        raise BusyError(f"another snakemake is at work in {directory}: wait for it, or name another with --directory")
    return locks


def _short_hash(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


def _lock_folder() -> Path:
    """The folder of the host's locks, made where there is none: all users', since they share the host's devices.

    It is sticky, as /tmp is: nobody can remove another user's lock, which somebody may hold. In such a folder Linux can
    refuse to open others' files with O_CREAT (fs.protected_regular, proc_sys_fs(5)); filelock creates with O_EXCL and
    opens what is there without O_CREAT, so that this rule does not bite.
    """
    named = os.environ.get(LOCK_FOLDER_VARIABLE)
    folder = Path(named) if named else HOST_FOLDER / "trainmark-locks"
    try:
        folder.mkdir(parents=True)
        folder.chmod(0o1777)
    except FileExistsError:
        pass
    except OSError as error:
        raise DeviceError(_no_locks(folder, error.strerror)) from error
    if not folder.is_dir():
        raise DeviceError(_no_locks(folder, "not a folder"))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DeviceError(_no_locks(folder, "not writable"))
    return folder


def _no_locks(folder: Path, why: str | None) -> str:
    return (
        f"the folder of locks, {folder}, can't be used ({why}); make it writable for every user of this host, or name "
        f"another one in {LOCK_FOLDER_VARIABLE}"
    )
