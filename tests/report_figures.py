"""The figures that a report's page shows, and what each must be: computed anew from the records, by other code."""

import statistics
from functools import partial
from html.parser import HTMLParser
from itertools import chain, combinations_with_replacement
from math import exp, log, sqrt

import numpy as np
import pytest
from harness import CPU_HOUR

from trainmark.checks.epochs import ordered_epochs
from trainmark.records.step_losses import step_losses
from trainmark.tables.bounds import LEAST, load_columns
from trainmark.tables.curves import reached_target
from trainmark.tables.paired import paired_ratios
from trainmark.trainer import Trainer
from trainmark.variant import GROUP, split_name

AGREEMENT = {"difference", "difference_high"}

OF_TABLES = ("break_even", "median_time_to_accuracy", "reached", "published_")
"""Statistics whose own tests compute them."""

COMPARISON = {"pairs", "left_out", "ratio", "low", "high", "verdict"}

PEAK = (
    ("training_gflop_per_second", "training_flops_per_second", 1e9),
    ("peak_gflop_per_second", "matrix_flops_per_second", 1e9),
    ("memory_gb_per_second", "memory_bytes_per_second", 1e9),
    ("peak_share", "share_of_peak", 1),
)


class Figures(HTMLParser):
    """Collects the elements that show a figure, every cell of class figure, links, and what the page would load.

    An element without data-runs has that of its row. In a table with a data-statistic, a cell has this and the
    data-field of its column's heading, and a row is of the run that its id names.
    """

    def __init__(self, page):
        super().__init__()
        self.shown, self.bare, self.links, self.loaded, self.ids = [], [], [], [], []
        self._table, self._fields, self._row, self._column, self._cell = {}, [], {}, 0, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.append(attributes.get("id"))
        if tag == "table":
            self._table, self._fields = attributes, []
        elif tag == "tr":
            self._row, self._column = attributes, 0
            if "data-statistic" in self._table and "id" in attributes:
                self._row["data-runs"] = attributes["id"].removeprefix("run-")
        elif tag in ("td", "th"):
            self._of_cell(tag, attributes)
        elif "data-statistic" in attributes:
            self._show(attributes)
        if tag == "a":
            self.links.append(attributes["href"])
        self.loaded += [attributes[key] for key in ("src", "data", "srcset") if key in attributes]
        if tag == "link":
            self.loaded.append(attributes["href"])

    def _of_cell(self, tag, attributes):
        self._cell = None
        if tag == "th" and attributes.get("scope") == "col":
            self._fields.append(attributes.get("data-field"))
            return
        field = self._fields[self._column] if "data-statistic" in self._table else None
        self._column += 1
        if field:
            attributes = {"data-field": field, "data-statistic": self._table["data-statistic"], **attributes}
        if "data-statistic" in attributes:
            self._show(attributes)
        elif tag == "td" and "figure" in attributes.get("class", "").split():
            self._cell = tag

    def _show(self, attributes):
        runs = {"data-runs": self._row["data-runs"]} if "data-runs" in self._row else {}
        self.shown.append(runs | attributes)
        self._cell = None

    def handle_data(self, data):
        if self._cell and any(character.isdigit() for character in data):
            self.bare.append(data)

    def handle_endtag(self, tag):
        if tag == self._cell:
            self._cell = None
        if tag == "table":
            self._table, self._row = {}, {}


def check_figures(page, records, certificates):
    """Compare every figure of the page with the records, by run number; certificates decide what is ranked.

    Gives the elements that show a figure. An element without a value must be one for which there is none.
    """
    figures = Figures(page)
    assert figures.bare == []
    for cell in figures.shown:
        if cell["data-statistic"].startswith(OF_TABLES):
            continue
        runs = cell["data-runs"].split()
        wanted = expected(cell["data-statistic"], cell["data-field"], runs, records, certificates)
        if "data-value" not in cell:
            assert wanted is None, cell
        elif cell["data-statistic"] == "verdict":
            # A machine with other work withholds: what then remains is told by tests/unit/tables/test_comparability.py.
            assert cell["data-value"] in wanted or "pairs disturbed (" in cell["data-value"], cell
        else:
            assert float(cell["data-value"]) == pytest.approx(wanted, rel=1e-12), cell
    return [cell for cell in figures.shown if "data-value" in cell]


