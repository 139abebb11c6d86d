"""Simulated comparisons, of trainers and of variants: slower ones are found, and equal ones are not distinguished."""

import numpy as np
import pandas as pd
import pytest
from fabricated_campaigns import write_collected
from records_for_tests import compared
from simulated_ratios import simulated_runs

from trainmark.tables.claims import judged
from trainmark.tables.frames import select_group
from trainmark.tables.numbers import as_table
from trainmark.tables.paired import estimate
from trainmark.tables.pairs import comparisons
from trainmark.tables.sections import read_results
from trainmark.tables.variants import variant_pairs
from trainmark.trainer import Trainer

# --- on a machine with slow moments ---------------------------------------------------------------------------------


def test_a_framework_slower_by_a_tenth_is_mostly_called_slower_and_never_faster():
    rows = compared(simulated_runs(60, 10, factor=1.1), "training_seconds")
    verdicts = [row["verdict"] for row in rows]
    assert len(verdicts) == 60 and verdicts.count("slower") >= 36 and "faster" not in verdicts
    assert np.mean([row["low"] <= 1.1 <= row["high"] for row in rows]) >= 0.95


# --- variants -------------------------------------------------------------------------------------------------------

RECIPE = {
    "optimizer": {"rule": "rmsprop", "learning_rate": 0.01, "rho": 0.99, "epsilon": 1e-8}, "batch_size": 128,
    "input": None,
}  # fmt: skip


def records_of(settings, experiments=("0",)):
    """Records of these variants, by name, of each of the experiments, with what a comparison reads of them."""
    return [
        {
            "run": {"experiment": f"{experiment}.{variant}", "recipe": "r", "workers": 1},
            "settings": {"batch_size": "recipe", "input": {}, "optimizer": {}, **of_variant},
            "inputs": {"recipe": RECIPE},
        }
        for experiment in experiments
        for variant, of_variant in settings.items()
    ]


def compare(runs, settings, metric=None, experiments=("0",)):
    """The rows that compare variants with these settings, by one metric or by all."""
    table = as_table(comparisons(variant_pairs(runs, records_of(settings, experiments))))
    return table if metric is None else table[table["metric"] == metric].set_index("variant")


def of_variants(runs):
    """The runs of two frameworks, a and b, as those of one framework in two variants of these names."""
    return runs.assign(experiment=runs["experiment"] + "." + runs["framework"], framework="chainer")


def of_grid(runs):
    """The runs of two frameworks, a and b, as those of one in a grid of "rule" by "size"; twice as many, which vary."""
    noise = np.random.default_rng(2)
    names = runs["experiment"] + ".rule-" + runs["framework"] + ".size-"
    both = [
        runs.assign(
            experiment=names + size,
            framework="chainer",
            number=2 * runs["number"] - int(size) + 1,
            training_seconds=runs["training_seconds"] * noise.lognormal(0, 0.02, len(runs)),
        )
        for size in "12"
    ]
    return pd.concat(both, ignore_index=True).sort_values(["experiment", "repeat"], ignore_index=True)


CELLS = [f"rule-{rule}.size-{size}" for rule in "ab" for size in "12"]
RULES = {name: {"optimizer": {"rule": "adam"}} if "rule-b" in name else {} for name in CELLS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "variants", "rows", "campaigns"), [(of_variants, "ab", 1, 400), (of_grid, CELLS, 6, 100)]
)
def test_equal_variants_are_not_distinguished_in_19_of_20_campaigns(named, variants, rows, campaigns):
    """In any metric: both times vary, and results are equal, since all variants have the same seeds.

    rows: of each of 4 metrics. Verdicts are corrected for as many of them as there are, and for both times together.
    """
    runs = named(simulated_runs(campaigns, 8, factor=1.0))
    steady = runs["training_seconds"] * np.random.default_rng(3).lognormal(0, 0.006, len(runs))
    runs = runs.assign(steady_epoch_seconds=steady, test_loss=0.2, test_accuracy=0.9)
    experiments = runs["experiment"].str.split(".").str[0].unique()
    table = compare(runs, {name: {} for name in variants}, experiments=experiments)
    of_campaign = table.groupby("experiment")["verdict"]
    assert of_campaign.size().tolist() == [4 * rows] * campaigns
    decided = table[table["p_value"].notna()]
    families = decided["metric"].where(~decided["metric"].str.endswith("seconds"), "time")
    counted = decided.groupby(["experiment", families])["compared"]
    assert (counted.transform("size") == decided["compared"]).all()
    wrong = ("faster", "slower", "lower", "higher")
    assert of_campaign.agg(lambda verdicts: not verdicts.isin(wrong).any()).mean() >= 19 / 20


