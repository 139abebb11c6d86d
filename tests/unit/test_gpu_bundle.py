"""The folder for GPU tests without network: what is in it, and what its `run` installs, says, refuses and returns."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata

import gpu_bundle
import pytest
from harness import REPOSITORY
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = {file.name: file.read_text() for file in REPOSITORY.glob("requirements*.txt")}


STAGES = """
import sys
from importlib import metadata
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PARTS = {"quick": (), "more": ()}


def version_of(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    print("stages:", *sys.argv[1:3])
"""


@pytest.mark.parametrize("python", gpu_bundle.PYTHONS)
def test_all_that_the_project_needs_is_there_or_comes_with_the_machine(python):
    """Of what this machine's packages require, only what no test imports is left out."""
    packages = gpu_bundle.select(LOCKS, python)
    assert {"pytest", "pytest-timeout", *gpu_bundle.SOURCES} <= packages.keys()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    needed = {Requirement(line).name for line in project["dependencies"]}
    for name in packages:
        requirements = map(Requirement, metadata.requires(name) or [])
        needed |= {r.name for r in requirements if not r.marker or r.marker.evaluate({"extra": ""})}
    there = packages.keys() | {*gpu_bundle.FRAMEWORKS_OWN, *gpu_bundle.LARGE}
    assert {canonicalize_name(name) for name in needed} - there == {"pulp", "h5py"}


def test_a_package_to_leave_out_that_is_not_locked_is_refused():
    locks = LOCKS | {"requirements.txt": LOCKS["requirements.txt"].replace("\npyarrow==", "\npyarrows==")}
    with pytest.raises(LookupError, match="leaves out pyarrow, which the lock does not have"):
        gpu_bundle.select(locks, "3.11")


def test_setuptools_is_installed_for_its_pkg_resources_and_others_if_they_are_not_there(monkeypatch):
    names = ["setuptools", "numpy", "no-such-package"]
    monkeypatch.setattr(gpu_bundle.importlib.util, "find_spec", lambda name: None)
    assert gpu_bundle.lacking(names) == ["setuptools", "no-such-package"]
    monkeypatch.setattr(gpu_bundle.importlib.util, "find_spec", lambda name: name)
    assert gpu_bundle.lacking(names) == ["no-such-package"]


# --- run ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path):
    """A folder as `make gpu-quick` makes it, in small: one wheel, MNIST, and the two files that `run` needs."""
    folder = tmp_path / "a bundle"
    tests = folder / "repository" / "tests"
    tests.mkdir(parents=True)
    shutil.copy(gpu_bundle.__file__, tests)
    (tests / "gpu_stages.py").write_text(STAGES)
    (folder / "mirror" / "mnist").mkdir(parents=True)
    (folder / "wheels").mkdir()
    with zipfile.ZipFile(folder / "wheels" / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    python = "{}.{}".format(*sys.version_info)
    (folder / "bundle.json").write_text(json.dumps({"version": "0123abc", python: {"tiny": "1.0"}}))
    (folder / "run").write_text(gpu_bundle.RUN.replace("PYTHONS", python, 2))
    return folder


def run(bundle, folder, *command, **variables):
    """Call the bundle's `run` in a folder, which has the kept files, too."""
    here = os.environ | {"PYTHON": sys.executable, "OUT": "", "TMPDIR": str(folder)} | variables
    return subprocess.run(["sh", str(bundle / "run"), *command], cwd=folder, env=here, capture_output=True, text=True)


@pytest.mark.slow
def test_run_installs_what_is_lacking_and_keeps_it_for_the_next_call(bundle, tmp_path):
    code = "import os, tiny; print(os.environ['MNIST'], os.environ['OUT'], tiny.__file__); raise SystemExit(3)"
    for count in (1, 0):
        done = run(bundle, tmp_path, "python", "-c", code)
        assert (done.returncode, done.stderr) == (3, "")
        assert f"trainmark 0123abc, Python {sys.version.split()[0]}; packages installed: {count}" in done.stdout
        seen = f"{bundle}/mirror {tmp_path} {tmp_path}/trainmark-gpu-{os.getuid()}/site/tiny.py"
        assert done.stdout.splitlines()[-1] == seen


@pytest.mark.slow
def test_run_takes_parts_by_name_and_says_what_it_can_not_do(bundle, tmp_path):
    for parts in ([], ["more"]):
        assert f"stages: {(parts or ['quick'])[0]} --began" in run(bundle, tmp_path, *parts).stdout.splitlines()
    assert "no command third; the parts are quick, more" in run(bundle, tmp_path, "third").stderr
    assert "/none can't be written" in run(bundle, tmp_path, "more", OUT="/none").stderr
    (bundle / "run").write_text(gpu_bundle.RUN.replace("PYTHONS", "3.9 3.10", 2))
    assert "this folder is for Python 3.9 3.10" in run(bundle, tmp_path).stderr
