"""Comparisons of two trainers: ratios over pairs of runs, verdicts, and differences between the first losses."""

from itertools import combinations, product

import pandas as pd
import pytest
from records_for_tests import certificates_of, diverged, losing, out_of_memory, record

from trainmark.tables.agreement import agreement_table
from trainmark.tables.comparisons import comparisons_table, parity_table, read_comparisons
from trainmark.tables.formatting import format_ratio
from trainmark.tables.paired import estimate, paired_ratios
from trainmark.tables.tables import read_table, rows_of, select_group
from trainmark.tables.verdicts import format_verdict
from trainmark.trainer import Trainer


@pytest.fixture
def compared(tables_of):
    """A function that gives the rows of the comparison of these records, of one metric, as dicts."""

    def compare(*records, metric="steady_epoch_seconds", parities=None):
        table = certified_table(tables_of(*records)[1], parities)
        return rows_of(table[table["metric"] == metric])

    return compare


def certified_table(runs, parities=None):
    """The table of these runs, all pairs of trainers certified."""
    return comparisons_table(runs, certificates_of(runs, parities))


def written(table, folder):
    """The CSV file of a table."""
    (folder / "table.csv").write_text(table.to_csv(index=False))
    return folder / "table.csv"


def pairs(ratios, first="a", second="b", **options):
    """Records of the first at 1 s an epoch and of the second at these times, repeat by repeat."""
    return [
        record(framework, repeat, seconds=seconds, **options)
        for repeat, ratio in enumerate(ratios, start=1)
        for framework, seconds in ((first, 1.0), (second, ratio))
    ]


# --- faster or slower ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.2, 1.6, 1.3, 1.5, 1.3, 1.4], "slower"),
        ([0.4, 0.5, 0.6, 0.3, 0.5, 0.4], "faster"),
        ([1.2, 1.6, 1.3, 1.5, 0.9, 1.2], "not distinguishable"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], "not distinguishable"),
        ([1.1, 1.2, 1.3, 1.4, 1.5], "too few pairs (5, needs 6)"),
    ],
)
def test_the_verdict_depends_on_the_side_of_1_on_which_the_whole_interval_lies(compared, ratios, verdict):
    (row,) = compared(*pairs(ratios))
    assert (row["first"], row["second"], row["pairs"], row["left_out"]) == ("a on cpu", "b on cpu", len(ratios), 0)
    assert row["verdict"] == verdict
    assert row["ratio"] == pytest.approx(estimate(ratios))
    if len(ratios) == 6:
        assert (row["low"], row["high"], row["p_value"], row["compared"]) == pytest.approx(
            (*paired_ratios(ratios).interval(), paired_ratios(ratios).p_value, 1)
        )
        assert (row["low"] > 1 or row["high"] < 1) == (verdict != "not distinguishable")
    else:
        assert {row[column] for column in ("low", "high", "p_value", "compared", "detectable")} == {None}


def test_verdicts_of_a_group_are_corrected_for_their_number(compared):
    """Alone, each of the second's ratios would be told apart; one of four may be so by chance."""
    ratios = [1.09, 1.0, 1.04, 1.03, 1.0, 1.06]
    (alone,) = compared(*pairs(ratios))
    assert (alone["verdict"], alone["compared"]) == ("slower", 1) and 0.0125 < alone["p_value"] < 0.05
    records = [one for epochs in (2, 3, 4, 5) for one in pairs(ratios, epochs=epochs)]
    rows = compared(*records)
    assert [row["p_value"] for row in rows] == pytest.approx([4 * alone["p_value"]] * 4)
    assert {(row["verdict"], row["compared"]) for row in rows} == {("not distinguishable", 4)}
    assert all(row["low"] > 1 and row["detectable"] > alone["detectable"] > 1 for row in rows)
    found = f"a ratio of {format_ratio(rows[0]['detectable'])} would have been found in 4 of 5 cases"
    assert format_verdict(rows[0]) == (
        f"not distinguishable (among 4 comparisons, such an interval occurs by chance; {found})"
    )
    elsewhere = [one for name in "fg" for one in pairs(ratios, experiment=name)]
    assert {(row["verdict"], row["compared"]) for row in compared(*elsewhere)} == {("slower", 1)}


def test_runs_are_paired_by_repeat_and_not_by_their_place(compared):
    """The machine slows down from repeat to repeat; runs stand in any order; one has no partner."""
    records = [record("b", repeat, seconds=2.0 * repeat) for repeat in (6, 5, 4, 3, 2, 1)]
    records += [record("a", repeat, seconds=1.0 * repeat) for repeat in (1, 2, 3, 4, 5, 6, 7)]
    (row,) = compared(*records)
    assert (row["ratio"], row["low"], row["high"], row["pairs"]) == pytest.approx((0.5, 0.5, 0.5, 6))
    ids = row["run_ids"].split()
    assert [one.rsplit("-", 1)[1] for one in ids[::2]] == [one.rsplit("-", 1)[1] for one in ids[1::2]]


def test_pairs_of_censored_runs_are_left_out_and_named(compared):
    records = pairs([2.0] * 8)
    lost = [diverged("b", 2), out_of_memory("a", 5)]
    records = [one for one in records if one["run"]["id"] not in {other["run"]["id"] for other in lost}] + lost
    (row,) = compared(*records)
    assert (row["pairs"], row["left_out"]) == (6, 2)
    assert row["ratio"] == pytest.approx(0.5 if row["first"][0] == "b" else 2)
    assert len(row["run_ids"].split()) == 12
    assert {one.rsplit("-", 1)[1] for one in row["left_out_run_ids"].split()} == {"2", "5"}


