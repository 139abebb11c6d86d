"""The first screen and results/summary.json: numbers are computed anew from the records; warnings say what to do."""

import html
import json
import re
from collections import Counter

import pandas as pd
import pytest
from fabricated_campaigns import MANIFEST
from records_for_tests import changed, compiling, disturbed, diverged, out_of_memory, record, retimed, session, streamed
from report_figures import Figures, check_figures, expected
from report_page import Page, experiment

from trainmark.config.load import load_config
from trainmark.plan.jobs import PLANNED_KEYS
from trainmark.plan.matrix import expand_runs, with_devices
from trainmark.report.first_screen import _title
from trainmark.report.page import config_to_reproduce
from trainmark.trainer import Trainer

GPU = {"name": "G", "uuid": "GPU-1", "driver_version": "1", "memory_mib": 1024}


def first_screen(page):
    """The HTML of the first screen."""
    return re.search(r'<section id="first".*?</section>', page.text, re.DOTALL).group()


def words_of(text):
    """The text of HTML."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text)))


def crossing():
    """Records of 7 repeats: at 20 epochs b is faster than a, at 5 epochs slower, at 2 and 3 epochs equal."""
    ratios = {20: 0.7, 5: 1.3, 3: 1.0, 2: 1.0}
    for repeat in range(1, 8):
        for epochs, ratio in ratios.items():
            noise = (-1) ** repeat * repeat / 1000
            yield record("a", repeat, epochs=epochs, seconds=0.5)
            yield record("b", repeat, epochs=epochs, seconds=0.5 * ratio + noise)


def turning():
    """Records of 7 repeats: b compiles for 5 s more, its epochs take 0.5 s less: it is faster from 10 epochs on."""
    for repeat in range(1, 8):
        for epochs in (2, 20):
            noise = 1 + (-1) ** repeat * repeat / 1000
            yield record("a", repeat, epochs=epochs, seconds=1.0)
            yield compiling(record("b", repeat, epochs=epochs, seconds=0.5 * noise), 5.0)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of several kinds of records."""
    return {
        "mixed": Page(tmp_path_factory.mktemp("mixed"), *experiment()),
        "crossing": Page(tmp_path_factory.mktemp("crossing"), *crossing()),
        "turning": Page(tmp_path_factory.mktemp("turning"), *turning()),
        "one": Page(tmp_path_factory.mktemp("one"), record("a", 1)),
    }


@pytest.fixture(params=["mixed", "crossing", "turning", "one"])
def any_page(request, pages):
    return pages[request.param]


def test_every_number_of_the_summary_comes_from_the_records(any_page):
    """By the code of report_figures.py, which shares none with the report's but for the interval."""
    records, summary = any_page.records, any_page.summary
    statuses = Counter(one["status"] for one in records.values())
    censored = {status: statuses[status] for status in ("ok", "diverged", "out_of_memory")}
    assert summary["runs"] == {"runs": len(records), "missing": 0} | censored
    for told in (one["provenance"] for one in records.values()):
        machine = f"{told['host']} ({told['cpu_model']}, {told['threads']} threads for each run)"
        assert machine in summary["machine"] and told["started"][:10] in summary["machine"]
    for section in summary["compared"]:
        own = [one["run"] for one in records.values() if one["run"]["experiment"] == section["experiment"]]
        assert section["epochs"] == sorted({run["epochs"] for run in own})
        assert section["repeats"] == len({run["repeat"] for run in own})
        assert set(section["frameworks"]) == {run["framework"] for run in own}
        assert set(section["devices"]) == {run["device"] for run in own}
    for row in (row for answer in summary["answers"] for row in answer["comparisons"]):
        runs = [str(number) for number in row["runs"]]
        assert {records[run]["run"]["epochs"] for run in runs} == ({row["epochs"]} if row["pairs"] else set())
        for statistic in ("pairs", "ratio", "low", "high"):
            wanted = expected(statistic, "training_seconds", runs, records, any_page.certificates)
            near = wanted if wanted is None else pytest.approx(wanted, rel=1e-12)
            assert row[statistic] == near, (row, statistic)


def test_the_first_screen_says_what_the_summary_says(any_page):
    """The numbers of its sentences are elements whose values come from the records, too."""
    screen, summary = first_screen(any_page), any_page.summary
    words = words_of(screen)
    for sentence in [one["sentence"] for one in (*summary["answers"], *summary["compared"][:3])] + [summary["machine"]]:
        assert sentence in words
    for warning in summary["warnings"]:
        assert f"{warning['what']} {warning['what_to_do']}" in words
    shown = check_figures(screen, any_page.records, any_page.certificates)
    assert bool(shown) == bool(summary["answers"]) and (summary["no_answer"] or "") in words
    assert set(Figures(screen).links) <= {"#section-1", "#section-2"}


