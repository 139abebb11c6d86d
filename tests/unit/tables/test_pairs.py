"""Comparisons of two trainers: ratios over pairs of runs, verdicts, and differences between the first losses."""

from itertools import combinations, product

import pytest
from records_for_tests import certificates_of, compared, diverged, losing, out_of_memory, record

from trainmark.tables.agreement import agreement_rows
from trainmark.tables.formatting import format_ratio
from trainmark.tables.paired import estimate, paired_ratios
from trainmark.tables.trainers import parity_table, trainer_pairs
from trainmark.tables.verdicts import verdict_notes
from trainmark.trainer import Trainer


@pytest.fixture
def compare(runs_of):
    """A function that gives the rows that compare the trainers of these records by the time of an epoch."""
    return lambda *records, **options: compared(runs_of(*records), "steady_epoch_seconds", **options)


def pairs(ratios, **options):
    """Records of a at 1 s an epoch and of b at these times, repeat by repeat."""
    return [
        record(framework, repeat, seconds=seconds, **options)
        for repeat, ratio in enumerate(ratios, start=1)
        for framework, seconds in (("a", 1.0), ("b", ratio))
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
def test_the_verdict_depends_on_the_side_of_1_on_which_the_whole_interval_lies(compare, ratios, verdict):
    (row,) = compare(*pairs(ratios))
    assert (row["compared_with"], Trainer.of(row).name) == ("a on cpu", "b on cpu")
    assert (row["runs"], row["left_out"], row["verdict"]) == (len(ratios), 0, verdict)
    assert row["value"] == pytest.approx(estimate(ratios))
    if len(ratios) == 6:
        assert (row["low"], row["high"], row["p_value"], row["compared"]) == pytest.approx(
            (*paired_ratios(ratios).interval(), paired_ratios(ratios).p_value, 1)
        )
        assert (row["low"] > 1 or row["high"] < 1) == (verdict != "not distinguishable")
    else:
        assert {row[column] for column in ("low", "high", "p_value", "compared", "detectable")} == {None}


def test_verdicts_of_a_group_are_corrected_for_their_number(compare):
    """Alone, each of the second's ratios would be told apart; one of four may be so by chance."""
    ratios = [1.09, 1.0, 1.04, 1.03, 1.0, 1.06]
    (alone,) = compare(*pairs(ratios))
    assert (alone["verdict"], alone["compared"]) == ("slower", 1) and 0.0125 < alone["p_value"] < 0.05
    rows = compare(*(one for epochs in (2, 3, 4, 5) for one in pairs(ratios, epochs=epochs)))
    assert [row["p_value"] for row in rows] == pytest.approx([4 * alone["p_value"]] * 4)
    assert {(row["verdict"], row["compared"]) for row in rows} == {("not distinguishable", 4)}
    assert all(row["low"] > 1 and row["detectable"] > alone["detectable"] > 1 for row in rows)
    assert verdict_notes(rows[0]) == [
        "among 4 comparisons, such an interval occurs by chance",
        f"a ratio of {format_ratio(rows[0]['detectable'])} would have been found in 4 of 5 cases",
    ]
    elsewhere = [one for name in "fg" for one in pairs(ratios, experiment=name)]
    assert {(row["verdict"], row["compared"]) for row in compare(*elsewhere)} == {("slower", 1)}


def test_runs_are_paired_by_repeat_and_not_by_their_place(compare):
    """The machine slows down from repeat to repeat; runs stand in any order; one has no partner."""
    records = [record("b", repeat, seconds=2.0 * repeat) for repeat in (6, 5, 4, 3, 2, 1)]
    records += [record("a", repeat, seconds=1.0 * repeat) for repeat in (1, 2, 3, 4, 5, 6, 7)]
    (row,) = compare(*records)
    assert (row["value"], row["low"], row["high"], row["runs"]) == pytest.approx((0.5, 0.5, 0.5, 6))
    assert row["run_numbers"] == "6 7 5 8 4 9 3 10 2 11 1 12", "pair by pair"


def test_pairs_of_censored_runs_are_left_out_and_named(compare):
    lost = [diverged("b", 2), out_of_memory("a", 5)]
    left = {one["run"]["id"] for one in lost}
    (row,) = compare(*(one for one in pairs([2.0] * 8) if one["run"]["id"] not in left), *lost)
    assert (row["runs"], row["left_out"], row["value"]) == (6, 2, pytest.approx(2))
    assert row["left_out_reasons"] == "2 diverged or out of memory"
    assert row["left_out_run_numbers"] == "3 15 16 8" and len(row["run_numbers"].split()) == 12


def test_a_time_of_0_has_no_ratio(compare):
    (row,) = compare(*pairs([0.0, 0.0]))
    assert (row["runs"], row["left_out"], row["verdict"], row["value"]) == (0, 2, "not measured", None)
    assert row["left_out_reasons"] == "2 with a value of 0"


def test_trainers_are_compared_if_they_differ_in_exactly_one_part_or_one_is_the_baseline(runs_of):
    trainers = [Trainer(*parts) for parts in product("ab", ("cpu", "gpu"), ("stock", "tuned"))]
    runs = runs_of(*(record(one.framework, device=one.device, loop=one.loop) for one in trainers))
    names = [trainer.name for trainer in trainers]
    differing_in_one = {
        frozenset(trainer.name for trainer in pair)
        for pair in combinations(trainers, 2)
        if sum(one != other for one, other in zip(*pair, strict=True)) == 1
    }
    for named, baseline in ({}, names[0]), ({"e": {"baseline": names[5]}}, names[5]):
        rows = compared(runs, experiments=named)
        both = [(row["compared_with"], Trainer.of(row).name) for row in rows]
        of_baseline = {frozenset((baseline, name)) for name in names if name != baseline}
        assert {frozenset(pair) for pair in both} == differing_in_one | of_baseline
        assert len(both) == len(set(both)) * 2 == 2 * (12 + 4), "by two times"
        assert all(second != baseline for _, second in both)
    assert len(parity_table(trainer_pairs(runs, certificates_of(runs)))) == len(names) * (len(names) - 1) / 2


@pytest.mark.parametrize(
    ("parity", "verdict", "ratio"),
    [("bitwise", "slower", 1.1), ("single", "slower", 1.1)]
    + [(parity, f"refused: {parity}", None) for parity in ("different", "not certified")],
)
def test_a_pair_that_trains_another_network_is_refused_and_has_no_ratio(compare, parity, verdict, ratio):
    (row,) = compare(*pairs([1.1] * 6), parities={("a on cpu", "b on cpu"): parity})
    assert (row["verdict"], row["parity"], row["reason"]) == (verdict, parity, f"they are <{parity}>")
    assert [row[key] for key in ("value", "low", "high")] == [ratio and pytest.approx(ratio)] * 3
    assert row["runs"] == 6


def test_a_pair_that_no_certificate_names_is_refused(compare, runs_of):
    for certificates in ({}, certificates_of(runs_of(record("a"), record("c")))):
        (row,) = compare(*pairs([1.1] * 6), certificates=certificates)
        assert (row["verdict"], row["value"]) == ("refused: not certified", None)
        assert row["reason"] == "not certified: no certificate contains this pair"


def test_a_trainer_that_was_certified_with_other_packages_is_not_ranked(compare):
    upgraded = [record("b", repeat, changes={"provenance.versions": {"b": "2.0"}}) for repeat in range(1, 7)]
    (row,) = compare(*(record("a", repeat) for repeat in range(1, 7)), *upgraded)
    assert (row["verdict"], row["value"]) == ("refused: not certified", None)
    assert row["reason"].startswith("not certified: b on cpu was certified with b 1.0, but its runs have b 2.0; delete")


# --- the same training? -------------------------------------------------------------------------------------------


def test_agreement_compares_only_equal_settings(tables_of):
    without_partner = record("b", 3, changes=losing([1.0, 0.1]))
    other_epochs = record("b", 1, changes=losing([1.0, 0.1]), epochs=9)
    losses = {("a", 1): [1.0, 1.0], ("a", 2): [1.0, 1.0], ("b", 1): [1.0, 0.9], ("b", 2): [1.0, 0.5]}
    stepped = [record(*run, changes=losing(of_run)) for run, of_run in losses.items()]
    by_path, _ = tables_of(*stepped, without_partner, other_epochs)
    losses, steps, ordered = agreement_rows(by_path)
    assert (losses["compared_with"], Trainer.of(losses).name, losses["runs"]) == ("a on cpu", "b on cpu", 2)
    assert [losses[key] for key in ("value", "low", "high")] == pytest.approx([0.3, 0.1, 0.5])
    assert [one.split("/")[3][0] + one[-1] for one in losses["run_ids"]] == ["a1", "b1", "a2", "b2"]
    assert (steps["metric"], steps["value"]) == ("compared_steps", 24)
    assert (ordered["metric"], ordered["value"], ordered["high"]) == ("ordered_epochs", 2, 2)


def test_with_dropout_the_losses_have_no_difference(tables_of):
    by_path, _ = tables_of(*(record(name, changes={"network.dropout": True}) for name in "ab"))
    losses, steps, _ = agreement_rows(by_path)
    assert (losses["value"], losses["verdict"], steps["value"]) == (None, "own masks", 24)
