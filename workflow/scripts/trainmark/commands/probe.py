"""Prints the Python and the packages of the interpreter that runs this file, as JSON: what a command runs with.

It is run by the command's own interpreter, which may be old, and imports nothing of trainmark.
"""

import json
import os
import platform
import sys

try:
    from importlib.metadata import distributions

    packages: dict[str, str] = {}
    for distribution in distributions():
        if distribution.metadata["Name"]:
            packages.setdefault(distribution.metadata["Name"].lower(), distribution.version)
except ImportError:  # before Python 3.8
    packages = {}

conda = os.path.isdir(os.path.join(sys.prefix, "conda-meta"))
venv = sys.prefix != getattr(sys, "base_prefix", sys.prefix)
print(
    json.dumps(
        {
            "python": platform.python_version(),
            "kind": "conda" if conda else "venv" if venv else "system",
            "name": os.path.basename(sys.prefix) if conda or venv else None,
            "packages": packages,
        }
    )
)
