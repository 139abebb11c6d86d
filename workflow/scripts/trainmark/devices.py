"""What a run is timed on: finding a GPU, and taking the CPU or the GPU for one run at a time.

Standard library and filelock only: it is called before any framework, and numpy, is imported.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEVICES = ("cpu", "gpu")

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
"""Environment variables that BLAS, OpenMP and TensorFlow read their number of threads from, once, at import."""

HIDING = ("", "-1", "NoDevFiles")
"""Values of CUDA_VISIBLE_DEVICES that hide every GPU."""

HOST_FOLDER = Path("/tmp")  # noqa: S108 (the folder in it is the user's own)
"""Where locks lie. Not TMPDIR: a batch system sets one for each job, and each would have a lock of its own."""


def find_gpus() -> list[str]:
    """Names of this machine's NVIDIA GPUs, as `nvidia-smi -L` lists them; [] where there is none.

    CUDA_VISIBLE_DEVICES set to nothing or to -1 hides them all, as it does for the frameworks. Set to some of them, it
    leaves this list as it is: which of them a run sees is then for CUDA to say.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") in HIDING:
        return []
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    try:
        listing = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in listing.stdout.splitlines() if line.startswith("GPU ")]


def no_gpu_message(asked_by: str) -> str:
    """The sentence for a GPU that was asked for and isn't there."""
    return (
        f"{asked_by} asks for the device gpu, and this machine has none that can be used ({_where_looked()}); change "
        "`devices` to auto or [cpu], run on a machine with a GPU and its driver, or submit with a cluster profile "
        "(snakemake --workflow-profile)"
    )


def _where_looked() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found_command = shutil.which("nvidia-smi") is not None
    if found_command and visible in HIDING:
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU"
    looked = "nvidia-smi -L listed no NVIDIA GPU" if found_command else "there is no nvidia-smi on the PATH"
    return looked if visible is None else f"{looked}, with CUDA_VISIBLE_DEVICES={visible!r}"


def limit_threads(threads: int) -> None:
    """Hold this process to `threads` CPUs and threads: before numpy or a framework is imported, or it has no effect.

    JAX reads no variable: it makes as many threads as the process may use CPUs, hence the affinity.
    """
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


@contextmanager
def device_slot(device: str, lock_folder: Path | None = None) -> Iterator[None]:
    """Hold the host's CPU or its GPU for one timed run; wait while another run of this user has it.

    No --cores or --resources value can then make two timed runs share a device. The lock is the operating
    system's and goes with the process. CPU runs see no GPU at all.
    """
    from filelock import FileLock  # the dry run reads this module and has no need of it

    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    folder = lock_folder or _lock_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(folder / f"{device}.lock"):
        yield


def _lock_folder() -> Path:
    host_folder = HOST_FOLDER if os.access(HOST_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
    return host_folder / f"trainmark-{os.getuid()}"
