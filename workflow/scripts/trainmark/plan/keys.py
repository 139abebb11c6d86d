"""The key of a result: digests of what is made and of the code that makes it. It is part of the result's path."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

KEY_DIGITS = 8
"""Hex digits of each of the two digests. Keys need to differ only among the results of one run, dataset or group."""

POINT_ZERO = re.compile(r"(?<=\d)\.0(?=[],}])")
"""The end of a whole number that was written with a decimal point, in JSON without spaces."""

OF_PREPARED = "sha256", "dataset"
"""The digests of a run's code, in its record, that decide its result: of the training, and of its dataset."""


def key_of(made: Any, code: Any) -> str:
    """Return the key of a result: digests of what is made and of the code that makes it."""
    return f"{short_digest(made)}-{short_digest(code)}"


def short_digest(value: Any) -> str:
    """Return the first hex digits of the digest of a value as JSON, in which 1 and 1.0 are the same number."""
    text = json.dumps([value], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(POINT_ZERO.sub("", text).encode()).hexdigest()[:KEY_DIGITS]


def deciding(code: Mapping) -> list[str | None]:
    """Return the digests of a run's code, as its record has them, that decide its result. A command has no dataset."""
    return [code.get(one) for one in OF_PREPARED]


def key_of_record(record: Mapping) -> str:
    """Return the key of the run of a record, from what the record says that it was made from."""
    made = {part: record[part] for part in ("run", "settings", "inputs")}
    return key_of(made, deciding(record["provenance"]["code"]))