def test_opposite_verdicts_are_one_sentence(pages):
    (answer,) = pages["crossing"].summary["answers"]
    parts = r"at 20 epochs \(.* faster\), 1\.\d* times at 5 epochs \(.* slower\) and .* at 3 epochs \(.*, as at 2\)\.$"
    assert re.search(rf"b on cpu takes 0\.7\d* times .* of a on cpu {parts}", answer["sentence"])


def test_the_answer_tells_from_how_many_epochs_on_a_trainer_is_faster(pages):
    (answer,) = pages["turning"].summary["answers"]
    assert re.search(r"; b on cpu is faster from (9\.9\d|10\.0) epochs on \(9\.\d+ to 10\.\d\)\.$", answer["sentence"])


def test_several_sections_have_one_answer_each_that_names_its_experiment(pages):
    first, second = pages["mixed"].summary["answers"]
    assert re.match("e: .*, a on cpu takes the least time of 4 trainers: a on gpu, the next, ", first["sentence"])
    assert re.match("f: .* are not ranked; no verdict: no pair .1 diverged or out of memory.", second["sentence"])


def test_an_answer_says_how_many_pairs_are_within_bounds(tmp_path):
    slow = disturbed(foreign_seconds=0.12)
    records = [
        record(name, repeat, seconds=seconds, changes=slow)
        for name, seconds in (("a", 1.0), ("b", 2.0))
        for repeat in range(1, 7)
    ]
    (answer,) = Page(tmp_path, *records).summary["answers"]
    assert ": slower; 6 of 6 pairs within bounds)" in answer["sentence"]
    assert [row["bounded"] for row in answer["comparisons"]] == [6]


def test_a_ratio_without_a_verdict_is_no_answer(tmp_path):
    """What is known comes first; then what is not, and why, once."""
    slow = disturbed(foreign_seconds=1.0)
    records = [
        one if (one["run"]["epochs"], one["run"]["repeat"]) not in ((20, 1), (20, 2)) else retimed(changed(one, slow))
        for one in crossing()
    ]
    (answer,) = Page(tmp_path, *records).summary["answers"]
    known, *others = answer["sentence"].split("; ")
    assert "20 epochs" not in known and "times the training time of a on cpu at 5 epochs" in known
    assert others == ["no verdict at 20 epochs: 2 of 7 pairs disturbed (foreign load)."]


def three(first=1.0):
    """Records of 6 repeats of three trainers, of which b is twice and c three times as fast as a."""
    for repeat in range(1, 7):
        for name, speed in (("a", first), ("b", 2.0), ("c", 3.0)):
            yield record(name, repeat, seconds=(1 + repeat / 500) / speed) if speed else out_of_memory(name, repeat)


def test_a_baseline_without_a_run_that_is_ok_is_replaced_by_the_next_trainer(tmp_path):
    page = Page(tmp_path, *three(first=None))
    (standing,) = page.summary["standings"]
    assert standing["baseline"] == "b on cpu"
    assert [one["trainer"] for one in standing["trainers"]] == ["c on cpu", "b on cpu", "a on cpu"]
    assert page.summary["answers"][0]["sentence"].startswith("On digits (mnist-mlp-flux), c on cpu takes 0.")


THROTTLED = GPU | {"at_end": {"throttle_reasons": ["hw_thermal_slowdown"]}}

WARNED = {
    "diverged": diverged("a", 1),
    "out of memory": out_of_memory("a", 2),
    "disturbed": record("a", 3, changes=disturbed(foreign_seconds=1.0)),
    "throttled GPU": record("a", 4, "gpu", changes={"provenance.gpu": THROTTLED}),
    "library settings": record("a", 5, changes={"sessions.0.settings": {"DNNL_MAX_CPU_ISA": "SSE41"}}),
    "waited for data": streamed(record("a", 6), waiting=0.5),
    "resumed elsewhere": record("a", 7, changes={"resumes": 1, "sessions": [session("h"), session("g")]}),
}
"""Records that have a warning on their run, by its kind."""


def test_runs_with_a_problem_are_named_with_what_to_do(tmp_path):
    idle = GPU | {"at_end": {"throttle_reasons": ["applications_clocks_setting", "gpu_idle"]}}
    page = Page(tmp_path, *WARNED.values(), record("a", 8, "gpu", changes={"provenance.gpu": idle}))
    warned = [one for one in page.summary["warnings"] if one["runs"]]
    assert [one["kind"] for one in warned] == list(WARNED)
    for warning, one in zip(warned, WARNED.values(), strict=True):
        assert warning["runs"] == [int(page.number(repeat=one["run"]["repeat"]))]
        assert warning["what"].startswith(f"Run {warning['runs'][0]}: {warning['kind']}") and warning["what_to_do"]


