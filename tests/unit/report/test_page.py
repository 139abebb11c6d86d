"""The report: every number comes from records, no cell is blank, and censored or disturbed runs are named."""

import copy
import re

import pytest
from records_for_tests import SCORED_TEXTS, diverged, record, retimed, streamed, with_peak, written_tables
from report_figures import COMPARISON, check_figures
from report_page import KEY, MEASURED, Page, experiment

from trainmark.records.result import result
from trainmark.report.cells import NO_RATIO
from trainmark.report.page import machines
from trainmark.report.tables import energy_gaps


def check_page(page):
    """The cells with a figure; each is computed anew from the records."""
    return check_figures(page.text, page.records, page.certificates)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    parities = {("a on cpu", "a on gpu"): "single", ("a on gpu", "b on gpu"): "different"}
    return Page(tmp_path_factory.mktemp("page"), *experiment(), parities=parities, drawn=True)


def test_every_number_comes_from_records(page):
    shown = check_page(page)
    assert {cell["data-statistic"] for cell in shown} >= {"median", "min", "max", "value", "difference", *COMPARISON}
    fields = {cell["data-field"] for cell in shown}
    assert fields >= {"training_seconds", "samples_per_second", "training_joules", "peak_device_mib", "phases.start"}
    assert {"step_losses", "wall_seconds", "resumes"} <= fields
    verdicts = {cell["data-value"] for cell in shown if cell["data-statistic"] == "verdict"}
    assert verdicts == {"slower", "not distinguishable", "no pair", "refused: different"}


def test_each_comparison_and_each_pair_has_its_parity_class(page):
    """Four trainers have six pairs; the other experiment has one."""
    rows = re.findall(
        r"<td>(\w+)<(?:details><summary>reason</summary>|br><span[^>]*>)they are &lt;(\w+)&gt;<", page.text
    )
    assert all(reason == shown for reason, shown in rows)
    assert {shown for _, shown in rows} == {"rounding", "single", "different"}
    assert len(re.findall(r"<tr[^>]*>(<th[^>]*>[^<]*</th>){2}<td>(rounding|single|different)<", page.text)) == 6 + 1
    assert f"../certificates/e/mnist-mlp-flux/digits/{KEY}.json" in page.figures.links


def test_censored_runs_are_counted_below_the_title_and_the_list_of_runs_says_why(page):
    assert "33 runs. Every number is" in page.words and "3 diverged 1 out of memory 0 missing" in page.words
    assert "out of memory (warm up)" in page.words and "In epoch 1: 601 MiB" in page.words
    assert "diverged (inf, step 1)" in page.words


def no_number_in(page):
    """Whether a missing number was written where a word belongs."""
    return re.search(r"\b(nan|None|NaN)\b", re.sub(r"\(nan,|loss is nan|NaN or", "", page.words))


def test_a_cell_without_a_number_has_a_word(page):
    cells = re.findall(r'<td class="figure absent"[^>]*>([^<]*)</td>', page.text)
    assert {"diverged", "out of memory", "not measured", NO_RATIO} <= set(cells)
    assert ">no pair</span>" in page.text, "the verdict says why there is no ratio"
    assert not re.search(r"<t[dh][^>]*>\s*</t[dh]>", page.text)
    assert not no_number_in(page)


def test_columns_and_figures_without_any_measurement_are_left_out(page):
    assert "Energy of the training by" in page.words and "Training time until the target" not in page.words
    first, second = re.findall(r"<section id=\"section-\d\".*?</section>", page.text, re.DOTALL)
    assert "energy of training, J" in first and "energy of training, J" not in second and "train loss" not in page.text


def row_of(page, number):
    """The HTML of a run's row in the list of runs."""
    row = page.text[page.text.index(f'<tr id="run-{number}"') :]
    return row[: row.index("</details>\n")]


def test_run_numbers_are_positions_in_the_order_of_training(page):
    numbers = [int(name.removeprefix("run-")) for name in page.figures.ids if (name or "").startswith("run-")]
    assert numbers == list(range(1, 34))
    assert all(one["run"]["id"] in row_of(page, number) for number, one in page.records.items())


def test_a_resumed_run_says_how_often_and_where(page):
    row = row_of(page, page.number(repeat=8))
    assert re.search(r"resumed <span [^>]*>2</span> times", row)
    assert "It was resumed on different hardware or settings (h, 2 CPUs of Processor and &lt;g&gt;, 2 CPUs" in row
    assert page.text.count("resumed <span") == 1


def test_page_works_offline_and_escapes(page):
    assert page.figures.loaded
    assert all(address.startswith("data:") for address in page.figures.loaded)
    assert page.text.count("<script") == 1 and "<script src" not in page.text
    assert not re.search(r"url\((?!#)|@import|https?://[^<]*\.js", page.text)
    assert {link[1:] for link in page.figures.links if link.startswith("#")} <= set(page.figures.ids)
    assert "Small &amp; &lt;fast&gt;." in page.text
    named = [name for name in page.figures.ids if name]
    assert len(named) == len(set(named))


