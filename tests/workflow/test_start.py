"""What a training loads and compiles before its first step: no package that it does not use, and programs only once."""

import os
import sys

import numpy as np
import pytest
from train_by_hand import prepare_images, train

from trainmark.frameworks.registry import known_frameworks

TRAINERS = [
    pytest.param(
        name,
        loop,
        marks=[
            pytest.mark.skipif(bool(framework.missing_packages()), reason="not installed"),
            *([pytest.mark.slow] if loop == "tuned" else []),  # only for their time
        ],
    )
    for name, framework in known_frameworks().items()
    for loop in framework.loops
]

OF_THE_REPORT = {"pandas", "pyarrow", "matplotlib", "sklearn", "jinja2", "cv2", "yaml", "snakemake"}

IMPORTS_ITSELF = {"keras-torch": {"jax"}, "flax": {"yaml"}}
"""What a framework imports that no training uses: Keras for a checkpoint format, Flax for summaries of networks."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a prepared dataset of 200 images."""
    folder = tmp_path_factory.mktemp("runs")
    generator = np.random.default_rng(1)
    prepare_images(folder, generator.integers(0, 255, (200, 1, 28, 28)).astype(np.uint8), np.arange(200) % 10)
    return folder


NOTE_MODULES = """
import os, sys

leave = os._exit

def note_and_leave(status):
    with open(os.environ["MODULES"], "w") as file:
        print(*(name.partition(".")[0] for name, module in sys.modules.items() if module), file=file)
    leave(status)

os._exit = note_and_leave
"""
"""A module that Python imports by its name, sitecustomize, when it starts. A training ends with os._exit."""


@pytest.mark.parametrize(("framework", "loop"), TRAINERS)
def test_a_training_loads_no_package_that_it_does_not_use(folder, tmp_path, framework, loop):
    (tmp_path / "sitecustomize.py").write_text(NOTE_MODULES)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    train(folder, framework, loop, {"PYTHONPATH": path, "MODULES": str(tmp_path / "modules")})
    loaded = set((tmp_path / "modules").read_text().split())
    own = known_frameworks()[framework]
    others = {entry.packages[0] for entry in known_frameworks().values()} - set(own.packages)
    assert {"numpy", "trainmark", *own.packages} <= loaded
    assert loaded & (OF_THE_REPORT | set(own.unused_packages) | others) == IMPORTS_ITSELF.get(framework, set())


@pytest.mark.skipif(bool(known_frameworks()["keras-jax"].missing_packages()), reason="not installed")
@pytest.mark.slow
@pytest.mark.parametrize("loop", ["stock", "tuned"])
def test_a_program_from_the_cache_trains_the_same_bits(folder, tmp_path, loop):
    """The weights are equal with a fresh program, with one from the cache, and after every entry was damaged."""
    for name in ("images", "mean.npy"):
        os.symlink(folder / name, tmp_path / name)

    def trained(**changes):
        record = train(tmp_path, "keras-jax", loop, **changes)
        with np.load(tmp_path / "weights.npz") as weights:
            return record["compilation_cache"], [weights[name].tobytes() for name in weights.files]

    nothing, without = trained(environment={"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "own")})
    assert nothing is None
    assert not (tmp_path / "own").exists(), "the user's own cache would make this run unlike others"
    cold, first = trained(compilation_cache=True)
    assert cold["hits"] == 0 < cold["misses"]
    warm, second = trained(compilation_cache=True)
    assert warm == {"hits": cold["misses"], "misses": 0}
    entries = sorted((tmp_path / "results" / "compiled").rglob("*-cache"))
    assert len(entries) >= cold["misses"]
    for place, entry in enumerate(entries):
        content = entry.read_bytes()
        entry.write_bytes((b"", content[: len(content) // 2], os.urandom(len(content)))[place % 3])
    damaged, third = trained(compilation_cache=True)
    assert damaged == cold
    assert without == first == second == third


AS_ON_MACOS = """
import builtins, os, pathlib, resource, signal, sys, time

for module, names in {
    os: ("sched_getaffinity", "sched_setaffinity", "memfd_create", "posix_fallocate"),
    time: ("CLOCK_BOOTTIME",), resource: ("RUSAGE_THREAD",), signal: ("sigtimedwait",),
}.items():
    for name in names:
        delattr(module, name)
os.process_cpu_count = os.cpu_count

def of_linux(path, frames):
    caller = sys._getframe(frames).f_globals.get("__name__", "")
    return caller.startswith("trainmark") and str(path).startswith(("/proc/", "/sys/"))

def without(call):
    def checked(path, *rest, **options):
        if of_linux(path, 2):
            raise FileNotFoundError(path)
        return call(path, *rest, **options)
    return checked

def exists(path, exists=pathlib.Path.exists):
    return not of_linux(path, 2) and exists(path)

os.listdir, builtins.open, pathlib.Path.read_text = map(without, (os.listdir, open, pathlib.Path.read_text))
pathlib.Path.exists = exists
"""
"""A sitecustomize that takes away what only Linux has."""


@pytest.mark.parametrize("framework", ["chainer", "keras-jax"])
def test_a_training_needs_no_interface_that_only_linux_has(folder, tmp_path, framework):
    """It was not run on macOS. What the kernel does not tell is None in the record."""
    (tmp_path / "sitecustomize.py").write_text(AS_ON_MACOS)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    record = train(folder, framework, environment={"PYTHONPATH": path}, memory_limit_mib=8000)
    assert record["status"] == "ok"
    assert {stretch["foreign_seconds"] for stretch in record["machine"]} == {None}
