"""The GPU tests in stages: make test-gpu PART=quick. What is worth most comes first, and each stage has a cap.

A machine with a GPU may be there for minutes, and end a call at any moment. So a stage that has not ended at its cap
is interrupted, and the next one starts; and each result is in the folder of results as soon as it is there
(gpu_results.py).
"""

import argparse
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import gpu_results

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPTS = REPOSITORY / "workflow" / "scripts"

STAND_IN = "TRAINMARK_GPU_STAND_IN"
"""Environment variable that is set where stand-ins take the place of a GPU."""

STAND_IN_FACTOR = 10
"""Stand-ins compute on two CPUs: each cap and each time limit is that many times as long."""

NONE_COMPUTES = 3
"""Exit status if no framework computes on the GPU: the rest of the machine's time is kept for another try."""

GRACE_SECONDS = 5
"""Time between the interrupt of a stage and the end of its processes, within its cap."""

CPUS_OF_CALL = 2
"""CPUs of each of the calls of pytest that run side by side. Where there are fewer, fewer calls run at once."""

GPU_PACKAGES = {"chainer": ("cupy",)}
"""Packages that a framework needs on a GPU only. The others have other builds for it."""

QUICKLY_COMPILED = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
"""Flags of XLA with which it tries no algorithms, and compiles in a half to a third of the time.

With the first flag alone, XLA (JAX 0.11.2) refuses products of float64 that it would compute in Triton: it has no
configuration for them without trying."""


@dataclass(frozen=True)
class Stage:
    """Calls of pytest that run side by side, or one call that has the machine for itself.

    estimate_seconds, cap_seconds: what the stage should take on 16 CPUs, and what it may take at most. Time that the
        stages before it have left is its own as well.
    calls: arguments of pytest of each call, the longest ones first.
    flags: flags of XLA.
    """

    name: str
    estimate_seconds: int
    cap_seconds: int
    calls: Sequence[tuple[str, ...]] = ()
    flags: str = ""


def contract(framework: str, loop: str, *selection: str) -> tuple[str, ...]:
    """Return the call of the contract suite of a trainer."""
    return ("tests/contract/contract_suite.py", "--framework", framework, "--loop", loop, *selection)


def gpu_tests(name: str, *selection: str) -> tuple[str, ...]:
    """Return the call of a file of tests/gpu."""
    return (f"tests/gpu/test_gpu_{name}.py", *selection)


OF_XLA = [("flax", "tuned"), ("keras-jax", "tuned"), ("flax", "stock"), ("keras-jax", "stock")]
"""The trainers that XLA compiles, which takes longest."""

OTHERS = [("torch", "tuned"), ("torch", "stock"), ("chainer", "stock"), ("chainer", "tuned"), ("keras-torch", "stock")]

PART_OF_CONTRACT = "reference or rule or definition or gradients or tuning or resumes or unobserved or stream"

INSTALL = Stage("install", 45, 60)
GATE = Stage("gate", 20, 40, [gpu_tests("frameworks")], QUICKLY_COMPILED)

MEASURED = [
    Stage("workflow", 105, 115, [gpu_tests("workflow")]),
    Stage("break-even", 65, 75, [gpu_tests("break_even")]),
    Stage("loops", 60, 65, [gpu_tests("loops", "-k", "mlp and not compilers")]),
    Stage("images", 40, 45, [gpu_tests("loops", "-k", "resnet50-torch and not compilers")]),
]
MORE = [
    Stage("resnet", 90, 95, [gpu_tests("loops", "-k", "resnet50-flax")]),
    Stage("compilers", 40, 45, [gpu_tests("loops", "-k", "compilers")]),
    Stage("energy", 15, 20, [gpu_tests("measurements", "-k", "power")]),
]

PARTS: Mapping[str, Sequence[Stage]] = {
    "quick": [
        INSTALL,
        GATE,
        Stage(
            "contracts",
            140,
            150,
            [
                *(contract(*trainer, "-k", PART_OF_CONTRACT) for trainer in OF_XLA),
                gpu_tests("parity", "-k", "imdb-cnn"),
                gpu_tests("parity", "-k", "mnist-mlp-keras"),
                gpu_tests("kills", "-k", "mnist-mlp-keras and (torch or flax) and not keras-torch"),
                *(contract(*trainer) for trainer in OTHERS),
                gpu_tests("measurements", "-k", "waits or shows"),
                gpu_tests("runs"),
            ],
            QUICKLY_COMPILED,
        ),
        *MEASURED,
    ],
    "more": [
        replace(INSTALL, estimate_seconds=5, cap_seconds=10),  # they are there since the first call
        *MORE,
    ],
    "whole": [
        GATE,
        Stage(
            "proofs",
            3600,
            4 * 3600,
            [
                *(contract(*trainer) for trainer in OF_XLA + OTHERS),
                *map(gpu_tests, ("parity", "kills", "runs")),
                gpu_tests("measurements", "-k", "waits or shows"),
            ],
        ),
        *MEASURED,
        *MORE,
    ],
}
"""The stages of each part, in their order. `quick` and `more` are for one machine of fifteen minutes."""


