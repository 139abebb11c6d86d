"""A folder that runs the GPU tests on a machine without network: `make gpu-bundle` here, `run` in the folder there.

The machine brings Python, numpy, Flax, and GPU builds of JAX, CuPy, torch or TensorFlow, in its own versions. The
folder contains the repository and wheels of what such machines lack, for some Pythons. `run` installs those that are
not there into a temporary folder, which leads PYTHONPATH. It makes no virtual environment: CuPy looks for the libraries
of CUDA in the interpreter's own packages alone, and of a virtual environment within another it would find none.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from gpu_parts import PARTS

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHONS = ("3.12", "3.13")
"""The Pythons that the folder is made for unless others are named; more of them do not fit into LIMIT."""

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
LIMIT = 60_000_000
"""Largest size of the folder in bytes."""

TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "execnet", "iniconfig", "pluggy")
"""What the tests need of requirements-dev.txt."""

SOURCES = ("chainer", "connection-pool")
"""Packages of which the index has no wheel. Theirs are pure Python, and fit every machine."""

FRAMEWORKS_OWN = (
    "numpy", "scipy", "jax", "jaxlib", "ml-dtypes", "opt-einsum",
    "tensorflow-cpu", "astunparse", "flatbuffers", "gast", "google-pasta", "grpcio", "libclang", "termcolor", "wheel",
    "flax", "optax", "aiofiles", "etils", "fsspec", "humanize", "msgpack", "orbax-checkpoint",
    "prometheus-client", "simplejson", "tensorstore", "treescope", "uvloop", "zipp",
)  # fmt: skip
"""What JAX, Flax, CuPy, torch and TensorFlow bring: the tests are to run with the machine's."""

LARGE = {
    "opencv-python-headless": "datasets of image files",
    "pyarrow": "tables and reports",
    "pandas": "tables and reports",
    "matplotlib": "figures and reports",
    "scikit-learn": "the dataset digits",
    "llvmlite": "the tuned loop of Chainer on the CPU",
}
"""What is too large for the folder, with what needs it. If one is not on the machine, tests that need it skip."""

UNUSED = (
    "contourpy", "cycler", "fonttools", "kiwisolver", "pyparsing", "python-dateutil", "tzdata", "joblib", "narwhals",
    "pulp", "h5py",
)  # fmt: skip
"""What only the large ones need; pulp, for a scheduler of Snakemake that profiles/default does not choose (16 MB of
solvers); and h5py, which Keras imports to save models as its own files (9 MB)."""

STACK = {
    **{name: (name,) for name in ("numpy", "jax", "jaxlib", "flax", "optax", "torch", "keras", "chainer")},
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
}
"""Packages whose versions `run` always prints, with the distributions that they are installed from."""

LOCKED = re.compile(r"^([\w.-]+)(?:\[.+?\])?==(\S+)(?: ; (.+?))?((?: \\\n +--hash=\S+)+)$", re.MULTILINE)
"""An entry of a lock: name, version, marker, hashes. The extras that it was locked with are left out."""

RUN = """\
#!/bin/sh
# Runs the GPU tests from this folder: ./run [PART ...]; or another command, for example: ./run python -m pytest --help
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] not in sys.argv)' PYTHONS ||
  { echo "this folder is for Python PYTHONS: name one with PYTHON=... ./run, or make it for others" >&2; exit 1; }
exec "$python" "$(dirname "$0")/repository/tests/gpu_bundle.py" run "$@"
"""

IMPORT = "import sys; from trainmark.frameworks.registry import create_adapter; create_adapter(sys.argv[1], 1)"


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


