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

CHANGES = os.WNOHANG | os.WUNTRACED | os.WCONTINUED  # of a child: it ended, was stopped or goes on

LEAVING_SECONDS = 2.0
"""Time in which processes that the command started may end after it."""

GRACE_SECONDS = 5.0
"""Time from SIGTERM to SIGKILL."""


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


def stop_all(starter: int | None = None) -> None:
    """End all descendants: by SIGTERM and, GRACE_SECONDS later, by SIGKILL.

    starter: they are killed at once if it is not this process's parent. A killed starter stays the parent until the
    last of its threads has ended.
    """
    end = time.monotonic() + GRACE_SECONDS
    number = signal.SIGTERM
    told: set[int] = set()
    while living := descendants(os.getpid()):
        if os.getppid() != starter or time.monotonic() >= end:
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
    # Blocked, and waited for. A handler that raises could be entered twice: a killed starter's death is told once for
    # each of its threads. SIGINT reaches the starter, too, which tells the guard.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    status: dict = {}
    if os.getppid() == starter:
        try:
            command = subprocess.Popen(words, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask))
            status = _wait_for(command)
        except OSError as error:
            status = {"error": error.strerror}
    stop_all(starter)
    with contextlib.suppress(OSError):  # the starter may be gone
        os.write(descriptor, json.dumps(status).encode() + b"\n")


def _wait_for(command: subprocess.Popen) -> dict:
    """Wait for the end of the command, and reap every other child.

    Returns the status of the module's docstring; an empty one if the guard was told to stop.
    """
    stopped_seconds = 0.0
    stopped_at: float | None = None
    while signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGCHLD:
        for number, state in iter(lambda: os.waitpid(-1, CHANGES), (0, 0)):
            if number != command.pid:
                continue
            now = time.monotonic()
            if stopped_at is not None:
                stopped_seconds += now - stopped_at
            stopped_at = now if os.WIFSTOPPED(state) else None
            if os.WIFEXITED(state) or os.WIFSIGNALED(state):
                command.returncode = code = os.waitstatus_to_exitcode(state)
                return {"code": code, "end": now, "stopped_seconds": stopped_seconds, "left": _left_behind()}
    return {}


def _left_behind() -> list[str]:
    """Return the names of the processes that have not ended LEAVING_SECONDS after the command, or at SIGTERM."""
    end = time.monotonic() + LEAVING_SECONDS
    while (living := descendants(os.getpid())) and time.monotonic() < end:
        if signal.sigtimedwait({signal.SIGTERM}, 0.02):
            break
        _reap()
    return list(living.values())


if __name__ == "__main__":
    main()