def expected(statistic, field, runs, records, certificates):
    """The value that a figure of the report must have; None where there is none. Of a verdict those that it may be."""
    if field in ("step_losses", "compared_steps", "ordered_epochs"):
        return _agreement(field, statistic, _pairs(runs, records))
    if statistic in COMPARISON:
        return _comparison(statistic, field, _pairs(runs, records), certificates)
    shown = [records[run] for run in runs]
    shown = shown if statistic == "value" else _counted(shown, field)
    value_of = partial(_machine_share, records=records.values()) if field == "machine_peak_share" else _value
    values = [value for value in (value_of(record, field) for record in shown) if value is not None]
    if statistic == "min" and field in LEAST and all(one["disturbed"] and _least(one, field) for one in shown):
        return min((_least(one, field) for one in shown), default=None)
    of = {"median": statistics.median, "min": min, "max": max, "value": lambda found: found[0]}
    return of[statistic](values) if values else None


def _counted(records, field):
    """The records that enter a median: disturbed ones only of what is no time, or if there are no others."""
    finished = [record for record in records if record["status"] == "ok"]
    lasting = field.startswith(("test_", "train_", "peak_host", "peak_device", "scored_texts"))
    return finished if lasting else [one for one in finished if not one["disturbed"]] or finished


def _machine_share(record, field, records):
    """The share of the largest peak of a run on the same machine."""

    def machine(one):
        provenance, facts = one["provenance"], ("name", "driver_version", "memory_mib")
        model = [provenance["gpu"].get(key) for key in facts] if provenance["gpu"] else provenance["cpu_model"]
        return one["run"]["device"], provenance["threads"], model

    peaks = [_value(one, "peak_gflop_per_second") or 0.0 for one in records if machine(one) == machine(record)]
    return record["peak"] and _value(record, "training_gflop_per_second") / max(peaks)


def _value(record, field):
    """A figure of a record; None for a loss that is NaN."""
    if field == "target_seconds":
        return reached_target(record)[field]  # tests/unit/tables/test_targets.py holds it to its promise
    places = [record["result"], record["memory"], record["energy"], record]
    places.append({f"phases.{name}": seconds for name, seconds in record["phases_seconds"].items()})
    places.append({f"scored_texts.{one['split']}.{one['index']}": one["probability"] for one in record["scored_texts"]})
    joules, epochs = record["energy"]["training_joules"], record["result"]["epochs_trained"]
    places.append({"epoch_joules": joules / epochs if joules and epochs else None})
    peak = {key: None if record["peak"] is None else record["peak"][place] / unit for key, place, unit in PEAK}
    places.append(peak)
    cpus, phases = len(record["sessions"][-1]["cpus"]), record["phases_seconds"]
    working = record["wall_seconds"] - phases["device_wait"] - phases["peak"]
    cost, cache = CPU_HOUR * cpus * working / 3600, record["compilation_cache"] or {}
    places.append({"cost": cost, "epoch_cost": cost / epochs if epochs else None, "working_seconds": working})
    cpu_seconds = sum(one["cpu_seconds"] for one in record["epochs"])
    held_seconds = cpus * sum(entry["seconds"] or 0 for entry in record["curves"])
    places.append({"cpu_share": cpu_seconds / held_seconds if record["epochs"] and held_seconds else None})
    places.append({"cached_programs": cache.get("hits"), "compiled_programs": cache.get("misses")})
    (value,) = [place[field] for place in places if field in place]
    return None if value in (None, "NaN") else float(value)


def _pairs(runs, records):
    return [(records[first], records[second]) for first, second in zip(runs[::2], runs[1::2], strict=True)]


def _agreement(field, statistic, pairs):
    losses = [[[*chain(*map(step_losses, run["curves"]))][:100] for run in pair] for pair in pairs]
    worst = [
        max(abs(a - b) / max(abs(a), abs(b)) for a, b in zip(first, second, strict=True)) for first, second in losses
    ]
    if pairs[0][0]["network"]["dropout"] and field == "step_losses":
        return None
    longest = max(len(first["curves"]) for first, _ in pairs)
    paired = [pair for pair in pairs if len(pair[0]["curves"]) == longest]
    epochs = [
        np.array([[step_losses(run["curves"][i]) for run in of] for of in zip(*paired, strict=True)])
        for i in range(longest)
    ]
    counts = {"compared_steps": max(len(first) for first, _ in losses), "ordered_epochs": ordered_epochs(epochs)}
    return counts.get(field) or {"difference": statistics.median, "difference_high": max}[statistic](worst)


def _least(record, field):
    """The least value of a run's time; None if it has no bound. tests/unit/tables/test_bounds.py tests the function."""
    least = load_columns(record, _value(record, "target_seconds"))[LEAST[field]]
    return _value(record, field) if least is None and not record["disturbed"] else least


