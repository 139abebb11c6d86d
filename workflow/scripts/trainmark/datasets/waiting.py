"""Lines that say what a job on a dataset is waiting for or working on, and for how long."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from trainmark.console import print_line, said_when_long
from trainmark.machine.locks import cpus_beside_runs

SAY_AFTER_SECONDS = (5, 60, 600, 3600)
"""Times at which a line is printed. Work that ends before the first one prints nothing."""


@contextmanager
def say_while(what: str, *, shows_bar: bool = False) -> Iterator[None]:
    """Print to standard error what the body does, at each of SAY_AFTER_SECONDS, and at the end how long it took.

    shows_bar: whether the body draws a progress bar; on a terminal nothing else is printed then.
    """
    if shows_bar and sys.stderr.isatty():
        yield
        return
    started = time.monotonic()
    with ExitStack() as timers:
        for seconds in SAY_AFTER_SECONDS:
            timers.enter_context(said_when_long(f"{what}: {seconds} s so far", sys.stderr, seconds))
        yield
    seconds_taken = time.monotonic() - started
    if seconds_taken >= SAY_AFTER_SECONDS[0]:
        print_line(f"{what}: took {seconds_taken:.0f} s", sys.stderr)


@contextmanager
def hold_cpus(title: str, threads: int) -> Iterator[None]:
    """Hold CPUs beside those of timed runs (`cpus_beside_runs`), and say so while waiting for them.

    title: what the CPUs are for, in front of the line.
    """
    with ExitStack() as held:
        with say_while(f"{title}: waiting for CPUs that runs hold"):
            held.enter_context(cpus_beside_runs(threads))
        yield