# --- the machine -------------------------------------------------------------------------------------------------


def missing_packages(framework: str) -> list[str]:
    """Return the packages that a framework lacks for the GPU."""
    from trainmark.frameworks.registry import known_frameworks

    on_gpu = [package for package in GPU_PACKAGES.get(framework, ()) if importlib.util.find_spec(package) is None]
    return known_frameworks()[framework].missing_packages() + on_gpu


def version_of(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


STACK = {
    **{name: (name,) for name in ("numpy", "jax", "jaxlib", "flax", "optax", "torch", "keras", "chainer", "snakemake")},
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
}
"""Packages whose versions belong to the results, with the distributions that they are installed from."""


def machine() -> dict[str, Any]:
    """Return the hardware, the versions and what is missing."""
    from trainmark.frameworks.registry import known_frameworks
    from trainmark.machine import nvml
    from trainmark.machine.gpus import visible_gpus

    missing = {name: missing_packages(name) for name in known_frameworks()}
    return {
        "gpus": [nvml.describe(uuid) for uuid in visible_gpus()],
        "state": [nvml.state(uuid) for uuid in visible_gpus()],
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {name: version for name in chain(*STACK.values()) if (version := version_of(name))},
        "missing": {name: f"no {', '.join(packages)}" for name, packages in missing.items() if packages},
    }


def cpus_of_worker(number: int, workers: int) -> list[int]:
    """Return the CPUs of one of the calls that run at once.

    Each has cores of its own, unless there are fewer cores than calls. Otherwise all would take the first ones, since
    each has a folder of locks of its own.
    """
    from trainmark.machine.cpus import allowed_cores

    cores = list(allowed_cores().values())
    share = len(cores) // workers
    return sorted(chain(*(cores[number * share :][:share] or cores)))


# --- a stage -----------------------------------------------------------------------------------------------------


@dataclass
class Runner:
    """Runs the stages of a part.

    work: folder of the tests' own files. results: folder of the results.
    began: when the first stage began, on the clock of `time.monotonic`.
    """

    work: Path
    results: Path
    began: float
    guard: subprocess.Popen[str] = field(init=False)

    def run(self, stages: Sequence[Stage]) -> int:
        """Run stages. Returns 0, 1 if a test failed or a stage was interrupted, or NONE_COMPUTES."""
        self.guard = subprocess.Popen(
            [sys.executable, __file__, "guard", str(self.work), str(self.results)],
            stdin=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        ends_at = self.began
        status = 0
        try:
            for stage in stages:
                ends_at += stage.cap_seconds * (STAND_IN_FACTOR if STAND_IN in os.environ else 1)
                if stage.calls:
                    self._run_stage(stage, ends_at - GRACE_SECONDS)
                    gpu_results.pack(self.work, self.results)
                if stage is GATE and not self._computes():
                    print("no framework computes on the GPU, so nothing else is run", flush=True)
                    status = NONE_COMPUTES
                    break
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            status = 1
        self.guard.communicate()
        entries = gpu_results.read(self.results)
        failed = any(
            entry.get("outcome") == "failed" or entry.get("ended", "its end") != "its end" for entry in entries
        )
        return status or int(failed)

    def _run_stage(self, stage: Stage, ends_at: float) -> None:
        """Run the calls of a stage until they have ended, or interrupt them. ends_at: when that is."""
        os.environ[gpu_results.STAGE] = stage.name
        begin, ended = time.monotonic(), "an interrupt"
        installed = [call for call in stage.calls if "--framework" not in call or not missing_packages(call[2])]
        workers = max(1, min(len(installed), len(os.sched_getaffinity(0)) // CPUS_OF_CALL))
        waiting, running = list(enumerate(installed)), dict[int, tuple[subprocess.Popen, Path]]()
        try:
            while waiting or running:
                for worker in range(workers):
                    if worker in running and running[worker][0].poll() is not None:
                        self._end(*running.pop(worker))
                    if worker not in running and waiting:
                        running[worker] = self._start(stage, *waiting.pop(0), worker, workers)
                if self._is_over(stage, ends_at):
                    ended = "its cap"
                    return
                time.sleep(0.05)
            ended = "its end"
        finally:
            for process, _ in running.values():
                _signal(process.pid, signal.SIGINT)
            deadline = time.monotonic() + GRACE_SECONDS
            for process, log in running.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
                self._end(process, log)
            gpu_results.add({"ended": ended, "seconds": round(time.monotonic() - begin, 1)})
            print(f"{stage.name}: {time.monotonic() - begin:.0f} s, {ended}", flush=True)

    def _is_over(self, stage: Stage, ends_at: float) -> bool:
        """Return whether a stage has to end now."""
        return time.monotonic() >= ends_at

    def _start(
        self, stage: Stage, number: int, call: tuple[str, ...], worker: int, workers: int
    ) -> tuple[subprocess.Popen, Path]:
        """Start a call of pytest; return its process, whose process group is its own, and its log."""
        name = f"{stage.name}-{number}"
        log = self.work / "results" / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "gpu_results", "-p", "no:cacheprovider"]
        command += ["--device", "gpu", "--basetemp", str(self.work / name), *call]
        tests = os.pathsep.join(filter(None, [str(REPOSITORY / "tests"), os.environ.get("PYTHONPATH")]))
        flags = " ".join(filter(None, [os.environ.get("XLA_FLAGS"), stage.flags if STAND_IN not in os.environ else ""]))
        here = os.environ | {"PYTHONPATH": tests, "XLA_FLAGS": flags}
        if workers > 1:  # nothing is timed: no call waits for another's CPUs
            here["TRAINMARK_LOCK_FOLDER"] = str(self.work / "locks" / name)
        cpus = cpus_of_worker(worker, workers)
        with log.open("w") as file:
            process = subprocess.Popen(
                command, cwd=REPOSITORY, env=here, stdout=file, stderr=subprocess.STDOUT, process_group=0,
                preexec_fn=lambda: os.sched_setaffinity(0, cpus),
            )  # fmt: skip
        self._tell_guard(process.pid)
        gpu_results.add({"started": call, "process": process.pid})
        return process, log

    def _end(self, process: subprocess.Popen, log: Path) -> None:
        """End what is left of a call, and print the last line of pytest."""
        _signal(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a GPU's driver may hold it
            process.wait(GRACE_SECONDS)
        self._tell_guard(-process.pid)
        lines = log.read_text(errors="replace").splitlines() or ["nothing was printed"]
        print(f"{log.stem}: {lines[-1]}", flush=True)

    def _tell_guard(self, group: int) -> None:
        assert self.guard.stdin  # a pipe
        print(group, file=self.guard.stdin, flush=True)

    def _computes(self) -> bool:
        """Return whether a framework has passed the gate."""
        entries = gpu_results.read(self.results)
        return any(entry["stage"] == GATE.name and entry.get("outcome") == "passed" for entry in entries)


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def guard(work: Path, results: Path) -> None:
    """Wait until the process that runs the stages has ended, or was killed; end what it left, and pack the results.

    It reads the groups of processes that have started, one a line, and with a minus those that have ended.
    """
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line)
        groups = groups | {group} if group > 0 else groups - {-group}
    for group in groups:
        _signal(group, signal.SIGKILL)
    gpu_results.pack(work, results)
    shutil.rmtree(work, ignore_errors=True)


# --- the command -------------------------------------------------------------------------------------------------


def run(part: str, results: Path, began: float) -> int:
    """Run a part and return its exit status. began: when its first stage began, on the clock of `time.monotonic`."""
    results.mkdir(parents=True, exist_ok=True)
    for name in (gpu_results.LINES, gpu_results.TABLE, gpu_results.ARCHIVE):
        (results / name).unlink(missing_ok=True)
    os.environ[gpu_results.RESULTS] = str(results)
    if str(SCRIPTS) not in sys.path:
        sys.path.insert(0, str(SCRIPTS))
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    gpu_results.add({"stage": "", "part": part, "machine": machine()})
    print(gpu_results.describe(gpu_results.read(results)[0]["machine"]), flush=True)
    if PARTS[part][0].name == INSTALL.name:
        gpu_results.add({"stage": "install", "ended": "its end", "seconds": round(time.monotonic() - began, 1)})
    return Runner(Path(tempfile.mkdtemp(prefix="trainmark-gpu-")), results, began).run(PARTS[part])


def _interrupt(*_: Any) -> None:
    """End the part. Called once: `timeout` sends its signal to the process, and then to its group."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def stand_in(folder: Path) -> dict[str, str]:
    """Return the environment of a process that takes this machine for one with a GPU: see tests/gpu_stand_in.

    folder: folder for the compiled kernels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(REPOSITORY / "tests" / name) for name in ("gpu_stand_in", "cupy_stand_in")]
    return os.environ | {
        "PATH": f"{paths[0]}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [*paths, os.environ.get("PYTHONPATH")])),
        "CUPY_CACHE_DIR": str(folder),
        STAND_IN: "1",
    }


def main() -> None:
    """Run the stages of a part."""
    if sys.argv[1:2] == ["guard"]:
        guard(*map(Path, sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=PARTS, default="quick")
    parser.add_argument("--stand-in", action="store_true", help="without a GPU, on stand-ins for CuPy and JAX's GPU")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)  # gpu_bundle.py, when it began to install
    arguments = parser.parse_args()
    if arguments.stand_in:
        os.execve(
            sys.executable, [sys.executable, __file__, arguments.part], stand_in(REPOSITORY / "build" / "kernels")
        )
    else:
        results = Path(os.environ.get("OUT") or REPOSITORY / "build" / "gpu-results").resolve()
        sys.exit(run(arguments.part, results, arguments.began or time.monotonic()))


if __name__ == "__main__":
    main()