def _ends(first, second, field, bounded=True):
    """The least and the largest ratio of a pair of runs, or twice the ratio; None if it enters no comparison."""
    values = [_value(one, field) for one in (first, second)]
    if (
        {first["status"], second["status"]} != {"ok"}
        or 0 in values
        or (_is_disturbed(first, second, field) and not bounded)
    ):
        return None
    least = (
        [_least(one, field) for one in (first, second)] if bounded and field in LEAST and None not in values else values
    )
    if None in (*values, *least):
        return None if _is_disturbed(first, second, field) else (None, None)
    return least[1] / values[0], values[1] / least[0]


def _is_disturbed(first, second, field):
    return bool(first["disturbed"] or second["disturbed"]) and not field.startswith("test_")


def _refused(pairs, certificates):
    """Whether the certificate of these runs says that their trainers trained different networks, or nothing of them."""
    for first, second in ((first["run"], second["run"]) for first, second in pairs):
        if first["experiment"] != second["experiment"]:  # variants have no certificate
            return False
        names = {Trainer.of(run).name for run in (first, second)}
        (of_group,) = [one for one in certificates.values() if all(one[key] == first[key] for key in GROUP)]
        found = [pair["parity"] for pair in of_group["pairs"] if {pair["first"], pair["second"]} == names]
        return found not in (["bitwise"], ["rounding"], ["single"])
    return False


def _comparison(statistic, field, pairs, certificates):
    """Of the pairs of a comparison; for "left_out" of those that it left out."""
    for first, second in pairs:
        same = ("recipe", "dataset", "epochs", "repeat")
        assert [first["run"][key] for key in same] == [second["run"][key] for key in same]
        of_both = [split_name(one["run"]["experiment"]) for one in (first, second)]
        assert len({experiment for experiment, _ in of_both}) == 1
        if of_both[0] != of_both[1]:  # two variants of one trainer
            assert Trainer.of(first["run"]) == Trainer.of(second["run"])
        # One within bounds enters if others are too few: tests/unit/tables/test_bounds.py.
        is_bounded = _is_disturbed(first, second, field) and field in LEAST and _ends(first, second, field)
        assert is_bounded or (_ends(first, second, field, bounded=False) is not None) == (statistic != "left_out")
    if statistic in ("pairs", "left_out"):
        return len(pairs)
    if not _refused(pairs, certificates) and (shares := _waited(pairs, field)):
        return {f"withheld: waited for data ({shares} of the time)"} if statistic == "verdict" else None
    if _refused(pairs, certificates):
        return {"refused: different", "refused: not certified"} if statistic == "verdict" else None
    bounded = any(_is_disturbed(*pair, field) for pair in pairs)
    lower, upper = zip(*(_ends(*pair, field, bounded) for pair in pairs), strict=True) if pairs else ((), ())
    ratios = [sqrt(low * high) for low, high in zip(lower, upper, strict=True)]
    bounds = (lower, upper) if bounded else None
    paired = paired_ratios(ratios, bounds)  # tests/unit/tables/test_paired.py and test_bounds.py test it
    low, high = paired.interval() if paired else (None, None)
    if statistic == "verdict":
        words = {"slower": "higher", "faster": "lower"} if field.startswith("test_") else {}
        return {words.get(word, word) for word in _verdict(low, high, len(ratios))}
    return {"ratio": _estimate(ratios) if ratios else None, "low": low, "high": high}[statistic]


def _estimate(ratios):
    """The median of the means of any two ratios and of themselves, all on a logarithmic scale."""
    return exp(statistics.median((log(a) + log(b)) / 2 for a, b in combinations_with_replacement(ratios, 2)))


def _waited(pairs, field):
    """The shares of the time that the two trainers waited, in the median run; None if both are up to a tenth."""
    parts = {"steady_epoch_seconds": ("steady",)} | dict.fromkeys(
        ("training_seconds", "target_seconds"), ("warm_up", "steady")
    )
    if field not in parts:
        return None
    part = parts[field]
    shares = [statistics.median(_share(record, part) for record in side) for side in zip(*pairs, strict=True)]
    return " and ".join(f"{100 * share:.0f} %" for share in shares) if max(shares, default=0) > 0.1 else None


def _share(record, parts):
    entries = [entry for entry in record["curves"] if entry["part"] in parts]
    return sum(entry["waiting_seconds"] or 0 for entry in entries) / sum(entry["seconds"] for entry in entries)


def _verdict(low, high, pairs):
    """The verdicts that there may be. Why there is no pair the runs alone do not tell."""
    if low is None:
        refused = {"refused: different", "refused: not certified"}
        return {f"too few pairs ({pairs}, needs 6)"} if pairs else {"no pair", "not measured"} | refused
    return {"slower" if low > 1 else "faster" if high < 1 else "", "not distinguishable"}  # one of many, by chance
