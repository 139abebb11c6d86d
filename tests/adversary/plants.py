"""Mistakes as people make them, to plant in a copy of the repository; and forgeries of finished records.

A plant is some hunks of a diff (plants.yaml). It reports true counts, and no certified step shows it: it begins after
update 40, needs dropout, an evaluation or a second rank, or is in what all trainers share. A forger changes records of
a finished campaign, with what follows from the change within a record, and renews the digests.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

PLAIN = "mnist-mlp-chainer"
"""A recipe without dropout, 15 steps in an epoch on the digits; that of most plants with dropout has 12."""


@dataclass(frozen=True)
class Plant:
    """A mistake or a forgery, and the campaign that has it.

    kind: what it belongs to: late, steps, evaluation, dropout, precision, ranks, variants or clock.
    where: a regular expression: what must be said where the plant is named, beside the trainer.
    framework: the trainer that is wrong; all its runs are.
    partners: frameworks without a mistake.
    hunks: (file of the library, lines in it, lines in their place).
    forge: changes the records of the framework's runs, by repeat, in place.
    issue: whether the plant is one of those that issue 58 lists.
    keys: other keys of the experiment.
    cores: CPUs of the campaign. One thread takes no longer on digits, and much less time on a machine in use.
    """

    kind: str
    where: str
    framework: str = "torch"
    recipe: str = PLAIN
    partners: tuple[str, ...] = ("chainer", "keras-jax")
    hunks: tuple[tuple[str, str, str], ...] = ()
    forge: Callable[[dict], None] | None = None
    issue: bool = False
    keys: dict = field(default_factory=dict)
    cores: int = 1

    @property
    def is_in_all(self) -> bool:
        """Whether the mistake is in what all trainers share."""
        return any(file.startswith("recipes/") for file, *_ in self.hunks)


def hunks_of(diffs: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (file, old lines, new lines) of the hunks of each file, which "@@" divides."""
    for file, diff in diffs.items():
        for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
            lines = hunk.rstrip("\n").split("\n")
            old, new = ("".join(f"{line[1:]}\n" for line in lines if line[:1] != other) for other in "+-")
            yield file, old, new


def hunks_in(folder: Path, hunks: tuple[tuple[str, str, str], ...]) -> None:
    """Edit the library in a folder. Each hunk must fit one place."""
    for file, old, new in hunks:
        text = (folder / file).read_text()
        assert f"\n{text}".count(f"\n{old}") == 1, (file, old)
        (folder / file).write_text(f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:])


# --- forgeries --------------------------------------------------------------------------------------------------------


def longer_epochs(records):
    """Epochs times 1.5; what follows from them follows, the machine's stretches are left."""
    for record in records.values():
        more = 0.0
        for entry in record["curves"]:
            more += entry["seconds"] / 2
            record["phases_seconds"][entry["part"]] += entry["seconds"] / 2
            entry["seconds"] *= 1.5
        record["wall_seconds"] += more


def longer_in_all(records):
    """The same, and the machine's stretches and the time of the lock as well."""
    longer_epochs(records)
    for record in records.values():
        for stretch in record["machine"]:
            for name in ("seconds", "cpu_seconds"):
                stretch[name] *= 1.5
        record["sessions"][-1]["held_seconds"][1] += record["wall_seconds"]


def shorter_epochs(records):
    """Epochs of half the time; the rest is called another phase."""
    for record in records.values():
        for entry in record["curves"]:
            entry["seconds"] /= 2
            record["phases_seconds"][entry["part"]] -= entry["seconds"]
            record["phases_seconds"]["other"] += entry["seconds"]


def copied_seconds(records):
    """The second run has the times of the first one."""
    first, second = records[1], records[2]
    for old, new in zip(first["curves"], second["curves"], strict=True):
        new["seconds"] = old["seconds"]
    for part in ("warm_up", "steady"):
        change = first["phases_seconds"][part] - second["phases_seconds"][part]
        second["phases_seconds"][part] += change
        second["wall_seconds"] += change


def copied_losses(records):
    """The second run has the step losses of the first one."""
    for old, new in zip(records[1]["curves"], records[2]["curves"], strict=True):
        new["step_losses"], new["batch_loss"] = old["step_losses"], old["batch_loss"]


def copied_run(records):
    """The second run has the curves of the first one, as if it had been trained."""
    records[2]["curves"] = json.loads(json.dumps(records[1]["curves"]))
    for part in ("warm_up", "steady"):
        change = records[1]["phases_seconds"][part] - records[2]["phases_seconds"][part]
        records[2]["phases_seconds"][part] += change
        records[2]["wall_seconds"] += change


FORGERIES = {
    "forged-longer-epochs": ("clock", "machine|stretch|epochs|held|wall", longer_epochs, True),
    "forged-copied-seconds": ("clock", "seconds|times|same|equal|held|took", copied_seconds, True),
    "forged-copied-losses": ("steps", "loss|same|equal", copied_losses, True),
    "forged-longer-in-all": ("clock", "machine|stretch|epochs|held|wall|CPU", longer_in_all, False),
    "forged-shorter-epochs": ("clock", "machine|stretch|epochs|held|wall", shorter_epochs, False),
    "forged-copied-run": ("steps", "loss|same|equal|machine|took", copied_run, False),
}
"""By name: kind, where, what the forger does, and whether it is one of the issue's."""

PLANTS = {
    name: Plant(hunks=tuple(hunks_of({file: diff for file, diff in entry.items() if file != "is"})), **entry["is"])
    for name, entry in yaml.safe_load(Path(__file__).with_name("plants.yaml").read_text()).items()
    if not name.startswith(".")
} | {
    name: Plant(kind, where, "chainer", forge=forge, issue=issue)
    for name, (kind, where, forge, issue) in FORGERIES.items()
}
