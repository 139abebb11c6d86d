"""The summary in the terminal at the end of a workflow."""

import pytest
from records_for_tests import ON_ONE_CPU, certificates_of, disturbed, out_of_memory, record, streamed, written_tables

from trainmark.report.collected import made
from trainmark.report.terminal import terminal_text
from trainmark.tables.curves import curves_table
from trainmark.tables.formatting import DISTURBED_NOTE
from trainmark.tables.remarks import TRAIN_AGAIN


@pytest.fixture
def printed(tmp_path):
    """A function that gives the text of these records."""

    def text_of(*records, parities=None, claims=()):
        by_path, runs = written_tables(tmp_path, *records)
        config = {"experiments": {}, "prices": {}, "claims": claims}
        plan = {"config": config, "order": list(runs["id"]), "missing": {}}
        return terminal_text(made(tmp_path, plan, by_path, curves_table(by_path), certificates_of(runs, parities)))

    return text_of


def test_claims_come_last(printed):
    text = printed(record("a"), record("b"), claims=[{"says": "Both train the same.", "pairs": "certified"}])
    assert text.endswith("\n\nClaims:\n  holds: Both train the same. (1 of 1 pair certified)\n")


def test_the_loop_is_a_column_if_a_run_was_tuned(printed):
    assert "loop" not in printed(record("a"), record("b"))
    text = printed(record("a", seconds=1.0), record("a", seconds=2.0, loop="tuned"))
    rows = [line.split()[:4] for line in text.splitlines() if line.startswith(("framework", "a "))]
    assert rows == [["framework", "device", "loop", "epochs"], ["a", "cpu", "stock", "2"], ["a", "cpu", "tuned", "2"]]
    assert "a on cpu and a tuned on cpu: " in text


def test_runs_without_a_number_are_counted_and_have_words_in_its_place(printed):
    text = printed(record("a", 1), out_of_memory("a", 2), out_of_memory("b", 1))
    assert "1 of 2 out of memory" in text
    (row,) = [line for line in text.splitlines() if line.startswith("b ")]
    assert row.count("out of memory") == 1 + 3, "of its runs, and in place of each figure"
    assert "nan" not in text


def test_few_repeats_have_one_line_and_no_verdict(printed):
    text = printed(record("a"), record("b"), record("c"))
    assert "Faster or slower? 1 repeat: too few for a verdict (6 needed)" in text
    assert "against" not in text


def test_verdicts_are_those_of_all_numbers_of_epochs(printed):
    records = [
        record(name, repeat, epochs=epochs, seconds=seconds)
        for repeat in range(1, 7)
        for epochs in (2, 40)
        for name, seconds in (("a", 1.0), ("b", 2.0))
    ]
    _, _, ratios = printed(*records).partition("Ratios of training time, each with its 95 % interval")
    assert [" ".join(line.split()) for line in ratios.splitlines()[1:]] == [
        "b on cpu against a on cpu 2 epochs 1.80 (1.80 to 1.80) slower",
        "b on cpu against a on cpu 40 epochs 1.99 (1.99 to 1.99) slower",
    ]


def test_accuracies_have_verdicts_too_where_dropout_masks_differ(printed):
    records = [record(name, repeat, changes={"network.dropout": True}) for repeat in range(1, 7) for name in "ab"]
    text = printed(*records)
    assert text[text.index("Ratios of test accuracy") :].endswith("not distinguishable (equal in all pairs)\n")


def test_each_pair_has_the_line_of_its_certificate(printed):
    text = printed(record("a"), record("b"), record("c", experiment="f"))
    lines = text[text.index("Parity check (float64), per pair of trainers:") :].splitlines()
    assert lines[1] == "  a on cpu and b on cpu: they are <rounding>"
    assert text.count("Parity check (float64), per pair of trainers:") == 1, "one trainer is no pair"


def test_disturbed_runs_are_named_once_for_all_sections_and_their_medians_marked_with_a_note(printed):
    hit = disturbed(foreign_seconds=1.0)
    of_both = [record(name, experiment=one, changes=hit) for one in "ef" for name in "ab"]
    text = printed(*of_both, record("a", experiment="g"))
    assert text.count("Disturbed: runs 1-4") == text.count(TRAIN_AGAIN) == 1
    assert text.index("Disturbed: runs 1-4") > text.index("g: mnist-mlp-flux")
    assert text.count("*\n") == 0 and text.count("1.00*") == 4 and text.count(DISTURBED_NOTE) == 2


def test_runs_that_waited_for_data_or_differ_in_code_and_machine_are_named(printed):
    other = {"provenance.code": {"sha256": "f" * 16, "shared": "f" * 16}, **ON_ONE_CPU}
    text = printed(streamed(record("a", 1), waiting=0.5), record("a", 2, changes=other))
    for part in ("Waited for data: a on cpu", "1 of 2 waited for data", "Different code trained", "different machines"):
        assert part in text, part
