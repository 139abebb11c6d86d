"""Numbers in environment variables. An empty variable counts as one that is not set."""

import os
import re

from trainmark.errors import ConfigError

MIB_OF_UNIT = {"K": 2**-10, "M": 1, "G": 2**10, "T": 2**20}
"""MiB of the units that Slurm takes for memory; M is the unit of a number without one."""


def seconds_in(variable: str, default: float) -> float:
    """Return the seconds in one of our own variables. Raises ConfigError if it holds no number from 0."""
    text = os.environ.get(variable, "").strip() or str(default)
    try:
        if (seconds := float(text)) >= 0:
            return seconds
    except ValueError:
        pass
    raise ConfigError(
        f"{variable} in the environment is {text!r}; allowed: a number of seconds, 0 or more; or unset it"
    )


def mib_in(variable: str) -> float | None:
    """Return the MiB in a variable of Slurm: "4096", "4G", "4GB".

    None for anything else and for 0, which is the whole node: Slurm itself writes numbers, and keeps no other limit.
    """
    text = os.environ.get(variable, "").strip().upper()
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text)
    return (float(found[1]) * MIB_OF_UNIT[found[2] or "M"] or None) if found else None