def test_settings_are_listed_as_in_the_config_and_link_to_the_network(page):
    """A new setting is therefore in the report without further work; one that is null is left out.

    Both experiments train the same network, which is shown once: with its table, and above.
    """
    assert page.words.count("memory_limit_mib 600") == 1 and "memory_limit_mib None" not in page.words
    assert page.words.count("architecture mlp-32, 25,450 parameters") == 2
    assert (page.figures.links.count("#model-1"), page.figures.ids.count("model-1")) == (2, 1)
    assert page.words.count("mnist-mlp-flux: mlp-32, input 1 x 28 x 28, 10 classes") == 2


def test_sample_reviews_have_a_table_of_scores(tmp_path):
    """Medians over repeats, traceable like every number; a missing score has its reason."""
    on_texts = {"inputs.recipe.input": None, "scored_texts": SCORED_TEXTS}
    scores = enumerate((0.75, 0.9, 0.8125), start=1)
    scored = [record("a", repeat, changes=on_texts | {"scored_texts.1.probability": score}) for repeat, score in scores]
    broken = diverged("b", 1, changes=on_texts | {"scored_texts.0.probability": "NaN"})
    third = SCORED_TEXTS[1] | {"index": 7, "label": 2, "class_name": "mixed"}
    of_three = record("a", 1, experiment="f", changes={"scored_texts": [*SCORED_TEXTS, third]})
    page = Page(tmp_path, *copy.deepcopy(scored), broken, of_three, record("a", 1, experiment="g"))
    shown = [cell for cell in check_page(page) if cell["data-field"].startswith("scored_texts.")]
    figures = {(cell["data-field"], cell["data-statistic"]): cell["data-value"] for cell in shown[:6]}
    assert [figures["scored_texts.test.12500", of] for of in ("median", "min", "max")] == ["0.8125", "0.75", "0.9"]
    assert page.words.count("Sample reviews") == 2, "none on images alone"
    assert "gives to its being positive" in page.words and "gives to its own class" in page.words
    assert "negative (test text 0) positive (test text 12500)" in page.words and not no_number_in(page)


def test_both_loops_of_a_framework_are_told_apart_throughout_the_page(tmp_path):
    target = {"settings.target_accuracy": 0.5}
    records = [record("a", repeat, loop=loop, changes=target) for repeat in range(1, 8) for loop in ("stock", "tuned")]
    both = Page(tmp_path, *records, diverged("a", 8, loop="tuned"))
    check_page(both)
    assert both.summary["title"] == "a on cpu, stock and tuned"
    assert "a tuned on cpu takes" in both.summary["answers"][0]["sentence"]
    assert "stock loop, the way in which its own documentation trains and its tuned loop, the fastest" in both.words
    assert both.text.count('<th scope="col">loop</th>') == 4, "medians, phases, time to accuracy, and runs"
    run = re.search(rf'<tr id="run-{both.number(repeat=8)}">.*', both.text)[0]
    assert "<td>a<td>cpu<td>tuned<td>2<td>8<td>" in run


def test_runs_that_waited_for_data_have_a_warning_a_mark_and_no_verdict(tmp_path):
    """What the loader did is a number like any other; inputs in memory have none."""
    settings = {
        "settings.loader": {"iterator": "thread", "jobs": None, "store": "files"},
        "settings.input.random_crop": True, "settings.input.random_flip": True, "settings.input.crop": [24, 24],
    }  # fmt: skip
    waited = [
        streamed(record(name, repeat, seconds=1 + repeat / 100, changes=settings), waiting=share, evaluation_steps=8)
        for repeat in range(1, 7)
        for name, share in (("a", 0.625), ("b", 0.0))
    ]
    in_memory = [record(name, repeat, experiment="f") for repeat in range(1, 7) for name in "ab"]
    page = Page(tmp_path, *waited, *in_memory)
    shown = check_page(page)
    first, second = re.findall(r"<section id=\"section-\d\".*?</section>", page.text, re.DOTALL)
    assert first.count('<p class="warning">Waited for data: a on cpu for 62 % of the time (runs ') == 1
    assert first.count("6 of 6 waited for data") == 2, "medians and phases"
    assert "Waited for data" not in second and "waiting for data" not in second
    assert "waiting for data" in first and "test top-5 accuracy" in first
    assert {cell["data-value"] for cell in shown if cell["data-field"] == "waiting_share"} == {"0.625", "0.0"}
    verdicts = {cell["data-value"] for cell in shown if cell["data-statistic"] == "verdict"}
    assert verdicts == {"withheld: waited for data (62 % and 0 % of the time)", "not distinguishable"}
    assert page.words.count("It waited for data for 62 % of its steady epochs") == 6
    assert "random_crop: True, random_flip: True" in page.words and "iterator: thread, store: files" in page.words


