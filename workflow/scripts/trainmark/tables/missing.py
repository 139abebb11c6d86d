"""Which runs are missing from tables and report, and why."""

from collections.abc import Mapping


def missing_lines(plan: Mapping) -> list[str]:
    """A line that counts the missing runs of a plan, and one for each reason with its runs; none if none is missing."""
    if not plan["missing"]:
        return []
    runs_by_reason: dict[str, list[str]] = {}
    for run_id, reason in plan["missing"].items():
        runs_by_reason.setdefault(reason, []).append(run_id)
    count = f"{len(plan['missing'])} of {len(plan['order'])} runs"
    lines = [f"Missing: {count}. Run snakemake again when the cause is removed."]
    for reason, runs in runs_by_reason.items():
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        lines.append(f"{runs[0]}{more}: {reason}")
    return lines
