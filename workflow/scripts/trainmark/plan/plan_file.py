"""The plan: what a workflow is going to do, in a file that its jobs read."""

import json
from pathlib import Path

from trainmark.plan.run import Run


def place_in_order(run: Run, plan: Path | None) -> dict | None:
    """Where a run stands in the order of its workflow, as the record keeps it; None where no plan lists it."""
    ids = _planned_order(plan) if plan else []
    return {"place": ids.index(run.id) + 1, "of": len(ids)} if run.id in ids else None


def _planned_order(plan: Path) -> list:
    """The list in the plan; empty where the file holds anything else: a title is no reason for a run to fail."""
    try:
        content = json.loads(plan.read_text())
    except (OSError, ValueError):
        return []
    ids = content.get("order") if isinstance(content, dict) else None
    return ids if isinstance(ids, list) else []