def slow_start(made):
    """The record of a run whose first epoch took 3 s."""
    made["curves"][0]["seconds"] = made["phases_seconds"]["warm_up"] = 3.0
    made["result"] = result(made["curves"], 0.5, 1438)
    return retimed(made)


def test_further_questions_have_small_tables_whose_numbers_come_from_records(tmp_path):
    """With a target and dropout, also loss, accuracy and time to accuracy are compared."""
    changes = {"network.dropout": True, "settings.target_accuracy": 0.75}
    records = [
        record(name, i, epochs=4, seconds=most + i / 100, loss=most + i / 1000, changes=changes)
        for i in range(1, 8)
        for name, most in (("a", 0.5), ("b", 0.3))
    ]
    page = Page(tmp_path, *records[::2], *map(slow_start, records[1::2]))
    shown = check_page(page)
    statistics = {cell["data-statistic"] for cell in shown}
    names = ("break_even", "median_time_to_accuracy")
    assert statistics >= {"reached", *(f"{name}{end}" for name in names for end in ("", "_low", "_high"))}
    compared = {(cell["data-field"], cell["data-value"]) for cell in shown if cell["data-statistic"] == "verdict"}
    assert {("test_loss", "lower"), ("training_seconds", "slower"), ("target_seconds", "slower")} <= compared
    assert "Break-even The number" in page.words and "Time to accuracy Training" in page.words


def test_the_share_of_the_peak_has_a_small_table_whose_numbers_come_from_records(tmp_path):
    """The machine's peak is that of any run."""
    records = [with_peak(record(name, epochs=n), p) for name, p in (("a", 1e11), ("b", 2e11)) for n in (1, 2)]
    page = Page(tmp_path, *records)
    shown = check_page(page)
    medians = [cell for cell in shown if cell["data-statistic"] == "median"]
    shares = [float(cell["data-value"]) for cell in medians if cell["data-field"] == "machine_peak_share"]
    assert shares == pytest.approx([1438e6 / 0.25 / 2e11] * 4)
    assert "a cpu 1 5.75 5.75 to 5.75 100 100 to 100 25.0" in page.words
    assert "share of the machine's peak" not in Page(tmp_path / "without", record("a"), record("b")).words


def test_claims_have_a_section_with_their_status_and_reason(tmp_path):
    claims = [
        {"says": f"All pairs of {name} are <certified>.", "pairs": "certified", "where": {"experiment": name}}
        for name in "ez"
    ]
    page = Page(tmp_path, record("a"), record("b"), claims=claims)
    assert "2 claims holds : All pairs of e are &lt;certified&gt;. (1 of 1 pair certified) wrong : All" in page.words
    assert 'id="claims"' not in Page(tmp_path / "none", record("a"), record("b")).text


# --- energy -------------------------------------------------------------------------------------------------------


def test_energy_that_was_not_measured_is_named(tmp_path):
    measured, others = record("a", 1, changes=MEASURED), [record("a", 2), record("a", 3)]
    reason = "not measured (this machine has no energy counter)"
    assert energy_gaps(written_tables(tmp_path, measured, *others)[1]) == [f"Energy of runs 2-3: {reason}."]
    assert energy_gaps(written_tables(tmp_path / "none", *others)[1]) == [f"Energy: {reason}."]
    assert energy_gaps(written_tables(tmp_path / "all", measured)[1]) == []


# --- machines -----------------------------------------------------------------------------------------------------


def test_runs_of_one_machine_and_framework_are_one_row_with_all_their_jobs_and_cpus(tmp_path):
    def job(repeat, job_id, cpus):
        changes = {"sessions.0.cpus": cpus, "provenance.threads": len(cpus)}
        return record("a", repeat, changes=changes | {"provenance.scheduler": {"name": "slurm", "job_id": job_id}})

    _, runs = written_tables(tmp_path, job(1, "7", [2, 3]), job(2, "8", [0, 1]), job(3, "7", [0, 1]), record("b"))
    rows = [tuple(row[key] for key in ("framework", "runs", "cpus", "jobs")) for row in machines(runs)]
    assert rows == [("a", "1 2 3", "0-1 or 2-3", "slurm 7, 8"), ("b", "4", "0-1", "")]


def test_machines_name_the_code_and_whether_it_was_committed(tmp_path):
    changes = {"provenance.git_commit": "0123456789abcdef", "provenance.git_clean": False}
    page = Page(tmp_path, record("a", changes=changes), record("b"))
    for text in ("commit 0123456789ab with uncommitted changes", "outside git"):
        assert f"trainmark 0.1.0, {text} digest {'c' * 16}" in page.words