def test_a_grid_compares_cells_that_differ_in_one_factor_and_the_levels_of_a_factor_over_all_others():
    runs = of_grid(simulated_runs(1, 8, factor=1.3))
    times = compare(runs, RULES, "training_seconds")
    assert list(zip(times["compared_with"], times.index, strict=True)) == [
        (f"chainer with {first} on cpu", second)
        for first, second in [
            ("rule-a", "rule-b"), ("size-1", "size-2"),
            ("rule-a.size-1", "rule-b.size-1"), ("rule-a.size-2", "rule-b.size-2"),
            ("rule-a.size-1", "rule-a.size-2"), ("rule-b.size-1", "rule-b.size-2"),
        ]
    ]  # fmt: skip
    of_rule = times.loc["rule-b"]
    assert (of_rule["runs"], of_rule["verdict"], len({*of_rule["run_numbers"].split()})) == (8, "slower", 32)
    seconds = np.log(runs.set_index(["experiment", "repeat"])["training_seconds"].unstack())
    means = (seconds.loc["0.rule-b.size-1"] + seconds.loc["0.rule-b.size-2"]) / 2
    means -= (seconds.loc["0.rule-a.size-1"] + seconds.loc["0.rule-a.size-2"]) / 2
    assert of_rule["value"] == pytest.approx(estimate(np.exp(means)))
    assert set(times["reason"]) == {
        "Cells that are compared with each other differ in optimizer.rule and optimizer.learning_rate",
        "Cells that are compared with each other have the same settings",
    }  # fmt: skip


@pytest.mark.parametrize("change", [{"status": "diverged"}, {"disturbed": "foreign load"}, {"repeat": 99}])
def test_a_repeat_that_lacks_a_cell_is_in_no_mean(change):
    runs = of_grid(simulated_runs(1, 8, factor=1.3))
    runs.loc[(runs["experiment"] == "0.rule-a.size-1") & (runs["repeat"] > 6), list(change)] = list(change.values())
    times = compare(runs, RULES, "training_seconds")
    assert times.loc["rule-b", ["runs", "verdict"]].tolist() == [6, "slower"]
    assert times.loc["rule-b.size-2", "runs"].tolist() == [8, 8]


def test_a_mean_of_cells_with_opposite_verdicts_gets_none():
    runs = of_grid(simulated_runs(1, 8, factor=2.0))
    is_other = runs["experiment"] == "0.rule-b.size-2"
    runs.loc[is_other, "training_seconds"] /= 5
    verdicts = compare(runs, RULES, "training_seconds")["verdict"]
    assert verdicts["rule-b"].startswith("withheld")
    assert verdicts["rule-b.size-1"] == "slower" and "faster" in set(verdicts["rule-b.size-2"])


def test_a_slower_variant_with_a_lower_loss_is_both():
    runs = of_variants(simulated_runs(1, 10, factor=1.3))
    is_b = runs["experiment"] == "0.b"
    noise = np.random.default_rng(1).normal(1, 0.01, len(runs))
    runs = runs.assign(test_loss=np.where(is_b, 0.1, 0.2) * noise, test_accuracy=0.9)
    table = compare(runs, {"a": {}, "b": {"batch_size": 32}}).set_index("metric")
    assert table["verdict"][["training_seconds", "test_loss", "test_accuracy"]].tolist() == [
        "slower", "lower", "not distinguishable",
    ]  # fmt: skip
    assert set(table["compared_with"]) == {"chainer with a on cpu"}
    assert (set(table["framework"]), set(table["variant"])) == ({"chainer"}, {"b"})
    assert set(table["parity"]) == {"other settings"}


