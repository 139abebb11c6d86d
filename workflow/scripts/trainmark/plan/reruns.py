"""Runs that are trained again because they were disturbed.

A run's attempt is a parameter of its rule: Snakemake trains a run again whose attempt changed, and the plan keeps the
attempts for the next call, which leaves them as they are.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from trainmark.plan.plan_file import plan_if_there
from trainmark.plan.products import RECORD_FILE
from trainmark.plan.run import Run


def count_attempts(plan: Path, runs: Iterable[Run], again: bool, stream: TextIO) -> dict[str, int]:
    """The attempt of each run that is not at its first: as in the last plan and, with `again`, one more if disturbed.

    A line on the stream counts the disturbed. A record that can't be read is none: whoever collects it says what is
    wrong with it.
    """
    attempts: dict[str, int] = plan_if_there(plan).get("attempts", {})
    disturbed = [run.id for run in runs if again and _is_disturbed(Path(RECORD_FILE.format_map(vars(run))))]
    if disturbed:
        count = f"{len(disturbed)} run{'s' if len(disturbed) > 1 else ''}"
        print(f"rerun_disturbed: {count} disturbed by something else on the machine, to be trained again", file=stream)
    return attempts | {run_id: attempts.get(run_id, 1) + 1 for run_id in disturbed}


def _is_disturbed(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text())["disturbed"])
    except (OSError, ValueError, LookupError, TypeError):
        return False
