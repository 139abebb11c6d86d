"""Pairs that a verdict leaves out, verdicts that are withheld, and the notes that a verdict carries."""

import pytest
from records_for_tests import ON_ONE_CPU, compared, disturbed, record

from trainmark.tables.verdicts import verdict_notes

FOREIGN = {"foreign_seconds": 0.94}
STOPPED = {"stopped_seconds": 0.3}


@pytest.fixture
def row_of(runs_of):
    """A function that compares the epochs of two trainers, of 1 s and 1.1 s; changes: by (name, repeat)."""

    def compare(repeats, changes):
        records = [
            record(name, repeat, seconds=seconds, changes=changes.get((name, repeat)))
            for repeat in range(1, repeats + 1)
            for name, seconds in (("a", 1.0), ("b", 1.1))
        ]
        (row,) = compared(runs_of(*records), "steady_epoch_seconds")
        return row

    return compare


def test_pairs_of_disturbed_runs_are_left_out_and_named_by_their_cause(row_of):
    row = row_of(8, {("b", 2): disturbed(**FOREIGN), ("a", 5): disturbed(**FOREIGN, **STOPPED)})
    assert (row["runs"], row["left_out"], row["verdict"]) == (6, 2, "slower")
    assert row["left_out_reasons"] == "1 disturbed (foreign load); 1 disturbed (foreign load, stopped)"
    assert row["left_out_run_numbers"] == "3 4 9 10"


def test_a_verdict_is_withheld_where_too_few_undisturbed_pairs_remain(row_of):
    row = row_of(8, {("b", repeat): disturbed(**FOREIGN) for repeat in (1, 2, 3)})
    assert row["verdict"] == "withheld: 3 of 8 pairs disturbed (foreign load)"
    assert (row["value"], row["low"]) == (pytest.approx(1.1), None)


@pytest.mark.parametrize(
    ("which", "verdict"),
    [([2], "too few pairs (2, needs 6)"), ([1, 2, 3], "withheld: 3 of 3 pairs disturbed (foreign load)")],
)
def test_few_repeats_are_too_few_unless_all_are_disturbed(row_of, which, verdict):
    assert row_of(3, {("b", repeat): disturbed(**FOREIGN) for repeat in which})["verdict"] == verdict


# --- calls and machines -------------------------------------------------------------------------------------------

LATER = {
    "sessions.0.call": "2025-01-02T00:00:00+00:00",
    "provenance.started": "2025-01-02T01:00:00+00:00",
    "provenance.load_1min": 2.25,
}


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        (LATER, "in 1 of 6 pairs the runs were trained in different calls of snakemake"),
        ({"provenance.host": "other"}, "in 1 of 6 pairs the runs were trained on different hosts"),
        (
            {"provenance.environment.packages_sha256": "1" * 64},
            "in 1 of 6 pairs the runs have different packages; the repeats of one trainer have 2 different sets of "
            "packages",
        ),
    ],
)
def test_a_verdict_has_a_note_on_what_the_runs_of_its_pairs_do_not_share(row_of, changes, note):
    row = row_of(6, {("b", 3): changes})
    assert (row["verdict"], verdict_notes(row)) == ("slower", [note])


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        (ON_ONE_CPU, "withheld: numbers of CPUs differ in 1 of 6 pairs (1 and 2)"),
        (
            {"sessions.0.settings": {"DNNL_MAX_CPU_ISA": "SSE41", "OMP_NUM_THREADS": "2"}},
            "withheld: settings of libraries differ in 1 of 6 pairs (none and DNNL_MAX_CPU_ISA=SSE41)",
        ),
        ({"provenance.cpu_model": "Another"}, "withheld: processors differ in 1 of 6 pairs (Another and Processor)"),
    ],
)
def test_a_verdict_across_unlike_machines_is_withheld_without_a_ratio(row_of, changes, verdict):
    row = row_of(6, {("b", 3): changes})
    assert (row["verdict"], row["value"], row["low"]) == (verdict, None, None)