def select(locks: dict[str, str], python: str) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Return what the folder contains for a Python, as read_lock does, and the versions that `run` compares with.

    locks: texts of the requirements files by name.
    """
    main, dev, gpu = (read_lock(locks[f"requirements{part}.txt"], python) for part in ("", "-dev", "-gpu"))
    needed = main | {name: dev[name] for name in TOOLS}
    without = {*FRAMEWORKS_OWN, *LARGE, *UNUSED}
    if unknown := without - {entry[0] for entry in LOCKED.findall(locks["requirements.txt"])}:
        raise LookupError(
            f"{Path(__file__).name} leaves out {', '.join(sorted(unknown))}, which the lock does not have"
        )
    compared = needed | {name: gpu[name] for name in ("torch", "cupy-cuda13x")}
    return (
        {name: pin for name, pin in needed.items() if name not in without},
        {name: version for name, (version, _) in compared.items()},
    )


def make(folder: Path, pythons: Sequence[str]) -> None:
    """Make the folder anew, for these Pythons. Exits with a sentence if it is too large."""
    shutil.rmtree(folder, ignore_errors=True)
    copy_repository(folder / "repository")
    locks = {file.name: file.read_text() for file in REPOSITORY.glob("requirements*.txt")}
    facts: dict[str, Any] = {"version": git("describe", "--always", "--dirty").strip()}
    for python in pythons:
        packages, versions = select(locks, python)
        download(packages, python, folder / "wheels")
        facts[python] = {"wheels": [*packages], "lock": versions}
    (folder / "bundle.json").write_text(json.dumps(facts, indent=1))
    (folder / "run").write_text(RUN.replace("PYTHONS", " ".join(pythons), 2))
    (folder / "run").chmod(0o755)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB of {LIMIT / 1e6:.0f}. Copy it to the machine and call its `run` there.")
    if size > LIMIT:
        sys.exit(f"{folder} is too large: leave out more in LARGE of {Path(__file__).name}")


def git(*arguments: str) -> str:
    """Return what a git command prints."""
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True).stdout


def copy_repository(folder: Path) -> None:
    """Copy what git tracks, as it is in the working tree."""
    for name in filter(None, git("ls-files", "-z").split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)


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


def pip(*arguments: str) -> None:
    """Call this interpreter's pip."""
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


# What runs there, with the standard library alone


def refusal(has_pip: bool, results: Path) -> str | None:
    """Return why the tests can't run; None if they can.

    has_pip: whether the interpreter can import pip. results: folder for gpu-results-*.
    """
    if not has_pip:
        return f"{sys.executable} lacks pip, which installs the wheels: name another interpreter with PYTHON=... ./run"
    return None if os.access(results, os.W_OK) else f"{results} can't be written: name a folder with OUT=... ./run"


def installed(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def lacking(names: Iterable[str]) -> list[str]:
    """Return the packages to install. Of setuptools what counts is pkg_resources, which versions from 82 on lack."""
    has_pkg_resources = importlib.util.find_spec("pkg_resources") is not None
    return [name for name in names if not (has_pkg_resources if name == "setuptools" else installed(name))]


def install(requirements: Sequence[str], wheels: Path, site: Path) -> None:
    """Install packages from wheels into a folder, and make it and its commands found by child processes."""
    if requirements:
        pip(
            "--isolated", "install", "--quiet", "--no-index", "--find-links", str(wheels), "--no-deps",
            "--no-compile", "--target", str(site), *requirements,
        )  # fmt: skip
    (site / "bin").mkdir(parents=True, exist_ok=True)
    (site / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')  # a system's is python3 alone
    (site / "bin" / "python").chmod(0o755)
    sys.path.insert(0, str(site))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    os.environ["PATH"] = os.pathsep.join([str(site / "bin"), os.environ["PATH"]])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode every start of a framework takes seconds longer
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "0", str(site)], check=False)


def version_lines(here: dict[str, str], lock: dict[str, str]) -> list[str]:
    """Return a table of the packages of STACK, and of the others whose version is not that of the lock.

    here: the versions of installed distributions by name.
    """
    rows = [("package", "here", "lock")]
    for package, names in STACK.items():
        found = next((name for name in names if name in here), None)
        locked = next((lock[name] for name in names if name in lock), "none")
        rows.append((found or package, here[found] if found else "not there", locked))
    of_stack = {name for names in STACK.values() for name in names}
    rows += [(name, here[name], lock[name]) for name in sorted(lock.keys() & here.keys() - of_stack)]
    return [
        f"{name:24} {version:14} {locked}"
        for name, version, locked in rows
        if name in of_stack or version != locked or name == "package"
    ]


