"""A report of records that a test makes, for the tests of the page, and of it in a browser."""

import json
import re

from fabricated_campaigns import write_empty_figures, write_prepared
from figures_for_tests import PUBLISHED, data_from
from records_for_tests import certificates_of, diverged, out_of_memory, record, session, written_tables
from report_figures import Figures

from trainmark.plan.figures import known_figures
from trainmark.report.figures.save import save_figures
from trainmark.report.page import render
from trainmark.tables.agreement import agreement_table
from trainmark.tables.break_even import break_even_table
from trainmark.tables.claims import claims_table
from trainmark.tables.comparisons import (
    baselines_of,
    comparisons_table,
    parity_table,
    read_comparisons,
    speed_ups_table,
)
from trainmark.tables.curves import curves_table
from trainmark.tables.published import published_table
from trainmark.tables.results import Results
from trainmark.tables.tables import GROUP, runs_table
from trainmark.tables.targets import targets_table

KEY = "0" * 8 + "-" + "0" * 8

MEASURED = {"energy": {"training_joules": 12.5, "source": "nvml", "reason": None}}


def refuse(constant):
    """Refuse NaN and Infinity, which are not JSON."""
    raise AssertionError(constant)


class Page:
    """The text of a report, its numbers, and its records by the numbers of their runs.

    drawn: whether its figures are drawn, which takes seconds, or left empty. planned: further keys of the plan.
    """

    def __init__(self, folder, *records, parities=None, missing=None, drawn=False, claims=(), **planned):
        by_path, runs = written_tables(folder, *records)
        # Not in the order of the config, so that the number of a run differs from its row.
        order = sorted(runs["id"], key=lambda run_id: run_id[::-1])
        runs = runs_table(by_path, order)
        by_id = {one["run"]["id"]: one for one in by_path.values()}
        self.records = {str(i): by_id[one] for i, one in enumerate(order, 1)}
        comparisons = folder / "comparisons.csv"
        certificates = certificates_of(runs, parities)
        files = {name: f"certificates/{name}/{KEY}.json" for name in map("/".join, certificates)}
        self.certificates = dict(zip(files.values(), certificates.values(), strict=True))
        comparisons.write_text(comparisons_table(runs, certificates).to_csv(index=False))
        self._draw(folder, runs, curves_table(by_path) if drawn else None)
        write_prepared(folder / "datasets" / "digits" / KEY)
        config = {"experiments": {name: {"description": "Small & <fast>."} for name in "efg"}, "prepare": []}
        compared = read_comparisons(comparisons)
        tables = runs, compared, parity_table(runs, certificates), agreement_table(by_path), certificates
        speed_ups = speed_ups_table(compared, baselines_of(runs, {}))
        further = break_even_table(runs, compared), targets_table(runs), speed_ups, compared[:0]
        further = *further, published_table(runs, curves_table(by_path), by_path.values(), PUBLISHED)
        further = *further, claims_table(claims, compared, tables[2])
        self.plan = {
            "config": config, "missing": missing or {}, "order": order,
            "datasets": {"digits": {"folder": f"datasets/digits/{KEY}"}},
            "certificates": {name: {"file": file} for name, file in files.items()}, "any_code": False, **planned,
        }  # fmt: skip
        self.text, summary = render(Results(folder, self.plan, *tables, *further), self.plan)
        self.summary = json.loads(summary, parse_constant=refuse)
        self.figures = Figures(self.text)
        self.words = re.sub(
            r"\s+", " ", re.sub(r"<[^>]+>", " ", self.text[self.text.index("<body") : self.text.index("<script>")])
        )

    @staticmethod
    def _draw(folder, runs, curves):
        for values, group in runs.groupby(GROUP):
            figures = folder.joinpath("figures", *values)
            write_empty_figures(figures)
            if curves is not None:
                save_figures(data_from(group, curves, certificates_of(group)), figures, known_figures())

    def number(self, **run):
        """The number of the only run with these keys."""
        (number,) = [number for number, one in self.records.items() if all(one["run"][key] == run[key] for key in run)]
        return number


def experiment():
    """Records of 7 repeats of two frameworks on two devices, some of them censored, and of another experiment."""
    for repeat in range(1, 8):
        for device in ("cpu", "gpu"):
            measured = MEASURED if device == "gpu" else {}
            noise = 1 + repeat / 100
            changes = measured | {"settings.memory_limit_mib": 600}
            yield record("a", repeat, device, seconds=noise, changes=changes)
            yield record("b", repeat, device, seconds=1.1 + repeat / 90, loss=0.4, changes=measured)
    yield diverged("a", 1, epochs=3)
    yield out_of_memory("b", 1, epochs=3)
    yield record("a", 8, changes={"resumes": 2, "sessions": [session("h"), session("h"), session("<g>")]})
    yield diverged("a", 1, experiment="f", kind="inf")
    yield diverged("b", 1, experiment="f")
