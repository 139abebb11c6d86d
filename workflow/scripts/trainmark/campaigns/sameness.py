"""What two campaigns have in common and what changed between them, and which sentences this allows."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from trainmark.campaigns.folders import Campaign
from trainmark.config.load import keys_that_decide
from trainmark.parity.compare import NOT_CERTIFIED
from trainmark.tables.formatting import listed
from trainmark.tables.frames import SETTING, select_group
from trainmark.trainer import Trainer
from trainmark.variant import GROUP

SAME, DIFFERENT, UNKNOWN = "same", "different", "unknown"

TRAINING, CIRCUMSTANCE, EVIDENCE = "training", "circumstance", "evidence"
"""Kinds of facts. If one of the training differs, times say nothing about frameworks and machines. A difference may be
ascribed to circumstances that differ. Evidence decides nothing: the seed changes no time, and other versions round
otherwise."""

CIRCUMSTANCES = {
    "host": "host", "processor": "cpu_model", "CPUs of a run": "held_cpus", "GPU": "gpu",
    "GPU slowed down": "gpu_throttled", "threads": "threads", "system": "platform", "environment": "environment",
    "python": "python", "versions": "versions", "all packages": "packages_sha256",
    "environment variables": "library_settings", "code": "code_sha256",
}  # fmt: skip
"""The columns of the table of runs that may change between campaigns, by what they are called."""

OF_GPUS = ("GPU", "GPU slowed down")

APART = ("seed", "loader", "initial_weights")
"""Settings that decide which training it is, but neither its arithmetic nor how much of it there is; the weights of a
file count by their content."""

FOLLOWS = {"all packages": ("versions", "python")}
"""Facts that differ wherever one of these does."""


@dataclass(frozen=True)
class Fact:
    """One thing about the runs of a setting in two campaigns, as text; None where it is not known."""

    name: str
    kind: str
    first: str | None
    second: str | None

    @property
    def status(self) -> str:
        """Whether it is the same, different or unknown."""
        if self.first is None or self.second is None:
            return UNKNOWN
        return SAME if self.first == self.second else DIFFERENT

    @property
    def changes(self) -> list[str]:
        """What changed, in words: "threads from 1 to 2"; of versions one for each package that differs."""
        if self.name == "versions":
            before, after = _packages(self.first), _packages(self.second)
            names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
            return [f"{name} from {before.get(name, 'none')} to {after.get(name, 'none')}" for name in names]
        return [f"{self.name} from {short(self.first)} to {short(self.second)}"]


def short(text: str | None) -> str:
    """A text as sentences and tables show it: of a digest eight digits."""
    if text is None:
        return "unknown"
    return (text[:8] if re.fullmatch("[0-9a-f]{16}|[0-9a-f]{64}", text) else text) or "none"


def facts(campaigns: tuple[Campaign, Campaign], runs: tuple[pd.DataFrame, pd.DataFrame]) -> list[Fact]:
    """What is the same in the runs of a setting. runs: its rows of the table of runs of each campaign."""
    firsts = [own.iloc[0].to_dict() for own in runs]
    records = [one.trained[tuple(run[key] for key in SETTING)] for one, run in zip(campaigns, firsts, strict=True)]
    arithmetic, others = (
        {*keys_that_decide(["training"])} - {*APART},
        {*keys_that_decide(["record", "tuned"]), "loader"},
    )
    inputs, settings = [one["inputs"] for one in records], [_flat(one["settings"]) for one in records]
    known: list[tuple[str, str, Iterable[str | None]]] = [
        ("recipe", TRAINING, _differing([_flat(one["recipe"]) for one in inputs])),
        ("settings", TRAINING, _differing(settings, arithmetic)),
        ("data", TRAINING, [one.get("dataset") for one in inputs]),
        ("initial weights", TRAINING, [one.get("initial_weights_sha256") or "" for one in inputs]),
        ("parity", TRAINING, [_parity(one, run) for one, run in zip(campaigns, firsts, strict=True)]),
        ("seed", EVIDENCE, [str(one.get("seed")) for one in settings]),
        ("other settings", CIRCUMSTANCE, _differing(settings, others - {"target_accuracy"})),
    ]
    for name, column in CIRCUMSTANCES.items():
        if name not in OF_GPUS or firsts[0]["device"] == "gpu":
            known.append((name, CIRCUMSTANCE, [_values(own, column) for own in runs]))
    # Of CPUs no record has the clocks, of GPUs those of one moment.
    return [Fact(name, kind, *texts) for name, kind, texts in (*known, ("clocks", CIRCUMSTANCE, (None, None)))]


def blocking(of_setting: Iterable[Fact]) -> list[Fact]:
    """The facts for which the runs of a setting are other trainings, or not shown to be the same one."""
    return [
        one for one in of_setting
        if one.kind == TRAINING and (one.status == DIFFERENT or one.first == "different")
    ]  # fmt: skip


def changes(of_setting: Iterable[Fact]) -> list[Fact]:
    """The circumstances that differ, without those that follow from others."""
    differ = {one.name: one for one in of_setting if one.kind == CIRCUMSTANCE and one.status == DIFFERENT}
    return [one for name, one in differ.items() if not any(cause in differ for cause in FOLLOWS.get(name, ()))]


def claim(of_setting: Iterable[Fact]) -> str:
    """The sentence that the facts of a setting allow."""
    known = list(of_setting)
    if found := blocking(known):
        return f"Nothing may be claimed: {listed(map(_why_not, found))}."
    changed = [text for one in changes(known) for text in one.changes]
    unknown = [one.name for one in known if one.status == UNKNOWN]
    unless = f" Unknown: {listed(unknown)}." if unknown else ""
    if not changed:
        return f"Nothing that is recorded changed: a difference is one of the machine's state.{unless}"
    if len(changed) == 1:
        return f"A difference may be ascribed to one change: {changed[0]}.{unless}"
    return f"A difference may be ascribed to these changes together, not to one of them: {listed(changed)}.{unless}"


def _why_not(fact: Fact) -> str:
    if fact.name == "parity":
        return f"the parity of this trainer is {fact.first} in the first campaign and {fact.second} in the second"
    return f"the {fact.name} differ ({short(fact.first)}; {short(fact.second)})"


def _parity(campaign: Campaign, run: Mapping) -> str | None:
    """Whether its trainer is "certified" with another one, or "different" from all; None if nothing shows either."""
    of_group = select_group(campaign.parity, [run[key] for key in GROUP])
    is_own = (of_group[["first", "second"]] == Trainer.of(run).name).any(axis=1)
    classes = {*of_group["parity"][is_own]} - {NOT_CERTIFIED}
    return None if not classes else "different" if classes == {"different"} else "certified"


def _values(runs: pd.DataFrame, column: str) -> str | None:
    """The values of a column as text; None if the table has none."""
    if column not in runs or runs[column].isna().all():
        return None
    return " or ".join(sorted({*runs[column].dropna().astype(str)}))


def _differing(both: Sequence[Mapping[str, object]], keys: Collection[str] = ()) -> list[str]:
    """The values of two mappings that differ, as texts. keys: those of the outer mappings that count; all if empty."""
    names = [name for name in {**both[0], **both[1]} if not keys or name.partition(".")[0] in keys]
    differing = [name for name in names if both[0].get(name) != both[1].get(name)]
    return [", ".join(f"{name}: {one.get(name, 'none')}" for name in differing) for one in both]


def _flat(values: Mapping, path: str = "") -> dict[str, object]:
    """Nested values by their paths: {"optimizer.learning_rate": 0.1}."""
    found: dict[str, object] = {}
    for key, value in values.items():
        found |= _flat(value, f"{path}{key}.") if isinstance(value, Mapping) else {f"{path}{key}": value}
    return found


def _packages(versions: str | None) -> dict[str, str]:
    """The versions by package of "jax 0.10.2, flax 0.12.8"."""
    return dict(one.split(" ", 1) for one in (versions or "").split(", ") if " " in one)
