"""The GPU tests in parts: make test-gpu PART=<name>. Each takes less than nine minutes on a machine with 16 CPUs.

Before a part runs, the tests in it are listed with the seconds that each may take (its time limit, at which it is
stopped), and the time that the part takes at most. This needs no GPU.
"""

import argparse
import io
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import redirect_stdout
from heapq import heappop, heappush
from itertools import islice
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]

PARTS = {
    "frameworks": ((4, "test_gpu_frameworks.py"),),
    "runs": ((4, "test_gpu_runs.py"),),
    "kills": ((4, "test_gpu_kills.py"),),
    "workflow": ((1, "test_gpu_workflow.py"),),
    "parity": ((4, "test_gpu_parity.py", "-k", "not large"),),
    "large": ((3, "test_gpu_parity.py", "-k", "large"),),
    "measurements": ((1, "test_gpu_measurements.py"),),
}
"""For each part the calls of pytest: workers and tests. What is measured has the GPU for itself: one worker."""

ALONE = "test_gpu_workflow.py"
"""The tests for which a worker is left alone: no other test waits until they end (tests/conftest.py)."""

CPUS_OF_WORKER = 4
"""Number of CPUs for each worker: two processes at a time with two threads each. Where there are fewer, fewer work."""

LONGEST_SECONDS = 8 * 60
"""Longest time of a part's tests: nine minutes, less one in which build/gpu-bundle/run makes its folder."""

STAND_IN = "TRAINMARK_GPU_STAND_IN"
"""Environment variable that is set where stand-ins take the place of a GPU."""

INTERRUPTED = 2
"""pytest's exit status after Ctrl-C."""


def options_of(call: Sequence[Any], cpus: int) -> list[str]:
    """Return the arguments of pytest for a call of PARTS on a machine with so many CPUs."""
    workers = min(call[0], cpus // CPUS_OF_WORKER)
    return ["-n", str(workers if workers > 1 else 0), *tests_of(call)]


def tests_of(call: Sequence[Any]) -> list[str]:
    """Return the arguments of pytest that select the tests of a call."""
    return [f"tests/gpu/{word}" if word.endswith(".py") else word for word in call[1:]]


def longest_seconds(tests: Sequence[tuple[str, float]], workers: int) -> float:
    """Return the time after which the last worker ends if each test takes as long as it may.

    tests: file and limit in seconds of each, in their order. xdist gives each worker two tests at first, and another
    one whenever it has ended one.
    """
    alone = [limit for file, limit in tests if file == ALONE]
    limits = iter([limit for file, limit in tests if file != ALONE])
    own: list[deque[float]] = [deque() for _ in range(workers - len(alone))]
    for _ in range(2):
        for waiting in own:
            waiting.extend(islice(limits, 1))
    ends = [(0.0, number) for number in range(len(own))]
    now = 0.0
    while ends:
        now, number = heappop(ends)
        if now:
            own[number].extend(islice(limits, 1))
        if own[number]:
            heappush(ends, (now + own[number].popleft(), number))
    return max([now, *alone])


class Collected:
    """A plug-in of pytest that keeps the tests."""

    def pytest_collection_finish(self, session: Any) -> None:
        """Called when the tests are known."""
        self.tests = session.items


def collect(call: Sequence[Any]) -> list[Any]:
    """Return the tests of a call, in their order, as pytest has them."""
    import pytest  # in the bundle, it is installed by the time that this is called

    collected, printed = Collected(), io.StringIO()
    options = ["--collect-only", "-p", "no:cacheprovider", "--device", "gpu"]
    with redirect_stdout(printed):
        code = pytest.main([*options, *tests_of(call)], plugins=[collected])
    if code != pytest.ExitCode.OK:
        sys.exit(f"{printed.getvalue()}\nthe tests of {' '.join(tests_of(call))} can't be collected")
    return collected.tests


def work_lines(part: str) -> list[str]:
    """Return a table of the tests of a part with their limits, and the longest time that they take."""
    lines, seconds = [], 0.0
    for call in PARTS[part]:
        tests = [(test, test.get_closest_marker("timeout").args[0]) for test in collect(call)]
        seconds += longest_seconds([(test.path.name, limit) for test, limit in tests], call[0])
        lines += [
            f"  {count:2} x {name.removeprefix('test_').replace('_', ' ')}, {limit:.0f} s"
            for (name, limit), count in Counter((test.originalname, limit) for test, limit in tests).items()
        ]
    return [*lines, f"{part}: at most {seconds // 60:.0f} min {seconds % 60:.0f} s on 16 CPUs"]


def leave_interrupts_to_pytest() -> None:
    """Let Ctrl-C stop pytest alone, which then writes its results. Collecting tests undoes this (tests/conftest.py)."""
    signal.signal(signal.SIGINT, lambda *_: None)


def run(part: str) -> int:
    """Run the tests of a part. Returns 0 if all passed, or the exit status of pytest."""
    for file in REPOSITORY.glob(f"gpu-results-{part}.*"):
        file.unlink()
    leave_interrupts_to_pytest()
    status = 0
    for call in PARTS[part]:
        command = [sys.executable, "-m", "pytest", "-r", "fE", "--durations=20", "-p", "no:cacheprovider"]
        command += ["--device", "gpu", "--part", part, *options_of(call, len(os.sched_getaffinity(0)))]
        status = subprocess.run(command, cwd=REPOSITORY, check=False).returncode or status
        if status == INTERRUPTED:
            break
    return status


def stand_in(folder: Path) -> dict[str, str]:
    """Return the environment of a process that takes this machine for one with a GPU: see tests/gpu_stand_in.

    folder: folder for the compiled kernels.
    """
    paths = [str(REPOSITORY / "tests" / name) for name in ("gpu_stand_in", "cupy_stand_in")]
    return os.environ | {
        "PATH": f"{paths[0]}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [*paths, os.environ.get("PYTHONPATH")])),
        "CUPY_CACHE_DIR": str(folder),
        STAND_IN: "1",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2",
    }


def main() -> None:
    """List and run parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)} (default: all, in this order)")
    parser.add_argument("--list", action="store_true", help="list the tests and their time limits alone")
    parser.add_argument("--stand-in", action="store_true", help="without a GPU, on stand-ins for CuPy and JAX's GPU")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}; allowed: {', '.join(PARTS)}")
    if arguments.stand_in:
        with tempfile.TemporaryDirectory(prefix="trainmark-gpu-") as folder:
            again = [sys.executable, __file__, *arguments.parts, *(["--list"] if arguments.list else [])]
            leave_interrupts_to_pytest()
            sys.exit(subprocess.run(again, env=stand_in(Path(folder)), check=False).returncode)
    status = 0
    for part in arguments.parts or PARTS:
        print(*work_lines(part), sep="\n", flush=True)
        if not arguments.list:
            status = run(part) or status
        if status == INTERRUPTED:
            break
    sys.exit(status)


if __name__ == "__main__":
    main()
