"""How two campaigns differ: for each setting that both have, the ratio of the second to the first, by each metric."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, isinf

import pandas as pd

from trainmark.campaigns.folders import Campaign, some
from trainmark.campaigns.sameness import EVIDENCE, SAME, Fact, blocking, claim, facts
from trainmark.errors import DataError
from trainmark.plan.matrix import LEAST_PAIRS
from trainmark.plan.run import group_title
from trainmark.tables.bounds import LEAST
from trainmark.tables.comparability import WITHHELD
from trainmark.tables.formatting import causes_in, counted, format_ratio, listed, troubled
from trainmark.tables.frames import SETTING, columns_of, groups, number
from trainmark.tables.metrics import COMPARED, NOT_DISTINGUISHABLE
from trainmark.tables.paired import LEVEL, BoundedRatios, PairedRatios, holm, paired_ratios
from trainmark.tables.unpaired import TwoSamples, two_samples
from trainmark.trainer import Trainer

SLOWER, NOT_SLOWER, UNDECIDED = "slower", "not slower", "undecided"
"""What a check against a limit finds."""

SIDES = ("first", "second")

TOO_FEW = "too few runs"

DECIDING = "training_seconds"
"""The metric that this check compares."""


@dataclass(frozen=True)
class Setting:
    """A setting that two campaigns have, with the runs of both in the order of training, and what is the same in them.

    values: of the columns SETTING. name: in words, "small: flax on cpu, 5 epochs".
    """

    values: tuple
    name: str
    runs: tuple[pd.DataFrame, pd.DataFrame] = field(repr=False)
    facts: list[Fact] = field(repr=False)

    @property
    def same_seed(self) -> bool:
        """Whether equal repeats began with the same weights and batches, so that their results are pairs."""
        return all(one.status == SAME for one in self.facts if one.kind == EVIDENCE)


@dataclass(frozen=True)
class Comparison:
    """Two campaigns, compared. only_first, only_second: names of the settings that one of them alone has."""

    first: Campaign
    second: Campaign
    settings: list[Setting]
    only_first: list[str]
    only_second: list[str]

    @cached_property
    def rows(self) -> list[dict]:
        """The rows of numbers with the statistic "ratio", second / first. Those by one metric are corrected together
        (Holm). Beside the columns of the table of numbers, they have the median and the number of runs of both, and
        the `test`, which is None without a verdict.
        """
        rows = [
            _row(one, metric, self.first.name)
            for one in self.settings
            for metric in COMPARED
            if metric == DECIDING or all(runs[metric].notna().any() for runs in one.runs)
        ]
        for metric in COMPARED:
            family = [row for row in rows if row["metric"] == metric and row["test"]]
            for row, p_value in zip(family, holm([row["test"].p_value for row in family]), strict=True):
                is_found, detectable = p_value <= LEVEL, row["test"].detectable(LEVEL / len(family))
                row["verdict"] = COMPARED[metric].words[row["value"] > 1] if is_found else NOT_DISTINGUISHABLE
                row |= {"p_value": p_value, "compared": len(family), "detectable": detectable}
        return rows

    @property
    def claims(self) -> dict[str, list[str]]:
        """The settings for which a sentence is allowed, by the sentence."""
        found: dict[str, list[str]] = {}
        for one in self.settings:
            found.setdefault(claim(one.facts), []).append(one.name)
        return found

    @property
    def facts(self) -> dict[Fact, list[str]]:
        """The settings of each fact."""
        found: dict[Fact, list[str]] = {}
        for one in self.settings:
            for fact in one.facts:
                found.setdefault(fact, []).append(one.name)
        names = list(dict.fromkeys(fact.name for fact in found))
        return dict(sorted(found.items(), key=lambda own: names.index(own[0].name)))


def compare(first: Campaign, second: Campaign) -> Comparison:
    """Compare the settings that both have. Raises DataError if there is none."""
    settings = [dict(groups(one.runs.sort_values("number"), SETTING)) for one in (first, second)]
    common = [values for values in settings[0] if values in settings[1]]
    several = len({values[:3] for values in (*settings[0], *settings[1])}) > 1
    only = [[_named(values, several) for values in own if values not in common] for own in settings]
    if not common:
        raise DataError(
            f"{first.name} and {second.name} have no setting in common: found {some(only[0])}, and {some(only[1])}; "
            "needs an experiment, recipe, dataset, trainer and number of epochs that both have"
        )
    found = []
    for values in common:
        runs = (settings[0][values], settings[1][values])
        found.append(Setting(values, _named(values, several), runs, facts((first, second), runs)))
    return Comparison(first, second, found, *only)


def _named(values: tuple, several: bool) -> str:
    """A setting in words. several: whether there are other recipes, datasets or experiments."""
    experiment, recipe, dataset, *of_trainer, epochs = values
    title = f" ({group_title(recipe, dataset)})" if several else ""
    return f"{experiment}{title}: {Trainer(*of_trainer).name}, {counted(epochs, 'epoch')}"


def _row(setting: Setting, metric: str, first: str) -> dict:
    """The row that compares a setting by a metric; if there is a `test`, without its verdict."""
    used = [_used(runs, metric) for runs in setting.runs]
    own = columns_of(setting.values[:3], Trainer(*setting.values[3:-1])) | {"epochs": setting.values[-1]}
    own |= {"setting": setting.name, "compared_with": first, "bounded": 0}
    own |= {"runs_first": len(used[0]), "runs": len(used[1])}
    own |= {f"median_{which}": one["value"].median() for which, one in zip(SIDES, used, strict=True)}
    verdict = _withheld(setting, metric, used)
    test = None if verdict else _test(setting, metric, used)
    if not (verdict or test):
        verdict = _too_few(setting, metric, used)
    ends = (test.value, *test.interval()) if test else ()
    about = {"verdict": verdict, "test": test, "note": "; ".join(_notes(setting, used))}
    return number(own, "ratio", metric, "1", ends, **about)


def _withheld(setting: Setting, metric: str, used: list[pd.DataFrame]) -> str:
    """Why there is no ratio, whatever the number of runs; "" if there may be one."""
    if found := blocking(setting.facts):
        return f"refused: {listed(one.name for one in found)} not the same"
    if metric == "target_seconds" and any(runs[metric].isna().any() for runs in setting.runs):
        return f"{WITHHELD}a run never reached the target accuracy"
    return f"{WITHHELD}of a value of 0 there is no ratio" if any((one["least"] <= 0).any() for one in used) else ""


def _too_few(setting: Setting, metric: str, used: list[pd.DataFrame]) -> str:
    """What stands in place of a verdict if too few runs are left."""
    disturbed = [runs[runs["disturbed"] != ""] for runs in setting.runs]
    if any(map(len, disturbed)) and not COMPARED[metric].is_lasting:
        causes = ", ".join(causes_in(pd.concat(disturbed)["disturbed"]))
        counts = (f"{len(own)} of {len(runs)}" for own, runs in zip(disturbed, setting.runs, strict=True))
        return f"{WITHHELD}{' and '.join(counts)} runs disturbed ({causes})"
    return f"{TOO_FEW} ({len(used[0])} and {len(used[1])}, needs {LEAST_PAIRS})"


def _test(setting: Setting, metric: str, used: list[pd.DataFrame]) -> PairedRatios | TwoSamples | None:
    """What the runs show; None if they are too few. Results of equal repeats are pairs; times of campaigns are none."""
    if COMPARED[metric].is_lasting and setting.same_seed:
        return _of_pairs(*used)
    if min(map(len, used)) < LEAST_PAIRS:
        return None
    return two_samples(*(one[end].to_numpy() for end in ("value", "least") for one in used))


def _of_pairs(first: pd.DataFrame, second: pd.DataFrame) -> PairedRatios | None:
    """What the repeats show that both have; None if they are too few."""
    both = first.merge(second, on="repeat", suffixes=("_first", "_second"))
    found = paired_ratios((both["value_second"] / both["value_first"]).tolist())
    assert not isinstance(found, BoundedRatios), "results have no bounds"
    return found


def _notes(setting: Setting, used: list[pd.DataFrame]) -> Iterator[str]:
    """What a reader of the numbers must know of the runs of each campaign."""
    for which, runs, own in zip(SIDES, setting.runs, used, strict=True):
        bounded = int((own["least"] < own["value"]).sum())
        within = f"{bounded} of {counted(len(own), 'run')} within bounds" if bounded else ""
        if about := ", ".join(filter(None, (troubled(runs), within))):
            yield f"{which}: {about}"


def _used(runs: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The values that count of a setting, in the order of training: `repeat`, `value` and its lower end `least`.

    Disturbed times count within bounds where fewer undisturbed ones are left than a verdict needs.
    """
    known = runs[(runs["status"] == "ok") & runs[metric].notna()]
    clean, least = known["disturbed"] == "", known[metric]
    if not COMPARED[metric].is_lasting:
        if clean.sum() < LEAST_PAIRS and metric in LEAST:
            bound = known[LEAST[metric]].astype("float64")
            least, clean = bound.where(bound.notna() | ~clean, known[metric]), clean | bound.notna()
        known, least = known[clean], least[clean]
    return pd.DataFrame({"repeat": known["repeat"], "value": known[metric], "least": least}, dtype="float64")


