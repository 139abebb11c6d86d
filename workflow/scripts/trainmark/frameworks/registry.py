"""Finds the frameworks: each `*_adapter.py` in this folder lists its frameworks in a table FRAMEWORKS.

The tables are read without running the modules, so that a dry run knows every framework and imports none.
"""

import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.errors import DeviceError
from trainmark.files.literals import made_of, read_literal
from trainmark.files.system_files import own_paths
from trainmark.frameworks.tuning import TuningStep
from trainmark.machine.cpus import has_avx512
from trainmark.machine.gpus import HIDING
from trainmark.machine.programs import run_program
from trainmark.machine.ranks import ALONE, LOOPBACK_VARIABLES, Ranks
from trainmark.machine.variables import OF_WORKERS, settings_in
from trainmark.trainer import Trainer

if TYPE_CHECKING:
    from trainmark.frameworks.adapter import Adapter

FOLDER = Path(__file__).parent

CHOSEN = (
    "CHAINER_CUDNN", "CHAINER_DTYPE", "CHAINER_KEEP_GRAPH_ON_REPORT", "CHAINER_LAZY_GRAD_SUM", "CHAINER_USE_",
    "JAX_COMPILATION_CACHE_DIR", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_ENABLE_X64", "JAX_PLATFORMS",
    "KERAS_TORCH_DEVICE", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)  # fmt: skip
"""Beginnings of the variables of frameworks that a user may choose. All others of theirs are removed."""

MODULES = {"TUNING": "tuned", "WORKERS": "workers"}
"""The end of the name of a module beside an adapter, by the table that it has."""


@dataclass(frozen=True)
class Engine:
    """How several workers of a framework train, as an entry of WORKERS says.

    name: what exchanges their gradients, as texts name it.
    lacks: layer types that it would compute as no other engine does, which are refused.
    """

    name: str
    lacks: Sequence[str] = ()


@dataclass(frozen=True)
class Framework:
    """One entry of an adapter module's FRAMEWORKS table.

    name: the framework's name in configs.
    packages: packages that must be importable, the framework's own package first.
    environment: environment variables to set before the framework is imported.
    cpu_environment: more of them, for a process from which the GPUs are hidden.
    set_up: the command that installs the framework.
    newest_python: the newest minor version of Python 3 for which it has a build; None if it has one for each.
    tuning: the steps of its tuned loop, in their order, as the adapter's `*_tuned` module lists them in TUNING; empty
        if it has only the stock loop.
    unused_packages: packages that its import would load if they are installed, and does without if they are not. No
        training uses them, and its environment in envs/ has none of them except those of the image decoders.
    also_called: other names, in lower case, that a user may write in a config; a message then suggests the right one.
    variables: beginnings of the environment variables that its library reads when it is imported.
    layers: the layer types that its adapter has; empty if it has all.
    engine: how several workers of it train, as the adapter's `*_workers` module says in WORKERS; None if they can't.
    """

    name: str
    module: str
    packages: Sequence[str]
    environment: dict[str, str]
    cpu_environment: dict[str, str] = field(default_factory=dict)
    set_up: str = "make"
    newest_python: int | None = None
    tuning: tuple[TuningStep, ...] = ()
    unused_packages: Sequence[str] = ()
    also_called: Sequence[str] = ()
    variables: Sequence[str] = ()
    layers: Sequence[str] = ()
    engine: Engine | None = None

    @property
    def loops(self) -> tuple[str, ...]:
        """The loops in which its adapter trains, see `trainer.LOOPS`."""
        return ("stock", "tuned") if self.tuning else ("stock",)

    def modules(self, loop: str, workers: int = 1) -> list[str]:
        """Return the modules that train: the adapter's, and for the tuned loop or several workers one beside it."""
        beside = [*(["tuned"] if loop == "tuned" else []), *(["workers"] if workers > 1 else [])]
        return [self.module, *(_beside(self.module, what) for what in beside)]

    def steps(self, ops: Collection[str], device: str) -> tuple[str, ...]:
        """Return the names of the steps with which a network of these layer types is tuned on a device."""
        return tuple(step.name for step in self.tuning if step.is_taken(ops, device))

    def missing_packages(self) -> list[str]:
        """Return the packages of this framework that are not installed."""
        return [package for package in self.packages if importlib.util.find_spec(package) is None]

    def refuse(self, missing: Iterable[str]) -> None:
        """Raise DeviceError if any package is missing. missing: those of this framework."""
        lacking = ", ".join(missing)
        if not lacking:
            return
        newest, minor = self.newest_python, sys.version_info[1]
        if newest and minor > newest:
            remedy = f"has no build for Python 3.{minor}; `make clean` and `make PYTHON=python3.{newest}` install it"
        else:
            remedy = f"is not installed; `{self.set_up}` installs it"
        raise DeviceError(
            f"the framework {self.name} needs the package {lacking}, which {remedy} in .venv, --sdm conda gives each "
            f"framework an environment of its own, or take {self.name} out of the experiment's frameworks"
        )


