"""The first screen of large campaigns: nothing on it contradicts the certificates, and the fastest trainer is named."""

import json
import re
from statistics import median

import pytest
from fabricated_campaigns import CAMPAIGNS, write_campaign
from plot import section_of
from report_figures import check_figures

from trainmark.errors import ConfigError
from trainmark.parity.compare import REFUSED
from trainmark.plan.plan_file import read_plan
from trainmark.records.record import read_record
from trainmark.report.figures.data import read_data
from trainmark.tables.sections import read_results
from trainmark.tables.verdicts import parity_note
from trainmark.trainer import Trainer

GROUP = ("twelve", "mnist-mlp-flux", "digits")


class Written:
    """A fabricated campaign: its folder, its page, the words of the page, and its summary."""

    def __init__(self, name, folder):
        write_campaign(name, folder, drawn=False)
        self.folder = folder
        self.text = (folder / "report" / "index.html").read_text()
        self.first = self.text[self.text.index('class="trust"') : self.text.index('id="section-1"')]
        self.words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", self.text[self.text.index("<body") :]))
        self.summary = json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    return Written("12 trainers", tmp_path_factory.mktemp("twelve"))


@pytest.fixture(scope="module", params=["failures", "variants"])
def small(request, tmp_path_factory):
    return Written(request.param, tmp_path_factory.mktemp("small"))


def test_every_number_of_every_page_comes_from_the_records(twelve, small):
    for page in (twelve, small):
        plan = read_plan(page.folder / "plan.json")
        numbers = {run_id: str(number) for number, run_id in enumerate(plan["order"], start=1)}
        records = {numbers[run_id]: read_record(page.folder / file) for run_id, file in plan["records"].items()}
        certificates = {
            one["file"]: json.loads((page.folder / one["file"]).read_text()) for one in plan["certificates"].values()
        }
        assert len(check_figures(page.first, records, certificates)) > 0


def test_no_pair_stands_under_a_sentence_that_its_certificate_contradicts(twelve):
    """Of three such pairs two differ in more than one part, and one of them is compared with no other number."""
    refused = {pair for pair, parity in CAMPAIGNS["12 trainers"].parities["twelve"].items() if parity in REFUSED}
    assert len(refused) == 3
    parity = read_results(twelve.folder).parity
    assert len(parity) == 12 * 11 / 2
    assert {*zip(parity["first"], parity["second"], strict=True)} >= refused
    assert "63 of 66 pairs certified" in twelve.summary["trust"]
    (warning,) = [one for one in twelve.summary["warnings"] if one["kind"] == "uncertified pairs"]
    note = parity_note(read_data(section_of(GROUP, twelve.folder), twelve.folder).pairs)
    for first, second in refused:
        assert any(line.startswith(f"{first} and {second}: ") for line in warning["details"])
        assert f"{first} and {second}: " in note
    assert "equal up to rounding" not in note
    (answer,) = twelve.summary["answers"]
    assert answer["sentence"].endswith("Not ranked against chainer on cpu: keras-tensorflow tuned on gpu.")


def test_trainers_are_listed_by_their_ratio_and_those_without_a_verdict_come_last(twelve):
    (standing,) = twelve.summary["standings"]
    assert (standing["baseline"], standing["epochs"]) == ("chainer on cpu", 20)
    times: dict = {}
    for file in twelve.folder.glob("runs/twelve/mnist-mlp-flux/digits/*/epochs-20/*/*/record.json"):
        record = read_record(file)
        if not record["disturbed"]:
            times.setdefault(Trainer.of(record["run"]).name, []).append(record["result"]["training_seconds"])
    *ranked, withheld, refused = [one["trainer"] for one in standing["trainers"]]
    assert (withheld, refused) == ("keras-tensorflow on gpu", "keras-tensorflow tuned on gpu")
    assert ranked == sorted(ranked, key=lambda name: median(times[name]))
    words = {one["trainer"]: one["verdict"] for one in standing["trainers"]}
    assert words[withheld] == "withheld: 3 of 8 pairs disturbed (foreign load)" and words[refused] == "not ranked"
    (answer,) = twelve.summary["answers"]
    assert f"{ranked[0]} takes the least time of 10 ranked trainers" in answer["sentence"]


def test_figures_of_a_group_without_runs_are_refused_in_a_sentence(twelve):
    allowed = "twelve mnist-mlp-flux digits, twelve perceptron own_data"
    with pytest.raises(ConfigError, match=rf"has no runs of twelve mnist-mlp-keras digits .*; it has {allowed}$"):
        section_of(("twelve", "mnist-mlp-keras", "digits"), twelve.folder)


def test_a_command_has_its_own_name(twelve):
    assert "keras-tensorflow and perceptron on cpu and gpu" in twelve.summary["title"]
    assert "perceptron on cpu" in twelve.words and not re.search(r"\bcommand +(on )?[cg]pu", twelve.words)


def test_numbers_have_separators(twelve):
    shown = re.sub(r"<script.*|<(svg|pre|code)>.*?</\1>", "", twelve.text, flags=re.DOTALL)
    assert not re.search(r">\d{5,}(\.\d+)?<", shown)


@pytest.mark.slow
def test_many_sections_have_an_overview_and_each_an_answer(tmp_path):
    page = Written("30 experiments", tmp_path)
    assert len(page.summary["standings"]) == len(page.summary["answers"]) == 29, "one has a single trainer"
    rows = re.findall(r'<th scope="row"><a href="#section-\d+">(\w+): ', page.first)
    assert rows == [f"e{number:02}" for number in range(1, 31)]
    assert all(one["sentence"].startswith(f"{one['experiment']}: on digits") for one in page.summary["answers"])
    assert page.text.count('<details class="whole">') == 30