def test_a_time_of_0_has_no_ratio(compared):
    (row,) = compared(*pairs([0.0, 0.0]))
    assert (row["pairs"], row["left_out"], row["verdict"], row["ratio"]) == (0, 2, "not measured", None)
    assert row["left_out_reasons"] == "2 with a value of 0"


def test_trainers_are_compared_if_they_differ_in_exactly_one_part_or_one_is_the_baseline(tables_of):
    trainers = [*product("ab", ("cpu", "gpu"), ("stock", "tuned"))]
    _, runs = tables_of(*(record(framework, device=device, loop=loop) for framework, device, loop in trainers))
    names = [Trainer(*trainer).name for trainer in trainers]
    differing_in_one = {
        frozenset(Trainer(*trainer).name for trainer in pair)
        for pair in combinations(trainers, 2)
        if sum(one != other for one, other in zip(*pair, strict=True)) == 1
    }
    for named, baseline in ({}, names[0]), ({"e": {"baseline": names[5]}}, names[5]):
        table = comparisons_table(runs, certificates_of(runs), {}, named)
        both = list(zip(table["first"], table["second"], strict=True))
        of_baseline = {frozenset((baseline, name)) for name in names} - {frozenset((baseline,))}
        assert {frozenset(pair) for pair in both} == differing_in_one | of_baseline
        assert len(both) == len(set(both)) * 2 == 2 * (12 + 4)
        assert all(second != baseline for _, second in both)
    everyone = parity_table(runs, certificates_of(runs))
    assert len(everyone) == len(names) * (len(names) - 1) / 2


@pytest.mark.parametrize(
    ("parity", "verdict", "ratio"),
    [("bitwise", "slower", 1.1), ("single", "slower", 1.1)]
    + [(parity, f"refused: {parity}", None) for parity in ("different", "not certified")],
)
def test_a_pair_that_trains_another_network_is_refused_and_has_no_ratio(compared, parity, verdict, ratio):
    (row,) = compared(*pairs([1.1] * 6), parities={("a on cpu", "b on cpu"): parity})
    assert (row["verdict"], row["parity"], row["reason"]) == (verdict, parity, f"they are <{parity}>")
    assert [row[key] for key in ("ratio", "low", "high")] == [ratio and pytest.approx(ratio)] * 3
    assert row["pairs"] == 6


def test_a_pair_that_no_certificate_names_is_refused(tables_of):
    runs = tables_of(*pairs([1.1] * 6))[1]
    others = certificates_of(tables_of(record("a"), record("c"))[1])
    for certificates in ({}, others):
        rows = rows_of(comparisons_table(runs, certificates))
        assert {(row["verdict"], row["ratio"]) for row in rows} == {("refused: not certified", None)}
        assert {row["reason"] for row in rows} == {"not certified: no certificate contains this pair"}


def test_csv_can_be_read_again(tables_of, tmp_path):
    records = [*pairs([1.1, 1.2, 1.3, 1.4, 1.5, 1 / 3]), *pairs([1.0, 2.0], epochs=1, experiment="f")]
    records += [diverged("a", experiment="g"), diverged("b", experiment="g")]
    table = certified_table(tables_of(*records)[1], {("a on cpu", "b on cpu"): "single"})
    pd.testing.assert_frame_equal(read_comparisons(written(table, tmp_path)), table)


@pytest.mark.parametrize("name", ["007", "1e3", "nan", "true"])
def test_names_that_look_like_a_number_or_nothing_are_read_as_they_are(tables_of, tmp_path, name):
    by_path, runs = tables_of(record("a", experiment=name), record("b", experiment=name))
    for table, read in ((certified_table(runs), read_comparisons), (agreement_table(by_path), read_table)):
        again = read(written(table, tmp_path))
        assert len(select_group(again, (name, "mnist-mlp-flux", "digits"))) == len(table) > 0


# --- the same training? -------------------------------------------------------------------------------------------


def test_agreement_compares_only_equal_settings(tables_of):
    without_partner = record("b", 3, changes=losing([1.0, 0.1]))
    other_epochs = record("b", 1, changes=losing([1.0, 0.1]), epochs=9)
    losses = {("a", 1): [1.0, 1.0], ("a", 2): [1.0, 1.0], ("b", 1): [1.0, 0.9], ("b", 2): [1.0, 0.5]}
    stepped = [record(*run, changes=losing(of_run)) for run, of_run in losses.items()]
    by_path, _ = tables_of(*stepped, without_partner, other_epochs)
    (row,) = agreement_table(by_path).to_dict("records")
    assert (row["first"], row["second"], row["steps"], row["pairs"]) == ("a on cpu", "b on cpu", 24, 2)
    assert (row["largest"], row["median"]) == (0.5, pytest.approx(0.3))
    assert [one.split("/")[3][0] + one[-1] for one in row["run_ids"].split()] == ["a1", "b1", "a2", "b2"]


def test_a_trainer_that_was_certified_with_other_packages_is_not_ranked(tables_of):
    upgraded = {"provenance.versions": {"b": "2.0"}}
    records = [record("a", repeat) for repeat in range(1, 7)]
    records += [record("b", repeat, changes=upgraded) for repeat in range(1, 7)]
    _, runs = tables_of(*records)
    rows = rows_of(comparisons_table(runs, certificates_of(runs)))
    assert {(row["verdict"], row["ratio"]) for row in rows} == {("refused: not certified", None)}
    assert rows[0]["reason"] == (
        "not certified: b on cpu was certified with b 1.0, but its runs have b 2.0; delete the certificate, or "
        "those records, and run snakemake again"
    )