def missing_lines(here: Iterable[str]) -> list[str]:
    """Return a sentence for each package of LARGE that is not there."""
    return [
        f"{name} is not there, and too large for this folder: tests that need {use} skip"
        for name, use in LARGE.items()
        if name not in here
    ]


def framework_lines(scripts: Path) -> list[str]:
    """Return for each framework whether it can be imported, or why not. All are imported at the same time."""
    sys.path.insert(0, str(scripts))
    from trainmark.frameworks.registry import known_frameworks

    environment = os.environ | {"PYTHONPATH": f"{scripts}{os.pathsep}{os.environ['PYTHONPATH']}"}
    missing = {name: framework.missing_packages() for name, framework in known_frameworks().items()}
    imports = {
        name: subprocess.Popen([sys.executable, "-c", IMPORT, name], stderr=subprocess.PIPE, text=True, env=environment)
        for name in missing
        if not missing[name]
    }
    return [
        f"{name}: {import_outcome(imports[name])}" if name in imports
        else f"{name}: not there, because {', '.join(missing[name])} is not installed"
        for name in missing
    ]  # fmt: skip


def import_outcome(process: subprocess.Popen[str]) -> str:
    """Wait for an import, and return how it ended."""
    errors = process.communicate()[1].splitlines() or [f"exit status {process.returncode}"]
    return f"can't be imported: {errors[-1]}" if process.returncode else "can be imported"


def run(bundle: Path, command: Sequence[str]) -> int:
    """Run parts of the GPU tests, or a command, in a temporary copy of the repository, beside what the machine lacks.

    The files gpu-results-* that it leaves are copied to the folder $OUT, or else to the one `run` is called in.

    command: names of parts, or a command with its arguments; empty for all parts.

    Returns the exit status.
    """
    if PARTS.keys() >= {*command}:
        command = ["python", "tests/gpu_parts.py", *command]
    results = Path(os.environ.get("OUT") or os.curdir).resolve()
    if sentence := refusal(importlib.util.find_spec("pip") is not None, results):
        sys.exit(sentence)
    facts = json.loads((bundle / "bundle.json").read_text())
    wheels, lock = facts["{}.{}".format(*sys.version_info)].values()
    with tempfile.TemporaryDirectory(prefix="trainmark-gpu-") as folder:
        repository = shutil.copytree(bundle / "repository", Path(folder, "repository"))
        for copied in (repository, *repository.rglob("*/")):
            copied.chmod(0o755)  # the tests write there, and the bundle may be read-only
        names = lacking(wheels)
        install([f"{name}=={lock[name]}" for name in names], bundle / "wheels", Path(folder, "site"))
        distributions = {*lock, *(name for names in STACK.values() for name in names)}
        here = {name: version for name in distributions if (version := installed(name))}
        print(f"trainmark {facts['version']}, Python {sys.version.split()[0]}; packages installed: {len(names)}")
        print(*version_lines(here, lock), *missing_lines(here), sep="\n")
        print(*framework_lines(repository / "workflow" / "scripts"), sep="\n", flush=True)
        signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C stops the command alone, which then writes its results
        try:
            status = subprocess.run(command, cwd=repository, check=False).returncode
        except FileNotFoundError:
            sys.exit(f"there is no part and no command {command[0]}; the parts are {', '.join(PARTS)}")
        for file in repository.glob("gpu-results-*"):
            shutil.copy(file, results)
        return status


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), sys.argv[3:] or PYTHONS)
    else:
        sys.exit(run(Path(__file__).resolve().parents[2], sys.argv[2:]))
