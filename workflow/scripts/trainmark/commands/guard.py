"""Starts a command, and leaves no process of it behind: neither when it ends, nor when it or its starter is killed.

Called as a program: python guard.py <descriptor> <words of the command>. It uses only the standard library, and Linux's
subreaper (prctl(2)): processes that lose their parent become children of the guard. When the command ends, the guard
writes one line of JSON to the descriptor: its return code (negative for a signal), the time of its end on the clock of
`time.monotonic`, for how long it was stopped, and the names of the processes that it left behind, which are killed.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

LEAVING_SECONDS = 2.0
"""Time in which processes that the command started may end after it."""

GRACE_SECONDS = 5.0
"""Time from SIGTERM to SIGKILL."""


class _Stop(BaseException):
    """The guard was told to stop, or its starter is gone."""


def adopt_orphans() -> None:
    """Make this process the parent of all its descendants that lose theirs."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> dict[int, str]:
    """Return the names of the living descendants of a process, by process id."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                before, _, after = Path("/proc", entry, "stat").read_text().rpartition(")")  # proc(5)
                state, parent = after.split()[:2]
                if state != "Z":
                    parents[int(entry)], names[int(entry)] = int(parent), before.partition("(")[2]
    found = {root}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
    return {number: names[number] for number in sorted(found - {root})}


def stop_all(grace_seconds: float) -> None:
    """End all descendants: by SIGTERM and, after the grace time, by SIGKILL."""
    end = time.monotonic() + grace_seconds
    number = signal.SIGTERM
    told: set[int] = set()
    while living := descendants(os.getpid()):
        if time.monotonic() >= end:
            number, told = signal.SIGKILL, set()
        for child in living.keys() - told:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, number)
                os.kill(child, signal.SIGCONT)  # a stopped process takes no SIGTERM
        told |= living.keys()
        _reap()
        time.sleep(0.02)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Run the command of the command line."""
    descriptor, words = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(descriptor, False)
    starter = os.getppid()
    adopt_orphans()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    def stop(_number: int, _frame: object) -> None:
        raise _Stop

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the starter gets it, too, and tells the guard
    status: dict = {}
    try:
        if os.getppid() != starter:
            raise _Stop
        command = subprocess.Popen(words, restore_signals=True, preexec_fn=_default_signals)
        code, stopped_seconds = _wait_for(command)
        status = {"code": code, "end": time.monotonic(), "stopped_seconds": stopped_seconds, "left": []}
        end = time.monotonic() + LEAVING_SECONDS
        while descendants(os.getpid()) and time.monotonic() < end:
            _reap()
            time.sleep(0.02)
        status["left"] = list(descendants(os.getpid()).values())
    except OSError as error:
        status = {"error": error.strerror}
    except _Stop:
        status = {}
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stop_all(GRACE_SECONDS if os.getppid() == starter else 0.0)
    with contextlib.suppress(OSError):  # the starter may be gone
        os.write(descriptor, json.dumps(status).encode() + b"\n")


def _default_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _wait_for(command: subprocess.Popen) -> tuple[int, float]:
    """Wait for the command, and for every process that becomes a child of the guard.

    Returns the command's code, and the seconds for which the command was stopped (SIGSTOP).
    """
    stopped_seconds = 0.0
    stopped_at: float | None = None
    while True:
        number, status = os.waitpid(-1, os.WUNTRACED | os.WCONTINUED)
        if number != command.pid:
            continue
        if stopped_at is not None:
            stopped_seconds += time.monotonic() - stopped_at
        stopped_at = time.monotonic() if os.WIFSTOPPED(status) else None
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            command.returncode = os.waitstatus_to_exitcode(status)
            return command.returncode, stopped_seconds


if __name__ == "__main__":
    main()
