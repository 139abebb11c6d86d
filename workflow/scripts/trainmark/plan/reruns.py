"""Runs that are trained again because they were disturbed."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO


def disturbed_records(paths: Iterable[str], stream: TextIO) -> list[str]:
    """Those of the records that are there and say that their run was disturbed; a line on the stream counts them.

    A record that can't be read is not among them: whoever collects it says what is wrong.
    """
    disturbed = [path for path in paths if _is_disturbed(Path(path))]
    if disturbed:
        runs = f"{len(disturbed)} run{'s' if len(disturbed) > 1 else ''}"
        print(f"rerun_disturbed: {runs} disturbed by something else on the machine, to be trained again", file=stream)
    return disturbed


def _is_disturbed(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text())["disturbed"])
    except (OSError, ValueError, LookupError, TypeError):
        return False
