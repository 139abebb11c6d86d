"""The comparisons of variants: by the same trainer, with the first variant, and equal ones are not distinguished."""

import numpy as np
import pandas as pd
import pytest
from fabricated_campaigns import write_campaign
from test_simulated_verdicts import simulated_runs

from trainmark.tables.paired import estimate
from trainmark.tables.variants import variants_table

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
            id=runs["id"] + size,
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
    table = variants_table(runs, records_of({name: {} for name in variants}, experiments))
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
    table = variants_table(runs, records_of(RULES))
    times = table[table["metric"] == "training_seconds"].set_index("second")
    assert [name.removeprefix("chainer with ").removesuffix(" on cpu") for name in times["first"] + times.index] == [
        f"{first} on cpuchainer with {second}"
        for first, second in [
            ("rule-a", "rule-b"), ("size-1", "size-2"),
            ("rule-a.size-1", "rule-b.size-1"), ("rule-a.size-2", "rule-b.size-2"),
            ("rule-a.size-1", "rule-a.size-2"), ("rule-b.size-1", "rule-b.size-2"),
        ]
    ]  # fmt: skip
    of_rule = times.loc["chainer with rule-b on cpu"]
    assert (of_rule["pairs"], of_rule["verdict"], len(of_rule["run_ids"].split())) == (8, "slower", 32)
    seconds = np.log(runs.set_index(["experiment", "repeat"])["training_seconds"].unstack())
    means = (seconds.loc["0.rule-b.size-1"] + seconds.loc["0.rule-b.size-2"]) / 2
    means -= (seconds.loc["0.rule-a.size-1"] + seconds.loc["0.rule-a.size-2"]) / 2
    assert of_rule["ratio"] == pytest.approx(estimate(np.exp(means)))
    assert set(table["reason"]) == {
        "Cells that are compared with each other differ in optimizer.rule and optimizer.learning_rate",
        "Cells that are compared with each other have the same settings",
    }  # fmt: skip


@pytest.mark.parametrize("change", [{"status": "diverged"}, {"disturbed": "foreign load"}, {"repeat": 99}])
def test_a_repeat_that_lacks_a_cell_is_in_no_mean(change):
    runs = of_grid(simulated_runs(1, 8, factor=1.3))
    runs.loc[(runs["experiment"] == "0.rule-a.size-1") & (runs["repeat"] > 6), list(change)] = list(change.values())
    table = variants_table(runs, records_of(RULES)).query("metric == 'training_seconds'").set_index("second")
    assert table.loc["chainer with rule-b on cpu", ["pairs", "verdict"]].tolist() == [6, "slower"]
    assert table.loc["chainer with rule-b.size-2 on cpu", "pairs"].tolist() == [8, 8]


def test_a_mean_of_cells_with_opposite_verdicts_gets_none():
    runs = of_grid(simulated_runs(1, 8, factor=2.0))
    is_other = runs["experiment"] == "0.rule-b.size-2"
    runs.loc[is_other, "training_seconds"] /= 5
    table = variants_table(runs, records_of(RULES)).query("metric == 'training_seconds'").set_index("second")
    assert table.loc["chainer with rule-b on cpu", "verdict"].startswith("withheld")
    assert set(table["verdict"][["chainer with rule-b.size-1 on cpu"]]) == {"slower"}
    assert "faster" in set(table["verdict"][["chainer with rule-b.size-2 on cpu"]])


def test_a_slower_variant_with_a_lower_loss_is_both():
    runs = of_variants(simulated_runs(1, 10, factor=1.3))
    is_b = runs["experiment"] == "0.b"
    noise = np.random.default_rng(1).normal(1, 0.01, len(runs))
    runs = runs.assign(test_loss=np.where(is_b, 0.1, 0.2) * noise, test_accuracy=0.9)
    table = variants_table(runs, records_of({"a": {}, "b": {"batch_size": 32}})).set_index("metric")
    assert table["verdict"][["training_seconds", "test_loss", "test_accuracy"]].tolist() == [
        "slower", "lower", "not distinguishable",
    ]  # fmt: skip
    assert set(table["first"] + ", " + table["second"]) == {"chainer with a on cpu, chainer with b on cpu"}
    assert set(table["parity"]) == {"other settings"}


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
    assert set(variants_table(runs, records_of({"a": {}, "b": settings}))["reason"]) == {reason}


def test_a_variant_whose_runs_all_diverged_is_no_baseline():
    runs = of_variants(simulated_runs(1, 6, factor=1.0))
    runs.loc[runs["experiment"] == "0.a", "status"] = "diverged"
    table = variants_table(runs, records_of({"a": {"batch_size": 8}, "b": {}}))
    assert set(table["first"]) == {"chainer with b on cpu"}
    assert set(table["verdict"]) == {"no pair"}
    assert set(table["reason"]) == {"b and a differ in batch_size"}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    write_campaign("variants", folder, drawn=False)
    return folder


def test_each_trainer_compares_its_variants_with_the_first_and_certified_pairs_are_apart(campaign):
    variants = pd.read_csv(campaign / "tables" / "variants.csv")
    assert {*zip(variants["first"], variants["second"], strict=True)} == {
        (f"{framework} with adam on cpu", f"{framework} with {other} on cpu")
        for framework in ("chainer", "flax")
        for other in ("again", "momentum", "rmsprop")
    }
    certified = pd.read_csv(campaign / "tables" / "comparisons.csv")
    assert set(certified["experiment"]) == {f"optimizers.{name}" for name in ("adam", "again", "momentum", "rmsprop")}
    assert set(certified["first"]) | set(certified["second"]) == {"chainer on cpu", "flax on cpu"}
