"""A folder that runs the GPU tests on a machine without network: `make gpu-quick` here, `run quick` there.

The machine brings Python, numpy, and GPU builds of JAX, CuPy, torch or TensorFlow, in its own versions. The folder
contains the repository, wheels of what such machines lack, for some Pythons, and MNIST. `run` installs the packages
that are not there into a folder that leads PYTHONPATH, and keeps it for the next call. It makes no virtual environment:
CuPy looks for the libraries of CUDA in the interpreter's own packages alone, and of a virtual environment within
another it would find none.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import gpu_stages
from gpu_stages import REPOSITORY, version_of

PYTHONS = ("3.12",)
"""The Pythons that the folder is made for unless others are named."""

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
LIMIT = 60 * 2**20
"""Largest size in bytes of the folder and of the files that git tracks, which travel beside it."""

KEPT = Path(tempfile.gettempdir(), f"trainmark-gpu-{os.getuid()}")
"""The folder of the packages that `run` installs, which it keeps, and of its copy of the repository."""

INSTALL_SECONDS = 50
"""Longest time that this may take."""

COMMANDS = """\
The first call, of at most 580 s, which carries build/gpu-bundle:

set -o pipefail; export PYTHONUNBUFFERED=1 OUT; nvidia-smi -L
nvidia-smi dmon -s pucm -o T >$OUT/dmon.txt &
for m in torch jax cupy sklearn; do python3 -c "import $m" >/dev/null 2>&1 & done
timeout --signal=INT --kill-after=12 555 sh build/gpu-bundle/run quick 2>&1 | tee $OUT/log.txt

The second one, sent within 30 s, of at most 170 s and 25 s less than what is left:

set -o pipefail; export PYTHONUNBUFFERED=1 OUT
timeout --signal=INT --kill-after=12 170 sh build/gpu-bundle/run more 2>&1 | tee $OUT/log.txt"""

TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "execnet", "iniconfig", "pluggy")
"""What the tests need of requirements-dev.txt."""

SOURCES = ("chainer", "connection-pool")
"""Packages of which the index has no wheel. Theirs are pure Python, and fit every machine."""

FRAMEWORKS_OWN = (
    "numpy", "scipy", "jax", "jaxlib", "ml-dtypes", "opt-einsum",
    "tensorflow-cpu", "astunparse", "flatbuffers", "gast", "google-pasta", "grpcio", "libclang", "termcolor", "wheel",
    "aiofiles", "etils", "fsspec", "humanize", "msgpack", "orbax-checkpoint",
    "prometheus-client", "simplejson", "tensorstore", "treescope", "uvloop", "zipp",
)  # fmt: skip
"""What JAX, CuPy, torch and TensorFlow bring: the tests are to run with the machine's. Flax and optax, which a machine
with JAX may lack, are in the folder, without what they need to store arrays."""

LARGE = ("opencv-python-headless", "pyarrow", "pandas", "matplotlib", "scikit-learn", "llvmlite")
"""What is too large for the folder. If one is not on the machine, tests that need it skip."""

UNUSED = (
    "contourpy", "cycler", "fonttools", "kiwisolver", "pyparsing", "python-dateutil", "tzdata", "joblib", "narwhals",
    "pulp", "h5py",
)  # fmt: skip
"""What only the large ones need; pulp, for a scheduler of Snakemake that profiles/default does not choose (16 MB of
solvers); and h5py, which Keras imports to save models as its own files (9 MB)."""

LOCKED = re.compile(r"^([\w.-]+)(?:\[.+?\])?==(\S+)(?: ; (.+?))?((?: \\\n +--hash=\S+)+)$", re.MULTILINE)
"""An entry of a lock: name, version, marker, hashes. The extras that it was locked with are left out."""

RUN = """\
#!/bin/sh
# Runs the GPU tests from this folder: ./run [PART]; or another command, for example: ./run python -m pytest --help
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] not in sys.argv)' PYTHONS ||
  { echo "this folder is for Python PYTHONS: name one with PYTHON=... ./run, or make it for others" >&2; exit 1; }
