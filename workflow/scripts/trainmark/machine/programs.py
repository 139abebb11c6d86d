"""Runs other programs for their output, within a time limit."""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


def run_program(
    words: Sequence[str], seconds: float, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without standard input, and return its exit status and what it printed.

    It and all that it started are killed when the time is over, and when this process is interrupted.

    seconds: the time limit.

    Raises subprocess.TimeoutExpired, and OSError if the program can't be started.
    """
    with subprocess.Popen(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        try:
            printed, errors = process.communicate(timeout=seconds)
        except BaseException:
            _kill(process.pid)
            raise
    return subprocess.CompletedProcess(words, process.returncode, printed, errors)


def _kill(process_id: int) -> None:
    import psutil  # only now: a dry run needs no more than Snakemake's own packages

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(process_id)
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
