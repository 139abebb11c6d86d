"""Finding the frameworks: each `*_adapter.py` here names in its FRAMEWORKS table those that it brings.

The tables are read without being run, so that a dry run knows every framework and imports none.
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

    module: the adapter's module name. packages: what must be importable, the framework's own package first.
    environment: variables that must be set before the framework is imported.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    def missing_packages(self) -> list[str]:
        """Packages of this framework that are not installed here."""
        return [package for package in self.packages if importlib.util.find_spec(package) is None]


@cache
def known_frameworks() -> dict[str, Framework]:
    """Every framework that has an adapter, installed or not, by name."""
    return {
        name: Framework(name, path.stem, tuple(entry["packages"]), tuple(entry["environment"].items()))
        for path in sorted(Path(__file__).parent.glob("*_adapter.py"))
        for name, entry in read_literal(path, "FRAMEWORKS").items()
    }


def create_adapter(name: str, threads: int) -> "Adapter":
    """Import a framework and return its adapter. Import it once a process: Keras has one backend a process.

    Raises DeviceError where one of its packages is not installed.
    """
    framework = known_frameworks()[name]
    missing = framework.missing_packages()
    if missing:
        raise DeviceError(
            f"the framework {name} needs the package {', '.join(missing)}, which this environment lacks; install it, "
            "run with --sdm conda, or take the framework out of the experiment"
        )
    os.environ.update(framework.environment)
    module = importlib.import_module(f"trainmark.frameworks.{framework.module}")
    return module.create(name, threads)
