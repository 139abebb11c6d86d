"""Train disturbed runs again.

The attempt number of a run is a parameter of its rule, so Snakemake trains the run again when the number changes. The
plan stores the numbers, so that the next call does not change them.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from trainmark.console import Terminal
from trainmark.plan.plan_file import plan_if_there
from trainmark.plan.products import RECORD_FILE
from trainmark.plan.run import Run


def count_attempts(plan: Path, runs: Iterable[Run], again: bool, stream: Terminal) -> tuple[dict[str, int], list[str]]:
    """Return the attempt number of each run that is past its first attempt, and the ids of those to train again.

    The numbers come from the last plan. With `again`, the number of each disturbed run is increased by one, and a line
    on the stream says how many these are. A record that cannot be read does not count as disturbed; collect_records
    reports what is wrong with it.
    """
    attempts: dict[str, int] = plan_if_there(plan).get("attempts", {})
    disturbed = [run.id for run in runs if again and _is_disturbed(Path(RECORD_FILE.format_map(vars(run))))]
    if disturbed:
        count = f"{len(disturbed)} run{'s' if len(disturbed) > 1 else ''}"
        print(f"rerun_disturbed: {count} disturbed by something else on the machine, to be trained again", file=stream)
    return attempts | {run_id: attempts.get(run_id, 1) + 1 for run_id in disturbed}, disturbed


def _is_disturbed(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text())["disturbed"])
    except (OSError, ValueError, LookupError, TypeError):
        return False
