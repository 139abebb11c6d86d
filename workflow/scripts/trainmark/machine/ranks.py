"""The ranks of a run: the processes that train it together, and what they tell each other beside the gradients.

Gradients are exchanged by the engine of a framework. All else goes over MPI, by which the launcher starts the ranks.
"""

import os
import platform
import shlex
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import TextIO, TypeVar

from trainmark.console import Terminal
from trainmark.errors import DeviceError, LostRankError, MeasurementError, RankError, exit_at_once, in_one_sentence
from trainmark.machine.cpus import allowed_cores
from trainmark.machine.programs import run_program

Value = TypeVar("Value")

LONGEST_POLL_SECONDS = 0.02
"""Longest time between two looks at whether the other ranks have come. MPI's own wait would keep a CPU busy."""

LOOPBACK_VARIABLES = dict.fromkeys(
    ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo0" if sys.platform == "darwin" else "lo"
)
"""Variables that name the network interface of gloo and NCCL, with the loopback interface."""

AS_ROOT = "; as root, Open MPI needs OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"


class Ranks:
    """The place of a process among the ranks of its run: it is the only one. See `MpiRanks` for several.

    rank: its number, from 0. size: number of ranks. local: numbers of the ranks on this host, the same on each of them.
    run_log: on all but the first, which have logs of their own, a stream to the log of the run.
    """

    rank = 0
    size = 1
    local: tuple[int, ...] = (0,)
    run_log: TextIO | Terminal | None = None

    def all_values(self, value: Value) -> list[Value]:
        """Return the values of all ranks, by rank. Every rank has to call it."""
        return [value]

    def all_measured(self, measure: Callable[[], Value]) -> list[Value]:
        """Return what all ranks measure at the same time, by rank. Every rank has to call it.

        Raises MeasurementError on all of them if one can't measure.
        """
        measured: list[Value] = []
        problem = ""
        self.wait()
        try:
            measured.append(measure())
        except Exception as error:  # whatever a framework raises
            problem = in_one_sentence(error)
        of_ranks = self.all_values((measured, problem))
        for rank, (_, failed) in enumerate(of_ranks):
            if failed:
                raise MeasurementError(f"rank {rank}: {failed}" if self.size > 1 else failed)
        return [own for measured, _ in of_ranks for own in measured]

    def from_first(self, compute: Callable[[], Value]) -> Value:
        """Let rank 0 compute a value while the others sleep, and return it on all. Every rank has to call it."""
        return compute()

    def wait(self) -> None:
        """Return once all ranks have called it, at the same moment as far as the network allows: for clocks."""

    def leave(self) -> None:
        """End the process with status 0 when all ranks are done. Does nothing if there are no others."""

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Let errors of the body name the rank, and print them to the log of the run, too."""
        yield


ALONE = Ranks()
"""A process that has no other ranks."""


class MpiRanks(Ranks):
    """See `Ranks`. Ranks that wait for each other outside of `wait` sleep, and take no CPU from a run that is timed."""

    def __init__(self) -> None:
        from mpi4py import MPI  # here: processes that load images import this module again

        self._mpi, self._world = MPI, MPI.COMM_WORLD
        self.rank, self.size = self._world.rank, self._world.size
        here = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        self.local = tuple(here.allgather(self.rank))
        here.Free()

    def all_values(self, value: Value) -> list[Value]:
        """See `Ranks.all_values`."""
        self._meet()
        values: list[Value] = self._world.allgather(value)
        return values

    def from_first(self, compute: Callable[[], Value]) -> Value:
        """See `Ranks.from_first`."""
        value = compute() if self.rank == 0 else None
        self._meet()
        shared: Value = self._world.bcast(value)
        return shared

    def wait(self) -> None:
        """See `Ranks.wait`."""
        self._world.Barrier()

    def leave(self) -> None:
        """See `Ranks.leave`."""
        self._meet()
        self._mpi.Finalize()
        exit_at_once(0)  # the clean-up of the engines waits for ranks that are gone

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """See `Ranks.failing_together`."""
        try:
            yield
        except LostRankError as error:  # the other rank says why
            print(f"rank {self.rank} stops: {error}", flush=True)
            exit_at_once(1)
        except Exception as error:
            named = RankError(f"rank {self.rank} of {self.size}: {in_one_sentence(error)}")
            named.__cause__ = error
            if self.run_log:
                traceback.print_exception(named, file=self.run_log)
                self.run_log.flush()
            raise named  # noqa: B904 (it has its cause)

    def _meet(self) -> None:
        request, seconds = self._world.Ibarrier(), 0.0
        while not request.Test():
            time.sleep(seconds)
            seconds = min(seconds + LONGEST_POLL_SECONDS / 200, LONGEST_POLL_SECONDS)


def join_ranks(workers: int) -> Ranks:
    """Return this process among the ranks of a run with so many workers.

    Raises DeviceError if MPI is missing, or has not started as many processes.
    """
    if workers == 1:
        return ALONE
    try:
        ranks = MpiRanks()
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no library of MPI
        raise DeviceError(_no_mpi(workers, str(error))) from error
    if ranks.size != workers:
        raise DeviceError(
            f"the run has {workers} workers, and MPI has started {ranks.size}: start it by mpiexec -n {workers}, or in "
            f"a job of Slurm by srun --mpi=pmix -n {workers} (docs/workers.md)"
        )
    _use_no_other_network(ranks)
    return ranks


def _use_no_other_network(ranks: Ranks) -> None:
    """Keep the engines from proxies, by which gRPC would look for other ranks, and those of one host on its loopback.

    Otherwise they use an interface that a user has set for other programs, or the address of the host's own name, which
    there need not be.
    """
    for name in [*os.environ]:
        if "proxy" in name.lower():
            del os.environ[name]
    if len(ranks.local) == ranks.size:
        os.environ.update(LOOPBACK_VARIABLES)


def check_launcher(launcher: str, workers: int) -> None:
    """Raise DeviceError if runs with so many workers can't be started on this machine by a launcher, or HangError."""
    words = shlex.split(launcher)
    if not words or shutil.which(words[0]) is None:
        raise DeviceError(no_launcher(words[0] if words else "mpiexec", workers))
    if workers > (cores := len(allowed_cores())):
        raise DeviceError(
            f"an experiment has {workers} workers, and each needs a CPU core of its own: this machine has {cores}; "
            "allowed: fewer workers, or a cluster profile (docs/workers.md)"
        )
    python = shutil.which("python") or sys.executable
    program = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    started = run_program([*words, "-n", str(workers), python, "-c", program])
    if started.returncode:
        loaded = run_program([python, "-c", "import mpi4py.MPI"])
        if loaded.returncode:
            raise DeviceError(_no_mpi(workers, loaded.stderr.strip().rpartition("\n")[2]))
        said = " ".join(word for word in started.stderr.split() if word.strip("-"))
        reason = shorten(said, 200, placeholder=" ...")
        raise DeviceError(
            f"the launcher {launcher} can't start {workers} workers ({reason}){AS_ROOT if 'root' in reason else ''}"
        )
    if started.stdout.split().count(str(workers)) != workers:
        raise DeviceError(
            f"the launcher {launcher} starts processes that are not the {workers} workers of one run; allowed: a "
            "launcher of the MPI that mpi4py was installed for (docs/workers.md)"
        )


def no_launcher(program: str, workers: int) -> str:
    """Say that there is no program to start workers with."""
    return (
        f"the launcher {program} of a run with {workers} workers can't be started; `make workers` installs one in "
        ".venv, and the resource mpi of the rules train and trace_training names another (docs/workers.md)"
    )


def _no_mpi(workers: int, reason: str) -> str:
    return (
        f"a run with {workers} workers needs MPI and the package mpi4py, which can't be loaded ({reason}); "
        "`make workers` installs both in .venv; on a cluster, install mpi4py for the cluster's own MPI"
    )


def address_of_first(ranks: Ranks) -> str:
    """Return host and a free port of rank 0, as "host:port", for an engine that connects ranks by itself."""

    def free_address() -> str:
        with socket.socket() as listening:
            listening.bind(("", 0))
            host = "127.0.0.1" if len(ranks.local) == ranks.size else platform.node()
            return f"{host}:{listening.getsockname()[1]}"

    return ranks.from_first(free_address)
