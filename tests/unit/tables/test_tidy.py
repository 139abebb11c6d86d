"""The tidy table has every number of the other tables once; costs and speed-ups are what the config asks for."""

import pytest
from records_for_tests import (
    certificates_of,
    changed,
    compiling,
    disturbed,
    out_of_memory,
    record,
    with_other_ranks,
    written_tables,
)

from trainmark.tables.break_even import break_even_table
from trainmark.tables.comparisons import baselines_of, comparisons_table, speed_ups_table
from trainmark.tables.costs import costs_of
from trainmark.tables.scaling import scaling_table
from trainmark.tables.tables import SETTING, runs_table
from trainmark.tables.targets import targets_table
from trainmark.tables.tidy import COLUMNS, numbers_table, tidy_table

PRICES = {"currency": "CHF", "cpu_hour": 0.1, "gpu_hour": 2.0}
HOUR = {"wall_seconds": 3600.375, "phases_seconds.device_wait": 0.125, "phases_seconds.peak": 0.25}


def experiment():
    """Two frameworks on the CPU, one also on a GPU that first compiles for 5.5 s; a target; one run without memory."""
    target = {"settings.target_accuracy": 0.7}
    for repeat in range(1, 7):
        noise = 1 + repeat / 50
        yield record("a", repeat, epochs=3, seconds=2.0, changes=target)
        yield record("b", repeat, epochs=3, seconds=3.0 * noise, changes=target)
        gpu = record("a", repeat, "gpu", epochs=3, seconds=0.5 * noise, changes=target)
        energy = {"energy": {"training_joules": 30.0, "source": "nvml", "reason": None}}
        yield changed(compiling(gpu, 5.0), energy)
    yield out_of_memory("b", 7, epochs=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(tables by name, the tidy table) of the experiment."""
    by_path, runs = written_tables(tmp_path_factory.mktemp("tidy"), *experiment())
    runs = runs_table(by_path, list(runs["id"]), prices=PRICES)
    certificates = certificates_of(runs)
    compared = comparisons_table(runs, certificates)
    tables = {
        "runs": runs,
        "comparisons": compared,
        "variants": compared[:0],
        "speed_ups": speed_ups_table(compared, baselines_of(runs, {"e": {"baseline": None}})),
        "break_even": break_even_table(runs, compared),
        "targets": targets_table(runs),
        "scaling": scaling_table(compared, runs),
    }
    return tables, tidy_table(numbers_table(tables, "CHF"))


def select(tidy, **values):
    return tidy[(tidy[list(values)] == list(values.values())).all(axis=1)]


def test_every_row_is_one_number_with_a_unit(made):
    tidy = made[1]
    assert list(tidy.columns) == COLUMNS
    assert tidy["value"].notna().all() and tidy["unit"].ne("").all() and tidy["unit"].notna().all()
    assert not tidy.duplicated([*SETTING, "compared_with", "metric", "statistic"]).any()
    assert set(tidy["statistic"]) == {
        "median", "ratio", "speed_up", "break_even", "median_time_to_accuracy", "trimmed_mean",
    }  # fmt: skip


def test_the_numbers_are_those_of_the_tables(made):
    tables, tidy = made
    (row,) = select(tidy, metric="training_seconds", statistic="median", framework="b").to_dict("records")
    times = tables["runs"].query("framework == 'b' and status == 'ok'")["training_seconds"]
    assert (row["value"], row["low"], row["high"]) == (times.median(), times.min(), times.max())
    assert (row["runs"], row["unit"], row["epochs"]) == (6, "s", 3)
    ratios = select(tidy, statistic="ratio", metric="training_seconds")
    assert ratios["value"].tolist() == tables["comparisons"].query("metric == 'training_seconds'")["ratio"].tolist()
    assert set(ratios["verdict"]) == {"slower"}
    (even,) = select(tidy, statistic="break_even", metric="training_seconds").to_dict("records")
    assert (even["framework"], even["device"], even["compared_with"]) == ("a", "gpu", "a on cpu")
    assert even["low"] < even["value"] < even["high"] and even["value"] == pytest.approx(5 / 1.46, rel=0.05)
    assert len(select(tidy, metric="target_seconds", statistic="median_time_to_accuracy")) == 3


def test_a_median_counts_the_runs_that_it_is_of(made, tmp_path):
    """Times are without disturbed runs, losses with them."""
    runs = [record("a", n, changes=disturbed(foreign_seconds=1.0) if n < 3 else {}) for n in range(1, 5)]
    _, runs = written_tables(tmp_path, *runs, out_of_memory("a", 5))
    tidy = tidy_table(numbers_table({name: table[:0] for name, table in made[0].items()} | {"runs": runs}, "CHF"))
    counts = select(tidy, statistic="median").set_index("metric")["runs"]
    assert (counts["training_seconds"], counts["test_loss"]) == (2, 4)
    assert not tidy["disturbed_times"].any()


def test_numbers_from_times_of_disturbed_runs_alone_are_flagged_and_in_no_comparison(made, tmp_path):
    target = {"settings.target_accuracy": 0.7} | disturbed(foreign_seconds=1.0)
    _, runs = written_tables(
        tmp_path, *(record(name, n, epochs=3, changes=target) for name in "ab" for n in range(1, 7))
    )
    compared = comparisons_table(runs, certificates_of(runs))
    tables = made[0] | {name: table[:0] for name, table in made[0].items() if name in ("break_even", "scaling")}
    tables |= {
        "runs": runs,
        "comparisons": compared,
        "speed_ups": speed_ups_table(compared),
        "targets": targets_table(runs),
    }
    tidy = tidy_table(numbers_table(tables, "CHF"))
    flagged = tidy["disturbed_times"]
    assert {"test_loss", "test_accuracy", "peak_host_mib", "target_epochs"} <= set(tidy["metric"][~flagged])
    assert {"training_seconds", "target_seconds", "phase_shares.steady", "wall_seconds"} <= set(tidy["metric"][flagged])
    assert not {*tidy["metric"][flagged]} & {*tidy["metric"][~flagged]}
    assert set(tidy["statistic"]) == {"median", "median_time_to_accuracy", "trimmed_mean"}


def test_speed_ups_and_efficiencies_of_several_workers_are_named_by_the_kind_of_scaling(made, tmp_path):
    two = [with_other_ranks(record("a", n, epochs=3, seconds=1.25, workers=2), 1.0, 0.9) for n in range(1, 7)]
    _, runs = written_tables(tmp_path, *(record("a", n, epochs=3, seconds=2.0) for n in range(1, 7)), *two)
    scaling = scaling_table(comparisons_table(runs, certificates_of(runs)), runs)
    empty = {name: table[:0] for name, table in made[0].items()}
    tidy = tidy_table(numbers_table(empty | {"runs": runs, "scaling": scaling}, "CHF"))
    own = select(tidy, workers=2, metric="steady_epoch_seconds", compared_with="a on cpu").set_index("statistic")
    assert own["value"].to_dict() == {"strong_speed_up": 1.6, "strong_efficiency": 0.8}
    assert select(tidy, metric="communication_share")["value"].tolist() == [pytest.approx(0.1)]


def test_the_shares_of_the_phases_sum_to_one(made):
    shares = select(made[1], statistic="median", framework="a", device="cpu")
    shares = shares[shares["metric"].str.startswith("phase_shares.")]
    assert shares["value"].sum() == pytest.approx(1) and set(shares["unit"]) == {"share"}


def test_speed_ups_are_over_the_baseline(made, tmp_path):
    """The first trainer unless the config names another one, also for trainers that differ in framework and device."""
    speed_ups = made[0]["speed_ups"].set_index(["framework", "device"])
    assert list(speed_ups.index) == [("b", "cpu"), ("a", "gpu")]
    assert (speed_ups["baseline"] == "a on cpu").all()
    assert speed_ups.loc[("a", "gpu"), "ratio"] < 1 and speed_ups.loc[("b", "cpu"), "ratio"] < 1
    assert (speed_ups["low"] < speed_ups["ratio"]).all() and (speed_ups["ratio"] < speed_ups["high"]).all()
    runs, baselines = made[0]["runs"], {"e": {"baseline": "b on cpu"}}
    compared = comparisons_table(runs, certificates_of(runs), {}, baselines)
    named = speed_ups_table(compared, baselines_of(runs, baselines)).set_index(["framework", "device"])
    assert set(named.index) == {("a", "cpu"), ("a", "gpu")}
    assert named.loc[("a", "cpu"), "ratio"] == pytest.approx(1 / speed_ups.loc[("b", "cpu"), "ratio"])
    assert named.loc[("a", "cpu"), "low"] == pytest.approx(1 / speed_ups.loc[("b", "cpu"), "high"])


@pytest.mark.parametrize(
    ("device", "prices", "expected"),
    [
        ("cpu", {"cpu_hour": 0.1}, 0.2),
        ("gpu", {"cpu_hour": 0.1, "gpu_hour": 2.0}, 2.2),
        ("cpu", {"gpu_hour": 2.0}, 0.0),
        ("cpu", {"cpu_hour": 0.1, "kilowatt_hour": 0.3}, 0.2 + 0.3 * 2),
        ("cpu", {"currency": "EUR"}, None),
    ],
)
def test_a_run_of_an_hour_on_two_cpus_costs(device, prices, expected):
    energy = {"training_joules": 7.2e6, "source": "nvml", "reason": None}
    costs = costs_of(changed(record("a", device=device, epochs=4), HOUR | {"energy": energy}), prices)
    assert costs["cost"] == (expected if expected is None else pytest.approx(expected))
    assert costs["epoch_cost"] == (expected if expected is None else pytest.approx(expected / 4))
    assert costs["epoch_joules"] == 1.8e6


def test_a_cost_with_a_part_that_was_not_measured_is_missing():
    assert costs_of(record("a"), {"cpu_hour": 0.1, "kilowatt_hour": 0.3})["cost"] is None
    assert costs_of(record("a"), {"cpu_hour": 0.1})["epoch_joules"] is None
