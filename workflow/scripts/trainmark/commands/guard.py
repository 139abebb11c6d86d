"""Starts a command, and leaves no process of it behind: neither when it ends, nor when it or its starter is killed.

Called as a program: python guard.py <descriptor> <words of the command>. By Linux's subreaper (prctl(2)), processes
that lose their parent become children of the guard, where psutil finds them. When the command ends, the guard writes
one line of JSON to the descriptor: its return code (negative for a signal), the times of its start and its end on the
clock of `time.monotonic`, for how long it was stopped, and the names of the processes that it left behind, which are
ended.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

CHANGES = os.WNOHANG | os.WUNTRACED | os.WCONTINUED  # of a child: it ended, was stopped or goes on

LEAVING_SECONDS = 2.0
"""Time in which processes that the command started may end after it."""

GRACE_SECONDS = 5.0
"""Time from SIGTERM to SIGKILL."""


def adopt_orphans() -> None:
    """Make this process the parent of all its descendants that lose theirs."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(grace_seconds: float = GRACE_SECONDS) -> None:
    """End all descendants of this process by SIGTERM and, after the time of grace, by SIGKILL."""
    method, seconds = psutil.Process.terminate, grace_seconds
    while descendants := psutil.Process().children(recursive=True):
        for process in descendants:
            with suppress(psutil.NoSuchProcess):
                method(process)
                process.resume()  # a stopped process takes no SIGTERM
        psutil.wait_procs(descendants, seconds)
        method, seconds = psutil.Process.kill, 0.1


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
        start = time.monotonic()
        try:
            # No time limit: see process.py, from which it has no standard input either.
            command = subprocess.Popen(words, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask))
            status = _wait_for(command, start)
        except OSError as error:
            status = {"error": error.errno}
    end_descendants(GRACE_SECONDS if os.getppid() == starter else 0)
    with suppress(OSError):  # the starter may be gone
        os.write(descriptor, json.dumps(status).encode() + b"\n")


def _wait_for(command: subprocess.Popen, start: float) -> dict:
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
                names = []
                for process in psutil.wait_procs(psutil.Process().children(recursive=True), LEAVING_SECONDS)[1]:
                    with suppress(psutil.NoSuchProcess):
                        names.append(process.name())
                return {"code": code, "start": start, "end": now, "stopped_seconds": stopped_seconds, "left": names}
    return {}


if __name__ == "__main__":
    main()