exec "$python" "$(dirname "$0")/repository/tests/gpu_bundle.py" run "$@"
"""


# What is made here


def read_lock(text: str, python: str) -> dict[str, tuple[str, str]]:
    """Return name -> (version, hashes) of the packages that a lock has for Linux on x86-64 and this minor Python."""
    from packaging.markers import Marker  # not on every machine where the tests run

    machine = {"sys_platform": "linux", "platform_machine": "x86_64", "python_full_version": f"{python}.0"}
    return {
        name: (version, hashes)
        for name, version, marker, hashes in LOCKED.findall(text)
        if not marker or Marker(marker).evaluate(machine)
    }


def select(locks: dict[str, str], python: str) -> dict[str, tuple[str, str]]:
    """Return what the folder contains for a Python, as read_lock does. locks: texts of the requirements by name."""
    main, dev = (read_lock(locks[f"requirements{part}.txt"], python) for part in ("", "-dev"))
    needed = main | {name: dev[name] for name in TOOLS}
    without = {*FRAMEWORKS_OWN, *LARGE, *UNUSED}
    if unknown := without - {entry[0] for entry in LOCKED.findall(locks["requirements.txt"])}:
        raise LookupError(
            f"{Path(__file__).name} leaves out {', '.join(sorted(unknown))}, which the lock does not have"
        )
    return {name: pin for name, pin in needed.items() if name not in without}


def make(folder: Path, pythons: Sequence[str], mirror: Path) -> None:
    """Make the folder anew, for these Pythons. mirror: a folder with the files of MNIST in `mnist`.

    Exits with a sentence if it is too large.
    """
    shutil.rmtree(folder, ignore_errors=True)
    tracked = copy_repository(folder / "repository")
    if (mirror / "mnist").is_dir():
        shutil.copytree(mirror / "mnist", folder / "mirror" / "mnist", copy_function=shutil.copyfile)
    else:
        print(
            f"{mirror} has no folder mnist, so simpler images take the place of MNIST's; MNIST=<mirror> names another"
        )
    locks = {file.name: file.read_text() for file in REPOSITORY.glob("requirements*.txt")}
    facts: dict[str, Any] = {"version": git("describe", "--always", "--dirty").strip()}
    for python in pythons:
        packages = select(locks, python)
        download(packages, python, folder / "wheels")
        facts[python] = {name: version for name, (version, _) in packages.items()}
    (folder / "bundle.json").write_text(json.dumps(facts, indent=1))
    (folder / "run").write_text(RUN.replace("PYTHONS", " ".join(pythons), 2))
    (folder / "run").chmod(0o755)
    size = tracked + sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    sizes = f"{folder} and the files that git tracks: {size / 2**20:.1f} MiB of {LIMIT >> 20}"
    if size > LIMIT:
        sys.exit(f"{sizes}; name fewer Pythons with PYTHONS=, or leave out more in LARGE of {Path(__file__).name}")
    print(f"{sizes}. Copy it to the machine and call its `run` there.", "", COMMANDS, sep="\n")


def git(*arguments: str) -> str:
    """Return what a git command prints."""
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True).stdout


def copy_repository(folder: Path) -> int:
    """Copy what git tracks, as it is in the working tree; return its size in bytes."""
    files = [REPOSITORY / name for name in filter(None, git("ls-files", "-z").split("\0"))]
    for file in (file for file in files if file.is_file()):
        copied = folder / file.relative_to(REPOSITORY)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copied)
    return sum(file.stat().st_size for file in files if file.is_file())


def download(packages: dict[str, tuple[str, str]], python: str, folder: Path) -> None:
    """Put the wheels of packages into a folder, and build those of SOURCES."""
    any_machine = ["wheel", "--no-build-isolation", "--wheel-dir", str(folder)]
    this_machine = ["download", "--only-binary=:all:", "--python-version", python, "--dest", str(folder)]
    this_machine += [f"--platform={platform}" for platform in PLATFORMS]
    with tempfile.TemporaryDirectory() as temporary:
        for command, names in ((any_machine, SOURCES), (this_machine, packages.keys() - set(SOURCES))):
            file = Path(temporary, command[0])
            file.write_text("".join(f"{name}=={''.join(packages[name])}\n" for name in sorted(names)))
            pip(*command, "--quiet", "--no-deps", "--require-hashes", "--requirement", str(file))


def pip(*arguments: str, timeout_seconds: float | None = None) -> None:
    """Call this interpreter's pip."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, timeout=timeout_seconds)