def test_energy_is_compared_between_variants_that_measured_it_without_disturbed_runs():
    runs = of_variants(simulated_runs(1, 10, factor=1.0))
    noise = np.random.default_rng(4).normal(1, 0.01, len(runs))
    runs = runs.assign(training_joules=np.where(runs["experiment"] == "0.b", 3.0, 5.0) * noise)
    runs.loc[runs["repeat"] == 1, "disturbed"] = "foreign load"
    (row,) = compare(runs, {"a": {}, "b": {"batch_size": 32}}).query("metric == 'training_joules'").to_dict("records")
    assert (row["variant"], row["verdict"], row["runs"], row["left_out"]) == ("b", "lower", 9, 1)
    assert row["low"] < 0.6 < row["high"]
    runs["training_joules"] = runs["training_joules"].where(runs["experiment"] == "0.a")
    assert "training_joules" not in set(compare(runs, {"a": {}, "b": {"batch_size": 32}})["metric"])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "a and b have the same settings"),
        ({"batch_size": 128}, "a and b have the same settings"),
        ({"batch_size": "full", "dropout": 0}, "a and b differ in batch_size and dropout"),
        ({"optimizer": {"rule": "adam"}}, "a and b differ in optimizer.rule and optimizer.learning_rate"),
        ({"optimizer": {"rho": 0.9}}, "a and b differ in optimizer.rho"),
    ],
)
def test_the_reason_names_the_settings_that_differ(settings, reason):
    runs = of_variants(simulated_runs(1, 6, factor=1.0))
    assert set(compare(runs, {"a": {}, "b": settings})["reason"]) == {reason}


def test_a_variant_whose_runs_all_diverged_is_no_baseline():
    runs = of_variants(simulated_runs(1, 6, factor=1.0))
    runs.loc[runs["experiment"] == "0.a", "status"] = "diverged"
    table = compare(runs, {"a": {"batch_size": 8}, "b": {}})
    assert set(table["compared_with"]) == {"chainer with b on cpu"}
    assert set(table["verdict"]) == {"no pair"}
    assert set(table["reason"]) == {"b and a differ in batch_size"}


# --- a campaign -----------------------------------------------------------------------------------------------------

GROUP = ("optimizers", "mnist-mlp-flux", "digits")
VARIANTS = ("adam", "again", "momentum", "rmsprop")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    write_collected("variants", folder)
    return read_results(folder)


def test_each_trainer_compares_its_variants_with_the_first_and_certified_pairs_are_apart(results):
    of_variants, *certified = results.sections
    ratios = of_variants.rows("ratio")
    assert {(row["compared_with"], Trainer.of(row).name) for row in ratios.to_dict("records")} == {
        (f"{framework} with adam on cpu", f"{framework} with {other} on cpu")
        for framework in ("chainer", "flax")
        for other in VARIANTS[1:]
    }
    assert [section.group[0] for section in certified] == [f"optimizers.{name}" for name in VARIANTS]
    for section in certified:
        assert set(section.rows("ratio")["compared_with"]) == {"chainer on cpu"} and not section.has_variants
        assert set(section.rows("ratio")["framework"]) == {"flax"} and section.baseline == "chainer on cpu"


def test_the_numbers_of_each_variant_stand_in_the_section_of_all(results):
    """By trainers that are named after it, as its runs are: medians, and times to accuracy."""
    of_variants, *certified = results.sections
    assert (of_variants.group, of_variants.has_variants, of_variants.certificate) == (GROUP, True, None)
    named = [f"{framework} with {variant}" for variant in VARIANTS for framework in ("chainer", "flax")]
    assert set(of_variants.runs["framework"]) == set(named)
    for statistic, metric in (("median", "test_loss"), ("median_time_to_accuracy", "target_seconds")):
        of_all = of_variants.rows(statistic, metric)
        assert list(dict.fromkeys(of_all["framework"])) == named
        own = [section.rows(statistic, metric) for section in certified]
        assert of_all["value"].tolist() == pd.concat(own)["value"].tolist() and len(of_all) > 0
    assert of_variants.rows("difference").empty, "of two frameworks, which are certified"
    assert len(select_group(results.numbers, GROUP)) == len(of_variants.rows("ratio")) + len(
        of_variants.rows("speed_up")
    )


def test_a_claim_names_a_variant_by_its_column(results):
    where = {"experiment": "optimizers", "framework": "chainer", "compared_with": "chainer with adam on cpu"}
    where |= {"epochs": 20, "metric": "training_seconds"}
    claims = [{"says": "", "where": where | {"variant": one}, "at_most": 0.95} for one in ("momentum", "again")]
    assert [one["status"] for one in judged(claims, results.numbers, results.parity)] == ["holds", "fails"]
