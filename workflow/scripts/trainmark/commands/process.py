"""Runs a command under its guard, keeps its output, and watches its files and its memory while it runs."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from trainmark.commands.entries import Chunks
from trainmark.commands.followed import LARGEST_BYTES, LARGEST_MIB, FollowedFile
from trainmark.commands.guard import adopt_orphans, end_descendants
from trainmark.commands.program import not_started
from trainmark.errors import CommandError, why

GUARD = Path(__file__).with_name("guard.py")

POLL_SECONDS = 0.02
"""Time between two looks at a file that tells the times of the epochs while it is written."""

MEMORY_POLL_SECONDS = 0.5
"""Time between two looks at the memory of the command's processes."""

CHUNK_BYTES = 1 << 16


@dataclass
class Ran:
    """What running a command gave.

    start, end: on the clock of `time.monotonic`.
    output: pieces of its standard output and error, with the time at which each was read.
    followed: pieces of the followed file at its end, likewise; empty without one.
    code: its exit status, or minus the number of the signal that ended it.
    stopped_seconds: for how long it was stopped (SIGSTOP).
    left: the names of the processes that it left behind, which were stopped.
    over_mib: the memory of its processes when it exceeded the limit; None if it did not.
    """

    start: float = 0.0
    end: float = 0.0
    output: list[tuple[float, bytes]] = field(default_factory=list)
    followed: Chunks = ()
    code: int | None = None
    stopped_seconds: float = 0.0
    left: list[str] = field(default_factory=list)
    over_mib: float | None = None


class CommandProcess:
    """A command that runs in a folder.

    follow: a file in it, or a pattern, that is followed while it is written; None for none.
    limit_mib: the largest resident memory of its processes together; None for no limit.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        follow: str | None,
        limit_mib: float | None,
    ) -> None:
        self._words, self._folder, self._variables = words, folder, variables
        self._follow, self._limit_mib = FollowedFile(folder, follow) if follow else None, limit_mib
        self._guard: subprocess.Popen | None = None
        self._excess: str | None = None
        self._ran = Ran()

    def run(self) -> Ran:
        """Run the command and return what it gave, with every process of it gone.

        Its output goes on to this process's standard output. Raises CommandError if it can't be started, writes more
        than LARGEST_BYTES, or is stopped.
        """
        if not sys.platform.startswith("linux"):
            raise CommandError("commands run on Linux alone, whose kernel finds every process that they leave behind")
        adopt_orphans()
        ran, (reading, writing) = self._ran, os.pipe()
        ran.start = time.monotonic()
        self._guard = self._started_guard(writing)
        os.close(writing)
        done = threading.Event()
        threads = [threading.Thread(target=self._pump, daemon=True)]
        if self._follow:
            threads.append(threading.Thread(target=self._watch_file, args=(self._follow, done), daemon=True))
        if self._limit_mib is not None:
            threads.append(threading.Thread(target=self._watch_memory, args=(self._limit_mib, done), daemon=True))
        for thread in threads:
            thread.start()
        with os.fdopen(reading) as status_line:
            status = json.loads(status_line.readline() or "{}")
        self._guard.wait()
        if not status:  # somebody killed the guard, and this process adopted what it guarded
            end_descendants(0)
        done.set()
        for thread in threads:
            thread.join()
        if "error" in status:
            path = self._variables.get("PATH", os.defpath)
            raise CommandError(not_started(self._words[0], status["error"], self._folder, path))
        ran = self._ran = replace(ran, **{"end": time.monotonic()} | status)
        if self._excess:
            raise CommandError(self._excess)
        if ran.code is None and ran.over_mib is None:
            raise CommandError("somebody stopped the process that guards the command, and with it the command")
        return ran

    def _started_guard(self, writing: int) -> subprocess.Popen:
        """Start the guard, in the main thread: the kernel tells the guard when the thread that started it ends."""
        try:
            # No time limit: a command trains as long as it takes, and the limit of its job ends it.
            return subprocess.Popen(
                [sys.executable, "-I", str(GUARD), str(writing), *self._words],
                cwd=self._folder, env=dict(self._variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, pass_fds=[writing], start_new_session=True,
            )  # fmt: skip
        except OSError as error:  # such as a command line that is too long
            raise CommandError(f"the program {self._words[0]} can't be started {why(error)}") from error

    def stop(self) -> None:
        """Stop the command and all that it started, and wait for their end. It may be called in a signal handler."""
        if self._guard:
            self._guard.terminate()
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self._guard.pid).wait()

    def _pump(self) -> None:
        """Copy the output to this process's own, which is its log, and keep it with the times of its pieces."""
        assert self._guard is not None and self._guard.stdout is not None
        size_bytes = 0
        while data := os.read(self._guard.stdout.fileno(), CHUNK_BYTES):
            size_bytes += len(data)
            if size_bytes > LARGEST_BYTES:
                self._refuse(f"the command printed more than {LARGEST_MIB} MiB: let it print less")
                continue  # an unread pipe would keep the command from ending
            self._ran.output.append((time.monotonic(), data))
            with suppress(OSError):  # a full disk: the run itself says so when it writes its record
                os.write(sys.stdout.fileno(), data)

    def _watch_file(self, file: FollowedFile, done: threading.Event) -> None:
        ended = False
        while not ended and file.size_bytes <= LARGEST_BYTES:
            ended = done.wait(POLL_SECONDS)
            file.look(time.monotonic())
        file.end(time.monotonic())
        self._ran.followed = file.chunks
        if file.size_bytes > LARGEST_BYTES:
            self._refuse(too_large(file.path))

    def _watch_memory(self, limit_mib: float, done: threading.Event) -> None:
        assert self._guard is not None
        while not done.wait(MEMORY_POLL_SECONDS):
            if (now_mib := _tree_mib(self._guard.pid)) > limit_mib:
                self._ran.over_mib = now_mib
                return self._guard.terminate()

    def _refuse(self, sentence: str) -> None:
        if not self._excess and self._guard:
            self._excess = sentence
            self._guard.terminate()


def too_large(path: Path) -> str:
    """Say that a file is larger than what is read."""
    return f"{path.name} has more than {LARGEST_MIB} MiB: let the command write less to it"


def _tree_mib(process_id: int) -> float:
    """Return the resident size of all descendants of a process together, in MiB."""
    total_bytes = 0
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(process_id).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                total_bytes += process.memory_info().rss
    return total_bytes / 2**20
