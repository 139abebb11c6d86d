"""Stands before `python` on the PATH of a launcher: rank 1 is killed, or raises an error, at a random step of an epoch.

The file FAILURE says how ("SIGKILL" or "PlantedError"); once it has happened, when, on the clock of time.monotonic.
"""

import os
import random
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

WAYS = ("SIGKILL", "PlantedError")


class PlantedError(Exception):
    """The error that rank 1 raises."""


def raise_planted(*_):
    """Handle the signal: Python does so in the main thread, which trains."""
    raise PlantedError


def fail_within(seconds, how, plan):
    """Fail at a random moment of the next `seconds`. Returns the thread that does."""
    signal.signal(signal.SIGUSR1, raise_planted)

    def strike():
        time.sleep(random.uniform(0, seconds))
        plan.write_text(str(time.monotonic()))
        os.kill(os.getpid(), signal.SIGKILL if how == "SIGKILL" else signal.SIGUSR1)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    return thread


def arm(how, plan):
    """Let this rank fail in one of its epochs from the second on, when there is a checkpoint."""
    from trainmark.frameworks import registry

    create_adapter = registry.create_adapter

    def watched(*arguments, **options):
        adapter = create_adapter(*arguments, **options)
        train_epoch, calls, took_seconds = adapter.train_epoch, random.randint(4, 8), 0.0

        def failing(feed):
            nonlocal calls, took_seconds
            calls -= 1
            begin = time.monotonic()
            striking = fail_within(took_seconds, how, plan) if calls == 0 else None
            losses = train_epoch(feed)
            took_seconds = time.monotonic() - begin
            if striking:
                striking.join()
                raise PlantedError  # Python ignores an error raised in a callback of its garbage collector, as JAX has
            return losses

        adapter.train_epoch = failing
        return adapter

    registry.create_adapter = watched


def main():
    """Run the command as python would; a rank 1 that is to fail, in this process."""
    arguments, plan = sys.argv[1:], Path(os.environ["FAILURE"])
    how = plan.read_text() if plan.exists() else ""
    if os.environ.get("PMIX_RANK") != "1" or how not in WAYS or Path(arguments[0]).name != "train.py":
        os.execv(sys.executable, [sys.executable, *arguments])
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent.resolve())
    arm(how, plan)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
