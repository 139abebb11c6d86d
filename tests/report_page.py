"""A report of records that a test makes, for the tests of the page, and of it in a browser."""

import json
import re
from unittest import mock

from fabricated_campaigns import write_empty_figures, write_prepared
from figures_for_tests import PUBLISHED
from records_for_tests import certificates_of, diverged, out_of_memory, record, session, written_tables
from report_figures import Figures

from trainmark.plan.figures import known_figures
from trainmark.report import collected
from trainmark.report.figures.data import Data
from trainmark.report.figures.save import save_figures
from trainmark.report.page import render
from trainmark.tables.curves import curves_table

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
        by_id = {one["run"]["id"]: one for one in by_path.values()}
        self.records = {str(i): by_id[one] for i, one in enumerate(order, 1)}
        certificates, curves = certificates_of(runs, parities), curves_table(by_path)
        files = {name: f"certificates/{name}/{KEY}.json" for name in map("/".join, certificates)}
        self.certificates = dict(zip(files.values(), certificates.values(), strict=True))
        write_prepared(folder / "datasets" / "digits" / KEY)
        experiments = {name: {"description": "Small & <fast>."} for name in "efg"}
        self.plan = {
            "config": {"experiments": experiments, "prepare": [], "prices": {}, "claims": claims},
            "missing": missing or {}, "order": order, "datasets": {"digits": {"folder": f"datasets/digits/{KEY}"}},
            "certificates": {name: {"file": file} for name, file in files.items()}, "any_code": False, **planned,
        }  # fmt: skip
        # The certificates decide what is ranked, whatever the losses of these records.
        with mock.patch.multiple(collected, read_references=lambda: PUBLISHED, wrong_pairs=lambda *_: {}):
            results = collected.made(folder, self.plan, by_path, curves, certificates)
        for section in results.sections:
            figures = folder.joinpath("figures", *section.group)
            write_empty_figures(figures)
            if drawn:
                save_figures(Data(section, curves), figures, known_figures())
        self.text, summary = render(results)
        self.summary = json.loads(summary, parse_constant=refuse)
        self.figures = Figures(self.text)
        self.words = re.sub(
            r"\s+", " ", re.sub(r"<[^>]+>", " ", self.text[self.text.index("<body") : self.text.index("<script>")])
        )

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