@cache
def known_frameworks() -> dict[str, Framework]:
    """Return all frameworks that have an adapter, installed or not, by name."""
    return {
        name: made_of(
            Framework,
            entry,
            f"FRAMEWORKS in {path.name}, {name}",
            name=name,
            module=path.stem,
            tuning=tuple(
                made_of(TuningStep, keys, f"TUNING of {name}, {step}", name=step)
                for step, keys in _table(path, "TUNING").get(name, {}).items()
            ),
            engine=made_of(Engine, of_workers, f"WORKERS of {name}")
            if (of_workers := _table(path, "WORKERS").get(name))
            else None,
        )
        for path in own_paths(FOLDER, "*_adapter.py")
        for name, entry in read_literal(path, "FRAMEWORKS").items()
    }


def _beside(adapter: str, what: str) -> str:
    return adapter.replace("_adapter", f"_{what}")


def _table(adapter: Path, name: str) -> dict[str, dict]:
    """Return a table of the module beside an adapter, by framework: TUNING or WORKERS; empty without a module."""
    path = FOLDER / f"{_beside(adapter.stem, MODULES[name])}.py"
    return read_literal(path, name) if path.exists() else {}


def create_adapter(
    name: str,
    threads: int,
    loop: str = "stock",
    steps: Collection[str] | None = None,
    ranks: Ranks = ALONE,
) -> "Adapter":
    """Import a framework and return the adapter of one of its loops.

    steps: the steps of the tuned loop that the adapter may take; None for all.
    ranks: the ranks that train together, several of them in the stock loop.

    Call this for one framework per process, because Keras has one backend per process. Raises DeviceError if a package
    of the framework is not installed.
    """
    framework = known_frameworks()[name]
    framework.refuse(framework.missing_packages())
    set_environment(name, loop, steps)
    with _hidden(framework.unused_packages):
        module = importlib.import_module(f"trainmark.frameworks.{framework.modules(loop, ranks.size)[-1]}")
    if ranks.size > 1:
        return module.create(name, threads, ranks)
    if loop == "stock":
        return module.create(name, threads)
    allowed = {step.name for step in framework.tuning} if steps is None else {*steps}
    return module.create(name, threads, lambda ops, device: allowed.intersection(framework.steps(ops, device)))


@contextmanager
def _hidden(packages: Iterable[str]) -> Iterator[None]:
    """Let an import of these packages fail as if they were not installed, unless they are loaded already."""
    hidden = [package for package in packages if package not in sys.modules]
    # None is Python's mark of a module that can't be imported.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for package in hidden:
            del sys.modules[package]


def set_environment(name: str, loop: str, steps: Collection[str] | None = None) -> None:
    """Set the environment variables of a framework. Call it before numpy is imported, which reads some of them."""
    framework = known_frameworks()[name]
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in HIDING
    unset_settings_of_frameworks(os.environ)
    os.environ.update(framework.environment | (framework.cpu_environment if hidden else {}))
    if loop == "tuned" and has_avx512():
        for step in framework.tuning:
            if steps is None or step.name in steps:
                os.environ.update(step.avx512_environment)


def unset_settings_of_frameworks(environment: MutableMapping[str, str]) -> None:
    """Remove the variables of frameworks that are not in CHOSEN: the config decides, and not the user's shell."""
    beginnings = tuple(beginning for one in known_frameworks().values() for beginning in one.variables)
    for name in [*environment]:
        if name.startswith(beginnings) and not name.startswith(CHOSEN):
            del environment[name]


def settings_of_user(trainer: Trainer, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a user had set for a run of this trainer, of those that may slow it down or change it.

    Those that only other frameworks read, and for one worker those of an exchange, are none of them.

    variables: as a record holds them, or its sessions.
    """
    frameworks = known_frameworks()
    own, elsewhere, read = [LOOPBACK_VARIABLES], set(), set()
    if mine := frameworks.get(trainer.framework):  # else it is a command
        own += [mine.environment, mine.cpu_environment]
        if trainer.loop == "tuned":
            own += [step.avx512_environment for step in mine.tuning]
        elsewhere = {name for other in frameworks.values() for name in other.environment | other.cpu_environment}
        elsewhere -= {name for one in own for name in one}
        read = {one for other in frameworks.values() if {*other.packages} & {*mine.packages} for one in other.variables}
    of_others = {one for other in frameworks.values() for one in other.variables} - read
    return {
        name: value
        for name, value in settings_in(variables).items()
        if value
        and not (name in elsewhere or name.startswith(tuple(of_others)))
        and (trainer.workers > 1 or not OF_WORKERS.match(name))
        and all(one.get(name) != value for one in own)
    }


FIND_PACKAGES = "import importlib.util as u, sys; print(*(name for name in sys.argv[1:] if not u.find_spec(name)))"
"""A program that prints which of the packages in its command line are not installed."""


def check_installed(names: Iterable[str]) -> None:
    """Raise DeviceError if the `python` of jobs lacks a package of one of these frameworks. Raises HangError, too."""
    frameworks = [known_frameworks()[name] for name in names]
    packages = sorted({package for framework in frameworks for package in framework.packages})
    python = shutil.which("python") or sys.executable
    process = run_program([python, "-c", FIND_PACKAGES, *packages])
    for framework in frameworks:
        framework.refuse(package for package in framework.packages if package in process.stdout.split())
