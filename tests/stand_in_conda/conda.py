#!/usr/bin/env python3
"""Stands in for conda: answers what Snakemake asks, and makes environments without network.

An environment is a virtual one. It holds the distributions that the pip section of its file pins and no others, as
hard links to those of the environment that runs this. Like conda's, it would see the packages of the user (~/.local).
Each of its processes leaves a file in the folder $SEEN with what it imported (seen.py).
"""

import argparse
import json
import os
import shutil
import sys
import venv
from importlib import metadata
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
CHANNEL = {"python": "3.11", "pip": ""}
"""What the channel has, with the beginning of the version."""

PIP = """\
import os, sys
os.execv({python!r}, [{python!r}, {conda!r}, "link", sys.prefix, *(word for word in sys.argv[2:] if word[0] != "-")])
"""
"""The environment's `pip`: it installs what is named, as if from the index."""


def link(prefix: Path, pin: str) -> None:
    """Put a distribution into an environment. Exits as pip does if the index has not this version."""
    name, _, version = pin.partition("==")
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        distribution = None
    if distribution is None or distribution.version != version:
        sys.exit(f"ERROR: No matching distribution found for {pin}\n\nCondaEnvException: Pip failed")
    packages = prefix / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    for file in distribution.files or ():
        target, source = packages / file, distribution.locate_file(file)
        if ".." in file.parts or target.exists() or not os.path.exists(source):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:  # on another disk
            shutil.copy2(source, target)


def create(file: Path, prefix: Path) -> None:
    """Make an environment. Exits as conda does if the channel has not one of its packages."""
    *of_channel, of_pip = yaml.safe_load(file.read_text())["dependencies"]
    for pin in of_channel:
        name, _, version = pin.partition("=")
        if not version.startswith(CHANNEL.get(name, "none")):
            sys.exit(
                f"PackagesNotFoundError: The following packages are not available from current channels:\n  - {pin}"
            )
    venv.create(prefix, symlinks=True)
    (prefix / "conda-meta").mkdir()
    packages = next(prefix.glob("lib/python*/site-packages"))
    (packages / "pip").mkdir()
    (packages / "pip" / "__main__.py").write_text(PIP.format(python=sys.executable, conda=__file__))
    shutil.copy(HERE / "seen.py", packages)
    (packages / "seen.pth").write_text("import seen\n")
    for pin in of_pip["pip"]:
        link(prefix, pin)


def main() -> None:
    """Answer one call."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="+")
    for option in ("--json", "--quiet", "--no-default-packages", "-y", "--tarballs"):
        parser.add_argument(option, action="store_true")
    for option in ("--file", "--prefix"):
        parser.add_argument(option, type=Path)
    parser.add_argument("--get")
    parser.add_argument("--version", action="version", version="conda 24.7.1")
    arguments = parser.parse_args()
    match arguments.words:
        case ["info"]:
            print(json.dumps({"conda_prefix": str(HERE), "platform": "linux-64"}))
        case ["config"]:
            print(json.dumps({"get": {arguments.get: "strict"}}))
        case ["env", "create"]:
            create(arguments.file, arguments.prefix)
        case ["clean"]:
            pass
        case ["link", prefix, *pins]:
            for pin in pins:
                link(Path(prefix), pin)
        case words:
            sys.exit(f"the stand-in for conda does not know: {words}")


if __name__ == "__main__":
    main()