# --- a limit ------------------------------------------------------------------------------------------------------


def judged(comparison: Comparison, limit: float) -> list[tuple[str, str]]:
    """Is the training time of a setting more than `limit` (1.05: 5 %) times that of the first campaign?

    Returns for each setting (SLOWER, NOT_SLOWER or UNDECIDED, a sentence). Both answers are corrected for the number of
    settings (Holm), so that one of them is wrong in at most LEVEL of cases.
    """
    rows = [row for row in comparison.rows if row["metric"] == DECIDING]
    tested = [row for row in rows if row["test"]]
    above = holm([min(1.0, 2 * row["test"].p_above(limit)) for row in tested])  # from both sides, as the interval
    below = holm([min(1.0, 2 * row["test"].p_below(limit)) for row in tested])
    found = {id(row): both for row, both in zip(tested, zip(above, below, strict=True), strict=True)}
    return [_judged(row, limit, *found.get(id(row), (1.0, 1.0))) for row in rows]


def _judged(row: Mapping, limit: float, above: float, below: float) -> tuple[str, str]:
    name = row["setting"]
    if not row["test"]:
        return UNDECIDED, f"{name}: {UNDECIDED} ({row['verdict']})"
    percent = f"more than {100 * (limit - 1):.3g} % slower"
    ends = f"ratio {format_ratio(row['value'])} ({format_ratio(row['low'])} to {format_ratio(row['high'])})"
    if min(above, below) <= LEVEL:
        word, what = (SLOWER, percent) if above <= LEVEL else (NOT_SLOWER, f"not {percent}")
        return word, f"{name}: {what}, {ends}"
    runs = row["test"].needed(limit) * max(row["runs"], row["runs_first"])
    needed = "no number of repeats" if isinf(runs) else f"about {ceil(runs):,} repeats of each"
    return UNDECIDED, f"{name}: {UNDECIDED} whether {percent}, {ends}; {needed} would decide it, with the same spread"
