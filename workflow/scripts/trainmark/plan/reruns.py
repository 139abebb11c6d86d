"""The runs that a call trains again although their records are up to date."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trainmark.console import Terminal
from trainmark.errors import ConfigError
from trainmark.plan.campaign import Campaign
from trainmark.plan.products import RESULTS


def runs_to_repeat(campaign: Campaign, config: Mapping, stream: Terminal) -> set[str]:
    """Return the ids of the runs that `rerun` names by number and, with `rerun_disturbed`, of the disturbed ones.

    A line on the stream says how many are disturbed. A record that cannot be read does not count as disturbed;
    collect_records reports what is wrong with it. Raises ConfigError for a number that no run has.
    """
    numbers = config["rerun"] if isinstance(config["rerun"], list) else [config["rerun"]]
    if wrong := [number for number in numbers if number > len(campaign.order)]:
        raise ConfigError(f"rerun: there is no run {wrong[0]}; the runs of this config are 1 to {len(campaign.order)}")
    disturbed = [run.id for run in campaign.runs if config["rerun_disturbed"] and _is_disturbed(run.id)]
    if disturbed:
        count = f"{len(disturbed)} run{'s' if len(disturbed) > 1 else ''}"
        print(f"rerun_disturbed: {count} disturbed by something else on the machine, to be trained again", file=stream)
    return {campaign.order[number - 1] for number in numbers} | set(disturbed)


def _is_disturbed(run_id: str) -> bool:
    with suppress(OSError, ValueError, LookupError, TypeError):
        return bool(json.loads(Path(RESULTS, "runs", run_id, "record.json").read_text())["disturbed"])
    return False
