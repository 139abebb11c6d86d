"""Lock the CPUs or the GPU on which a run is timed, so that only one run uses them at a time.

This module uses only the standard library, because the lock is taken before numpy or a framework is imported.
"""

import errno
import fcntl
import hashlib
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import TextIO

from trainmark.console import LONG_SECONDS, Terminal, in_words, say_when_long
from trainmark.errors import CLUSTER_VARIABLE, BusyError, DeviceError, why
from trainmark.machine.cpus import allowed_cores, allowed_cpus, bind, spread
from trainmark.machine.gpus import limit_threads, no_gpu_message, visible_gpus
from trainmark.machine.ranks import ALONE, Ranks
from trainmark.machine.variables import seconds_in

HOST_FOLDER = Path("/tmp")  # noqa: S108 (see _lock_folder)
"""Parent of the locks' folder. It is not TMPDIR, which batch systems set for each job: jobs would not share locks."""

WAITING_VARIABLE = "TRAINMARK_WAITING_SECONDS"
"""Environment variable with the longest time to wait for a device, in a job that has a time limit."""

LOCK_FOLDER_VARIABLE = "TRAINMARK_LOCK_FOLDER"
"""Environment variable that names another folder for the locks. All jobs of a host must share it."""

POLL_SECONDS = 0.2
"""Time between two attempts of the first process in the queue to lock its CPUs and GPU."""

QUEUE_POLL_SECONDS = 0.5
"""Time between two attempts of the others. It is longer because attempts take CPU time from the run being timed."""

FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How a lock is opened: in a folder of all users, another user can make a link or a pipe of that name."""

_held: dict[Path, tuple[int, bool]] = {}
"""The descriptor of each shared lock that this process holds, and whether the kernel knows its path, too."""


@dataclass(frozen=True)
class DeviceLock:
    """The CPUs and the GPU that are locked for one run.

    cpus: numbers of the CPUs that it may run on.
    gpu: UUID of its GPU; None for a CPU run.
    held_from: time at which the lock was taken, on the clock of `time.monotonic`.
    """

    cpus: tuple[int, ...]
    gpu: str | None
    held_from: float


@contextmanager
def hold_device(
    device: str,
    threads: int,
    *,
    title: str = "",
    stream: TextIO | Terminal | None = None,
    waiting_seconds: float = LONG_SECONDS,
    ranks: Ranks = ALONE,
) -> Iterator[DeviceLock]:
    """Lock `threads` CPUs and, for the device "gpu", one GPU for a timed run. Wait while other runs hold them.

    Of a run with several workers, one rank of each host locks for all that are there, one host after the other, so that
    no two runs each hold half of what they need. Each rank gets as many CPUs, and a GPU of its own.

    Whole cores are locked, so that no other run computes on the second CPU of a core. If there are fewer cores than
    threads, all cores are locked. A GPU run locks at most the cores divided by the number of GPUs, so that all GPUs can
    be used at once. The locks are those of the operating system: they hold for all users of the host, and are released
    when the process ends, even if it is killed. Runs that choose from the same cores and GPUs wait in a queue, so that
    small runs cannot delay a run that needs many cores. CUDA_VISIBLE_DEVICES is set so that a GPU run sees only its own
    GPU, and a CPU run sees none.

    threads: number of CPUs of each rank.
    title: beginning of the line that says that the process waits.
    stream: where this line is printed; None means standard error.
    waiting_seconds: waiting time before this line is printed.
    ranks: the ranks of the run.

    Raises DeviceError if there are not as many GPUs, or CPUs, as ranks, or no usable folder for the locks, and
    BusyError if the job waits longer than WAITING_VARIABLE says.
    """
    count = len(ranks.local)
    with ExitStack() as locks:
        take = partial(_hold_parts, locks, device, threads * count, count, title, stream, waiting_seconds)
        part = _in_turn(ranks, take)[ranks.local.index(ranks.rank)]
        os.environ["CUDA_VISIBLE_DEVICES"] = part.gpu or ""
        yield part


def _in_turn(ranks: Ranks, take: Callable[[], list[DeviceLock]]) -> list[DeviceLock]:
    """Let the first rank of each host take the locks of the ranks there, and return those of this host."""
    if ranks.size == 1:
        return take()
    here = platform.node()
    places = ranks.all_values((here, allowed_cpus()))
    # A launcher may have bound each rank to some CPUs: together they may use those of all.
    bind(set().union(*(cpus for host, cpus in places if host == here)))
    taken: list[list[DeviceLock]] = []
    for host in sorted({host for host, _ in places}):
        takes = host == here and ranks.rank == ranks.local[0]
        taken += [locks for locks in ranks.all_values(take() if takes else []) if locks and host == here]
    return taken[0]


def _hold_parts(
    locks: ExitStack,
    device: str,
    threads: int,
    parts: int,
    title: str,
    stream: TextIO | Terminal | None,
    waiting_seconds: float,
) -> list[DeviceLock]:
    """Lock CPUs and GPUs of this host until `locks` closes, and return equal parts of them. See `hold_device`."""
    gpus = visible_gpus() if device == "gpu" else []
    if device == "gpu" and not gpus:
        raise DeviceError(no_gpu_message("this run"))
    cores = allowed_cores()
    if parts > len(cores) or (gpus and parts > len(gpus)):
        each, has = ("CPU core and a GPU", f"{len(cores)} and {len(gpus)}") if gpus else ("CPU core", len(cores))
        raise DeviceError(
            f"each of the {parts} workers on {platform.node()} needs a {each} of its own, and the run may use {has} "
            "there; allowed: fewer workers, or more hosts"
        )
    share = len(cores) * parts // len(gpus) if gpus else len(cores)
    count = max(parts, min(threads, share))
    folder = _lock_folder()
    needed = f"{count} CPU{'s' if count > 1 else ''}"
    if gpus:
        needed = "a GPU" if parts == 1 else f"{parts} GPUs"
    text = f"{title}: waiting for {needed}, held by other jobs"
    with say_when_long(text, stream, waiting_seconds), ExitStack() as queue:
        end = time.monotonic() + seconds_in(WAITING_VARIABLE, inf)
        first = folder / f"queue-{_short_hash(f'{list(cores)} {gpus}')}.lock"
        while not _take(first, queue):
            _wait(QUEUE_POLL_SECONDS, end, needed)
        while not (held := _try_device(cores, count, gpus, parts, folder, locks)):
            _wait(POLL_SECONDS, end, needed)
    held_cores, held_gpus = held
    cpus = spread(cores[core] for core in held_cores)[: max(parts, threads)]
    size, now = len(cpus) // parts, time.monotonic()
    return [
        DeviceLock(tuple(sorted(cpus[i * size : (i + 1) * size])), held_gpus[i] if gpus else None, now)
        for i in range(parts)
    ]


def _wait(seconds: float, end: float, needed: str) -> None:
    """Sleep. Raises BusyError after the time `end`. needed: what the process waits for."""
    if time.monotonic() > end:
        raise BusyError(
            f"waited {in_words(seconds_in(WAITING_VARIABLE, inf))} of the job's time limit for {needed} on "
            f"{platform.node()}, held by other jobs: the scheduler starts more jobs there than it has CPUs or "
            "GPUs for; let it bind jobs to CPUs (docs/clusters.md), and call snakemake again"
        )
    time.sleep(seconds)


@contextmanager
def cpus_beside_runs(threads: int, title: str) -> Iterator[None]:
    """Lock CPUs for untimed work and pin this process to them, so that it cannot slow down a run that is being timed.

    title: what the process does. The line that says that it waits begins with it.
    """
    with hold_device("cpu", threads, title=title) as device_lock:
        limit_threads(device_lock.cpus)
        yield


def _try_device(
    cores: Iterable[int], count: int, gpus: Sequence[str], parts: int, folder: Path, locks: ExitStack
) -> tuple[list[int], list[str]] | None:
    """Lock `count` cores and, if there are GPUs, `parts` of them in `locks`, and return (cores, GPUs).

    Return None, with nothing locked, if not all of them are free.
    """
    with ExitStack() as choosing:  # one process at a time: else two runs could each lock half of the cores and give up
        _take(folder / "choosing.lock", choosing, wait=True)
        free = (gpu for gpu in gpus if _take(folder / f"gpu-{gpu.replace('/', '-')}.lock", locks))
        held_gpus = list(islice(free, parts))
        held: list[int] = []
        if not gpus or len(held_gpus) == parts:
            for core in cores:
                if len(held) < count and _take(folder / f"core-{core}.lock", locks):
                    held.append(core)
        if len(held) == count:
            return held, held_gpus
        locks.close()
    return None


def _take(path: Path, locks: ExitStack, *, shared: bool = True, wait: bool = False, of_host: bool = True) -> bool:
    """Lock a file until `locks` closes, and return whether this succeeded. It is made if missing, with its folder.

    shared: whether other users lock it, too.
    wait: wait until the lock is free.
    of_host: whether the name stands for something of the host, such as a CPU, in each container with its network.

    Raises DeviceError if the file can't be locked.
    """
    try:
        while not (lock := _lock(path, shared, of_host)) and wait:
            time.sleep(QUEUE_POLL_SECONDS)
    except OSError as error:
        raise _no_locks(path.parent, error) from error
    if lock:
        locks.enter_context(lock)
    return lock is not None


def _lock(path: Path, shared: bool, of_host: bool) -> ExitStack | None:
    """Lock a file, and of the host on Linux also its path, which can't be removed; None if another process has one.

    The lock of the path is a socket in the kernel's abstract namespace (unix(7)), which all processes share that share
    the network; the file is for the others, and for macOS.
    """
    with ExitStack() as lock:
        claim = None
        try:
            if of_host and sys.platform == "linux":
                claim = lock.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                claim.bind(f"\0trainmark/{_short_hash(os.path.realpath(path))}")
        except OSError as error:  # a sandbox may have no sockets
            if error.errno == errno.EADDRINUSE:
                return None
            claim = None
        descriptor = _open(path, shared)
        lock.callback(os.close, descriptor)
        with suppress(BlockingIOError, PermissionError):  # the latter on some network file systems
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, descriptor):
                if shared:
                    _held[path] = (descriptor, claim is not None)
                    lock.callback(_held.pop, path)
                return lock.pop_all()
    return None


def keep_locks() -> None:
    """Make and lock anew what somebody removed of the files that this process holds. Called while a run is timed.

    Raises BusyError if another process has locked one since, so that two runs were timed on one device.
    """
    for path, (descriptor, is_claimed) in _held.items():
        if _is_at(path, descriptor):
            continue
        try:
            anew = _open(path, shared=True)
            fcntl.flock(anew, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(
                f"somebody removed the lock {path} while this run held it, and another process has it now, so the run "
                "did not have its device alone; let nothing tidy up that folder, or name another one in "
                f"{LOCK_FOLDER_VARIABLE}, and call snakemake again"
            ) from error
        except OSError as error:
            if is_claimed:  # nobody else has the device while this process lives
                continue
            raise _no_locks(path.parent, error) from error
        os.dup2(anew, descriptor, inheritable=False)
        os.close(anew)


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether a path is that of an open file, and not of another one that was made in its place."""
    with suppress(OSError):
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    return False