# What runs there, with the standard library alone


def lacking(names: Iterable[str]) -> list[str]:
    """Return the packages to install. Of setuptools what counts is pkg_resources, which versions from 82 on lack."""
    has_pkg_resources = importlib.util.find_spec("pkg_resources") is not None
    return [name for name in names if not (has_pkg_resources if name == "setuptools" else version_of(name))]


def install(versions: dict[str, str], wheels: Path, site: Path) -> int:
    """Install what is lacking of packages from wheels, and make it and its commands found by child processes.

    versions: by name. site: the folder to install into; what an earlier call has installed there is kept.

    Returns the number of packages that were installed.
    """
    (site / "bin").mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    requirements = [f"{name}=={versions[name]}" for name in lacking(versions)]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode every start of a framework takes seconds longer
    if requirements:
        pip(
            "--isolated", "install", "--quiet", "--no-index", "--find-links", str(wheels), "--no-deps",
            "--no-compile", "--upgrade", "--target", str(site), *requirements, timeout_seconds=INSTALL_SECONDS,
        )  # fmt: skip
        subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "0", str(site)], check=False)
    (site / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')  # a system's is python3 alone
    (site / "bin" / "python").chmod(0o755)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    os.environ["PATH"] = os.pathsep.join([str(site / "bin"), os.environ["PATH"]])
    return len(requirements)


def run(bundle: Path, command: Sequence[str]) -> None:
    """Become a part of the GPU tests, or a command, in a copy of the repository, beside what the machine lacks.

    The results are in the folder $OUT, or else in the one that `run` is called in.

    command: the name of a part, or a command with its arguments; empty for the part `quick`.
    """
    began = time.monotonic()
    results = Path(os.environ.get("OUT") or os.curdir).resolve()
    if importlib.util.find_spec("pip") is None:
        sys.exit(f"{sys.executable} lacks pip, which installs the wheels: name another one with PYTHON=... ./run")
    if not os.access(results, os.W_OK):
        sys.exit(f"{results} can't be written: name a folder with OUT=... ./run")
    facts = json.loads((bundle / "bundle.json").read_text())
    versions = facts["{}.{}".format(*sys.version_info)]
    repository = KEPT / "repository"
    shutil.rmtree(repository, ignore_errors=True)
    shutil.copytree(bundle / "repository", repository)
    for copied in (repository, *repository.rglob("*/")):
        copied.chmod(0o755)  # the tests write there, and the bundle may be read-only
    count = install(versions, bundle / "wheels", KEPT / "site")
    print(f"trainmark {facts['version']}, Python {sys.version.split()[0]}; packages installed: {count}", flush=True)
    if not command or command[0] in gpu_stages.PARTS:
        command = ["python", "tests/gpu_stages.py", *(command or ["quick"]), "--began", str(began)]
    os.environ["OUT"] = str(results)
    if (bundle / "mirror").is_dir():
        os.environ["MNIST"] = str(bundle / "mirror")
    os.chdir(repository)
    try:
        os.execvp(command[0], list(command))
    except FileNotFoundError:
        sys.exit(f"there is no part and no command {command[0]}; the parts are {', '.join(gpu_stages.PARTS)}")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), sys.argv[4:] or PYTHONS, Path(sys.argv[3]))
    else:
        run(Path(__file__).resolve().parents[2], sys.argv[2:])
