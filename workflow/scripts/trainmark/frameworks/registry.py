"""Finds the frameworks: each `*_adapter.py` in this folder lists its frameworks in a table FRAMEWORKS.

The tables are read without running the modules, so that a dry run knows every framework and imports none.
"""

import importlib
import importlib.util
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.errors import DeviceError
from trainmark.files.literals import read_literal

if TYPE_CHECKING:
    from trainmark.frameworks.adapter import Adapter


@dataclass(frozen=True)
class Framework:
    """One entry of an adapter module's FRAMEWORKS table.

    name: the framework's name in configs.
    module: name of the adapter's module.
    packages: packages that must be importable, the framework's own package first.
    environment: environment variables to set before the framework is imported.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    def missing_packages(self) -> list[str]:
        """Return the packages of this framework that are not installed."""
        return [package for package in self.packages if importlib.util.find_spec(package) is None]


@cache
def known_frameworks() -> dict[str, Framework]:
    """Return all frameworks that have an adapter, installed or not, by name."""
    return {
        name: Framework(name, path.stem, tuple(entry["packages"]), tuple(entry["environment"].items()))
        for path in sorted(Path(__file__).parent.glob("*_adapter.py"))
        for name, entry in read_literal(path, "FRAMEWORKS").items()
    }


def create_adapter(name: str, threads: int) -> "Adapter":
    """Import a framework and return its adapter.

    Call this for one framework per process, because Keras has one backend per process. Raises DeviceError if a package
    of the framework is not installed.
    """
    framework = known_frameworks()[name]
    missing = framework.missing_packages()
    if missing:
        raise DeviceError(
            f"the framework {name} needs the package {', '.join(missing)}, which this environment lacks; install it, "
            "run with --sdm conda, or remove the framework from the experiment"
        )
    os.environ.update(framework.environment)
    module = importlib.import_module(f"trainmark.frameworks.{framework.module}")
    return module.create(name, threads)