def test_differences_between_runs_have_a_warning(tmp_path):
    other = {
        "provenance.code": {"sha256": "f" * 16, "shared": "f" * 16},
        "provenance.cpu_model": "Other",
        "provenance.versions": {"a": "2.0"},
        "sessions.0.call": "2025-01-02T00:00:00+00:00",
    }
    records = record("a", 1), record("a", 2, changes=other), record("b", 1)
    different = {("a on cpu", "b on cpu"): "different"}
    page = Page(tmp_path, *records, parities=different, missing={"e/x": "training failed"})
    kinds = [warning["kind"] for warning in page.summary["warnings"]]
    assert kinds == [
        "missing runs", "few repeats", "uncertified pairs", "mixed code", "mixed versions", "mixed machines",
        "several calls", "other code certified", "not evaluated",
    ]  # fmt: skip
    assert "e/x: training failed" in first_screen(page) and page.summary["runs"]["missing"] == 1


def test_kept_runs_of_other_code_have_a_warning(tmp_path):
    codes = {"a-cpu": "c" * 16, "b-cpu": "f" * 16}
    jobs = {f"e/mnist-mlp-flux/digits/{name}": {"code": {"sha256": sha256}} for name, sha256 in codes.items()}
    page = Page(tmp_path, record("a"), record("b"), any_code=True, jobs=jobs)
    (warning,) = [warning for warning in page.summary["warnings"] if warning["kind"] == "other code"]
    assert list(map(str, warning["runs"])) == [page.number(framework="b")]


def test_images_in_both_splits_have_a_warning(tmp_path, monkeypatch):
    monkeypatch.setitem(MANIFEST, "identical", 3)
    page = Page(tmp_path, record("a", 1))
    assert [one["kind"] for one in page.summary["warnings"]] == ["images in both splits"]


def test_many_runs_are_counted_on_the_page_and_listed_in_the_summary(tmp_path):
    records = [diverged("a", repeat) if repeat // 10 % 2 else record("a", repeat) for repeat in range(1, 41)]
    page = Page(tmp_path, *records)
    (warning,) = [one for one in page.summary["warnings"] if one["kind"] == "diverged"]
    assert len(warning["runs"]) == 20
    assert warning["what"].count(",") == 7 and "(20 runs)" in warning["what"]


def test_the_config_to_reproduce_is_a_config_of_the_same_runs():
    recipes = {"recipes": ["mnist-mlp-flux"], "frameworks": ["chainer"], "epochs": [2, 3], "repeats": 2}
    config = with_devices(load_config([], {"experiments": {"e": recipes}, "prepare": ["digits"]})[0], gpu_found=False)
    again, _ = load_config(
        [], json.loads(config_to_reproduce({"config": {key: config[key] for key in PLANNED_KEYS}}, "plan.json"))
    )
    assert expand_runs(again) == expand_runs(config)
    assert again["experiments"] == config["experiments"]


def test_two_builds_in_two_folders_on_two_dates_are_equal(tmp_path, monkeypatch):
    """Byte for byte; neither holds the folder's path."""
    first = Page(tmp_path / "first", *experiment())
    monkeypatch.setattr("time.time", lambda: 2e9)
    second = Page(tmp_path / "another" / "folder", *experiment())
    assert (first.text, first.summary) == (second.text, second.summary)
    assert str(tmp_path) not in first.text


def test_a_title_says_that_its_numbers_are_of_workers():
    runs = pd.DataFrame([Trainer("flax", "cpu", workers=count) for count in (1, 2)]).assign(recipe="r")
    assert _title(runs) == "flax on cpu, 1 and 2 workers"


def test_a_reason_for_no_verdict_is_given_once(tmp_path):
    hit = disturbed(foreign_seconds=1.0)
    page = Page(tmp_path, *(record(name, repeat, changes=hit) for name in "ab" for repeat in range(1, 7)))
    for of_page in re.findall(r"<tr[^>]*>(?:(?!</tr>).)*withheld.*?</tr>", page.text, re.DOTALL):
        assert of_page.count("withheld") - of_page.count('data-value="withheld') == 1
        assert of_page.count("disturbed (foreign load)") - of_page.count('data-value="withheld') == 1
    assert page.summary["answers"][0]["sentence"].count("foreign load") == 1
