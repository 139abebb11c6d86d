"""Prints the Python and the packages of the interpreter that runs this file, as JSON: what a command runs with.

It is run by the command's own interpreter, and imports nothing of trainmark.
"""

import json
import os
import platform
import sys
from importlib.metadata import distributions

packages: dict[str, str] = {}
for distribution in distributions():
    if distribution.metadata["Name"]:
        packages.setdefault(distribution.metadata["Name"].lower(), distribution.version)
conda = os.path.isdir(os.path.join(sys.prefix, "conda-meta"))
kind = "conda" if conda else "venv" if sys.prefix != sys.base_prefix else "system"
name = None if kind == "system" else os.path.basename(sys.prefix)
print(json.dumps({"python": platform.python_version(), "kind": kind, "name": name, "packages": packages}))
