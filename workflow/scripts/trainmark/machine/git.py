"""Asks git about a working copy, and never about another one, whatever is set in the environment."""

import os
from pathlib import Path

from trainmark.machine.programs import read_program

OPTIONS = (
    "--no-optional-locks",  # since a commit may be going on
    # In a container the working copy often belongs to another user, and git refuses it unless it is declared safe.
    # Reading it adds no risk, since the running code is part of it.
    *("-c", "safe.directory=*"),
    *("-c", "core.fsmonitor=false"),
)

VARIABLES = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
"""The variables of git's own that are set. All others are removed: a git hook would tie git to its repository."""


def git(*arguments: str, folder: Path, given: bytes = b"") -> bytes:
    """Return the output of a git command.

    folder: where it is called, in the working copy. given: its standard input.

    Raises OSError without git, subprocess.CalledProcessError if the command fails, and HangError.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | VARIABLES
    done = read_program(["git", *OPTIONS, *arguments], given, cwd=folder, env=variables)
    done.check_returncode()
    return done.stdout
