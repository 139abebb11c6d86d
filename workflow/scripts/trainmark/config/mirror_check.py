"""Check the mirror that the config or the environment names."""

import os
from collections.abc import Mapping

from trainmark.config.schema_check import raise_findings
from trainmark.datasets.fetching.addresses import mirror_problem
from trainmark.errors import ConfigError

VARIABLE = "TRAINMARK_MIRROR"
"""Environment variable that names the mirror if the config names none."""


def check_mirror(config: Mapping, documents: Mapping[str, Mapping]) -> None:
    """Raise ConfigError if the mirror is a folder that does not exist, or an address with an unknown scheme.

    config: merged from `documents`, and already checked against the schema.

    The message shows no user name, password or query of the address.
    """
    mirror = config.get("mirror")
    if mirror is not None:
        problem = mirror_problem(mirror)
        raise_findings([(("mirror",), problem)] if problem else [], config, documents)
    elif problem := mirror_problem(os.environ.get(VARIABLE) or "."):
        raise ConfigError(f"{VARIABLE}: {problem}")