def _open(path: Path, shared: bool) -> int:
    """Open a lock, and make it first if it is missing. A shared one, and its folder, all users can use then.

    In a sticky folder Linux may refuse to open files of other users with O_CREAT (fs.protected_regular,
    proc_sys_fs(5)), so it is used with O_EXCL alone.
    """
    with suppress(FileNotFoundError):
        return os.open(path, FLAGS)
    umask = os.umask(0o022) if shared else None
    try:  # with a later chmod another user would be refused until then
        (path.parent.parent if shared else path.parent).mkdir(parents=True, exist_ok=True)
        if shared:
            os.umask(0)
            with suppress(FileExistsError):
                path.parent.mkdir(0o1777)
        with suppress(FileExistsError):
            return os.open(path, FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    finally:
        if umask is not None:
            os.umask(umask)
    return os.open(path, FLAGS)


@contextmanager
def run_lock(record: Path, own_folder: Path) -> Iterator[None]:
    """Lock a run, because a process that outlived its workflow may still be training it.

    record: the record that the run will write; it identifies the run.
    own_folder: a folder of the run, created if missing. A lock in it also excludes other hosts, if the file system
    supports locks.
    """
    with ExitStack() as locks:
        name = f"run-{_short_hash(os.fspath(record.resolve()))}.lock"
        _take(_lock_folder() / name, locks, wait=True, of_host=False)
        try:
            _take(own_folder / "running.lock", locks, shared=False, wait=True, of_host=False)
        except DeviceError as error:
            reason = error.__cause__
            print(f"the run is locked against other jobs of this host alone, not of other hosts: {reason}", flush=True)
        yield


def hold_directory(directory: Path) -> ExitStack:
    """Lock a directory against other workflows until the returned stack is closed or the process ends.

    The lock is in the directory or, if its file system does not support locks, in the folder of the host's locks.
    Raises BusyError if another workflow holds it, and DeviceError if no lock can be made.
    """
    locks = ExitStack()
    try:
        free = _take(directory / ".snakemake" / "trainmark.lock", locks, shared=False, of_host=False)
    except DeviceError:
        name = f"directory-{_short_hash(os.fspath(directory.resolve()))}.lock"
        free = _take(_lock_folder() / name, locks, of_host=False)
    if not free:
        raise BusyError(f"another snakemake is at work in {directory}: wait for it, or name another with --directory")
    return locks


def _short_hash(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


def _lock_folder() -> Path:
    """Return the folder of the host's locks. All users share it, as they share the devices.

    It is made sticky, like /tmp, so that no user can remove the lock of another. Raises DeviceError if it is a link
    that another user made.
    """
    folder = Path(os.environ.get(LOCK_FOLDER_VARIABLE) or HOST_FOLDER / "trainmark-locks")
    if folder.is_symlink() and folder.lstat().st_uid not in (0, os.getuid()):
        raise _no_locks(folder, OSError(errno.ELOOP, "it is a link of another user"))
    return folder


def _no_locks(folder: Path, error: OSError) -> DeviceError:
    writable = "make it writable for every user of this host (chmod 1777, and chmod 666 the files in it)"
    said = why(error, writable) + (f", and {writable}" if error.errno == errno.EACCES else "")
    site = " or, as lock_folder, in the site file" if CLUSTER_VARIABLE in os.environ else ""
    return DeviceError(
        f"the folder of locks, {folder}, can't be used {said}, or name another one in {LOCK_FOLDER_VARIABLE}{site}"
    )
