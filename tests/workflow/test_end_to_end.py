"""From a config to the report: every run leaves a record, and every figure that is shown comes from one."""

import csv
import hashlib
import json
import re
import statistics
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from harness import FRAMEWORKS, REPOSITORY, SECRET, TINY, environment, snakemake

from trainmark.records import decode_loss, read_record

RUNS = len(FRAMEWORKS) * 2 * 2 + 2


class Figures(HTMLParser):
    """Collects the elements that show a figure, every cell of class figure, links, and what the page would load."""

    def __init__(self, page):
        super().__init__()
        self.shown, self.bare, self.links, self.loaded, self.ids = [], [], [], [], []
        self._cell = None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.append(attributes.get("id"))
        if "data-statistic" in attributes:
            self.shown.append(attributes)
            self._cell = None
        elif tag == "td" and attributes.get("class") == "figure":
            self._cell = tag
        if tag == "a":
            self.links.append(attributes["href"])
        self.loaded += [attributes[key] for key in ("src", "data", "srcset") if key in attributes]
        if tag == "link":
            self.loaded.append(attributes["href"])

    def handle_data(self, data):
        if self._cell and any(character.isdigit() for character in data):
            self.bare.append(data)

    def handle_endtag(self, tag):
        if tag == self._cell:
            self._cell = None


@pytest.fixture(scope="module")
def records(tiny):
    """The records by run number, as the report counts them, each read from its file."""
    ids = json.loads((tiny.results / "plan.json").read_text())["runs"]
    return {
        str(i): read_record(tiny.results / "runs" / run_id / "record.json") for i, run_id in enumerate(ids, start=1)
    }


@pytest.fixture(scope="module")
def page(tiny):
    return (tiny.results / "report" / "index.html").read_text()


def test_every_run_left_a_record(records):
    assert len(records) == RUNS
    assert {record["run"]["framework"] for record in records.values()} == set(FRAMEWORKS)
    for record in records.values():
        assert record["provenance"]["device"]["kind"] == "cpu"
        assert sum(record["phases_seconds"].values()) == pytest.approx(record["wall_seconds"], rel=1e-9)
        assert min(record["phases_seconds"].values()) >= 0


def test_frameworks_trained_the_same(records):
    """Equal first weights and batches: the first step's loss is the same to rounding, the last one nearly."""
    for repeat in (1, 2):
        group = [r for r in records.values() if r["run"]["repeat"] == repeat and r["run"]["epochs"] == 3]
        assert len(group) == len(FRAMEWORKS)
        for record in group[1:]:
            assert record["step_losses"] == pytest.approx(group[0]["step_losses"], rel=1e-4)
            assert record["step_losses"][0] == pytest.approx(group[0]["step_losses"][0], rel=1e-6)


def test_a_diverging_run_is_a_result(records):
    diverging = [record for record in records.values() if record["run"]["experiment"] == "diverging"]
    assert [record["status"] for record in diverging] == ["diverged", "diverged"]
    for record in diverging:
        assert record["diverged"]["kind"] in ("nan", "inf")
        assert record["diverged"]["step"] == 1
        assert isinstance(record["result"]["test_loss"], str)


def _field(record, name):
    value = record["result"][name]
    return decode_loss(value)


def _expected(statistic, field, runs, records):
    """The value that a figure of the report must have, computed anew from the records."""
    if field == "step_losses":
        pairs = list(zip(runs[::2], runs[1::2], strict=True))
        losses = [[records[run]["step_losses"] for run in pair] for pair in pairs]
        worst = [
            max(abs(a - b) / max(abs(a), abs(b)) for a, b in zip(first, second, strict=True))
            for first, second in losses
        ]
        of_pairs = {"pairs": len(pairs), "steps": max(len(first) for first, _ in losses)}
        return of_pairs.get(statistic) or {"median": statistics.median, "largest": max}[statistic](worst)
    values = [_field(records[run], field) for run in runs if statistic == "value" or records[run]["status"] == "ok"]
    return {"median": statistics.median, "min": min, "max": max, "value": lambda found: found[0]}[statistic](values)


def test_every_figure_of_the_report_comes_from_records(page, records):
    figures = Figures(page)
    assert figures.bare == []
    with_value = [cell for cell in figures.shown if "data-value" in cell]
    # 6 settings x 5 metrics x (median, min, max) at the least, 14 runs x 5, 3 pairs x 4
    assert len(with_value) >= 6 * 5 * 3 + 12 * 5 + 3 * 4
    for cell in with_value:
        expected = _expected(cell["data-statistic"], cell["data-field"], cell["data-runs"].split(), records)
        assert float(cell["data-value"]) == pytest.approx(expected, rel=1e-12), cell


