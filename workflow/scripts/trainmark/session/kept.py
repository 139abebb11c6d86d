"""What is there: runs that a call trains again, why it trains others, and what no config names."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainmark.console import Terminal
from trainmark.errors import ConfigError
from trainmark.plan.campaign import Campaign
from trainmark.plan.keys import KEY_DIGITS
from trainmark.plan.products import (
    ATTEMPT,
    CERTIFICATE,
    COMMAND,
    DATASET,
    EVALUATION,
    KEY,
    RECORD,
    RESULTS,
    TRAINING_RULES,
    TUNING,
)
from trainmark.plan.run import OF_TRAINER, RUN_FOLDER
from trainmark.variant import split_name


def runs_to_repeat(plan: Mapping, config: Mapping, stream: Terminal) -> set[str]:
    """Return the ids of the runs that `rerun` names by number and, with `rerun_disturbed`, of the disturbed ones.

    A line on the stream says how many are disturbed. A record that cannot be read does not count as disturbed;
    collect_records reports what is wrong with it. Raises ConfigError for a number that no run has.
    """
    numbers, order = config["rerun"] if isinstance(config["rerun"], list) else [config["rerun"]], plan["order"]
    if wrong := [number for number in numbers if number > len(order)]:
        raise ConfigError(f"rerun: there is no run {wrong[0]}; the runs of this config are 1 to {len(order)}")
    records = plan["records"].items() if config["rerun_disturbed"] else ()
    disturbed = [run_id for run_id, record in records if read_kept(record).get("disturbed")]
    if disturbed:
        count = f"{len(disturbed)} run{'s' if len(disturbed) > 1 else ''}"
        print(f"rerun_disturbed: {count} disturbed by something else on the machine, to be trained again", file=stream)
    return {order[number - 1] for number in numbers} | set(disturbed)


def why_trained(campaign: Campaign, jobs: Iterable[Any]) -> Iterator[str]:
    """Yield how many runs these jobs train, and what differs from runs of other keys that are kept."""
    wildcards = [job.wildcards_dict for job in jobs if job.rule.name in TRAINING_RULES]
    if not wildcards:
        return
    count = f"{len(campaign.order)} run{'s' if len(campaign.order) > 1 else ''}"
    yield f"{len(wildcards)} of {count} to train"
    for reason, number in Counter(campaign.missing.values()).items():
        yield f"  left out: {number} run{'s' if number > 1 else ''}, because {reason}"
    differences: dict[str, str] = {}
    counts: Counter = Counter()
    repeated = set(campaign.plan["repeated"])
    for run in wildcards:
        if RUN_FOLDER.format_map(run) in repeated:
            continue
        if kept := _others(run):
            of = OF_TRAINER.format_map(run)
            if of not in differences:
                differences[of] = _differences(campaign.plan["jobs"][of], run["key"], kept[-1])
            counts[split_name(run["experiment"])[0], run["dataset"], differences[of]] += 1
    for (experiment, dataset, names), number in counts.items():
        runs = f"{number} kept run{'s' if number > 1 else ''}"
        yield f"  {experiment} on {dataset}: differs from {runs} in: {names}"


PATTERNS = (str(Path(RECORD).parent), CERTIFICATE, EVALUATION, TUNING, DATASET, COMMAND)
"""The paths of what is kept under a key."""


def unnamed(folder: Path, plans: Iterable[Mapping]) -> list[Path]:
    """Return the files and folders of keys in a results folder that none of these plans names.

    All attempts of a run that is named are, too.
    """
    named = {path for plan in plans for path in _named(plan)}
    found = (path for pattern in PATTERNS for path in folder.glob(re.sub(r"\{\w+\}", "*", pattern)))
    keyed = (path for path in found if re.fullmatch(f"{KEY}{ATTEMPT}", path.name.removesuffix(".json")))
    return sorted(path for path in keyed if _without_attempt(str(path.relative_to(folder))) not in named)


def _named(plan: Mapping) -> Iterator[str]:
    yield from (_without_attempt(str(Path(record).parent)) for record in plan["records"].values())
    yield from (one["file"] for part in ("certificates", "evaluations") for one in plan[part].values())
    yield from (one["folder"] for part in ("datasets", "commands") for one in plan[part].values())
    yield from (file for job in plan["jobs"].values() for file in job["files"].get("tuning", ()))


def _without_attempt(path: str) -> str:
    return re.sub(rf"({KEY}){ATTEMPT}$", r"\1", path)


def _others(run: Mapping[str, str]) -> list[str]:
    """Return the records of a run with other keys, the newest last."""
    pattern = RECORD.format_map({**run, "key": "*"})
    files = [file for file in Path(RESULTS).glob(pattern) if file.parent.name != run["key"]]
    return [str(file.relative_to(RESULTS)) for file in sorted(files, key=lambda file: file.stat().st_mtime)]


def _differences(job: Mapping, key: str, record: str) -> str:
    """Return what differs between a job and the record of another key, in words."""
    if Path(record).parent.name[:KEY_DIGITS] == key[:KEY_DIGITS]:
        return "code"
    kept = read_kept(record)
    names = [
        name
        for part in ("settings", "inputs")
        for name in sorted({*job[part], *kept.get(part, {})})
        if job[part].get(name) != kept.get(part, {}).get(name)
    ]
    return ", ".join(name.replace("_sha256", "").replace("_", " ") for name in names) or "what an earlier version wrote"


def read_kept(record: str) -> dict[str, Any]:
    """Return a record; an empty dict if it can't be read."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(Path(RESULTS, record).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}