def test_report_names_each_record_with_its_hash(page, tiny):
    for path in sorted((tiny.results / "runs").rglob("record.json")):
        assert str(path.relative_to(tiny.folder)) in page
        assert hashlib.sha256(path.read_bytes()).hexdigest() in page


def test_report_works_offline_and_escapes(page, tiny):
    figures = Figures(page)
    assert figures.loaded
    assert all(address.startswith("data:") for address in figures.loaded)
    assert "<script" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    for link in figures.links:
        target = link[1:] in figures.ids if link.startswith("#") else (tiny.results / "report" / link).exists()
        assert target, link
    assert "Small &amp; &lt;fast&gt;." in page
    named = [name for name in figures.ids if name]
    assert len(named) == len(set(named))


def test_diverged_runs_are_shown_as_such(page, tiny):
    assert "14 runs: 12 ok, 2 diverged" in page
    assert len(re.findall(r'class="warning"', page)) == 2
    rows = list(csv.DictReader((tiny.results / "tables" / "summary.csv").open()))
    diverging = [row for row in rows if row["experiment"] == "diverging"]
    assert {row["test_loss_median"] for row in diverging} == {"diverged"}
    assert {row["diverged"] for row in diverging} == {"1"}
    assert "diverged" in (tiny.results / "tables" / "summary.txt").read_text()


def test_summary_has_no_blank_cell(tiny):
    rows = list(csv.DictReader((tiny.results / "tables" / "summary.csv").open()))
    assert len(rows) == 6 + 2
    assert all(value != "" for row in rows for value in row.values())


def test_figures_are_in_three_formats(tiny):
    folders = [tiny.results / "figures" / name / "mnist-mlp-flux" / "digits" for name in TINY["experiments"]]
    for folder in folders:
        for name in ("curves", "training_time"):
            assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
            assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert ElementTree.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")


def test_person_sees_each_run_and_the_results(tiny):
    printed = tiny.process.printed
    for i in range(1, RUNS + 1):
        assert len(re.findall(rf"^run {i} of {RUNS}: .*training \d epochs?$", printed, re.M)) == 1
    assert len(re.findall(r"test accuracy 0\.\d+, [\d.]+ s of training", printed)) == 12
    assert "diverged: loss is" in printed
    assert (tiny.results / "tables" / "summary.txt").read_text().strip() in printed
    assert str(tiny.results / "report" / "index.html") in printed
    assert "Traceback" not in printed
    assert "\r" not in printed  # a progress bar falls silent where nobody watches


def test_no_secret_is_written_or_printed(tiny):
    """The mirror's key stays in the config file that the user wrote."""
    assert SECRET not in tiny.process.printed
    holding = [path for path in tiny.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert [path.name for path in holding] == ["experiment.yaml"]


def test_second_call_finds_nothing_to_do(tiny):
    again = snakemake(tiny.folder, "--cores", "2", "--configfile", "experiment.yaml")
    assert again.returncode == 0
    assert "Nothing to be done" in again.printed


def test_snakemakes_own_report_works(tiny):
    made = snakemake(tiny.folder, "--configfile", "experiment.yaml", "--report", "own.html")
    assert made.returncode == 0, made.printed[-3000:]
    text = (tiny.folder / "own.html").read_text()
    assert "training_time" in text
    assert "Datasets" in text


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_two_runs_of_one_setting_are_equal_to_the_last_bit(tiny, framework, tmp_path):
    """Trained once more by the command a person would type, with dropout."""
    data = tiny.results / "datasets" / "digits"
    curves = []
    for name in ("first", "second"):
        out = tmp_path / f"{name}.json"
        command = [sys.executable, str(REPOSITORY / "workflow/scripts/train.py"), "--experiment", "e", "--recipe"]
        command += ["mnist-mlp-keras", "--dataset", "digits", "--dataset-folder", str(data / "prepared")]
        command += ["--mean", str(data / "mean.npy"), "--framework", framework, "--device", "cpu", "--epochs", "2"]
        command += ["--repeat", "1", "--threads", "2", "--out", str(out), "--log", str(tmp_path / "log")]
        subprocess.run(command, check=True, capture_output=True, env=environment())
        record = read_record(out)
        for entry in record["curves"]:
            entry.pop("seconds")
        curves.append((record["curves"], record["step_losses"]))
    assert curves[0] == curves[1]
