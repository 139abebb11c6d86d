"""The table of numbers has each number once, with its unit, its runs and its verdict; costs follow from prices."""

import pandas as pd
import pytest
from fabricated_campaigns import write_collected
from records_for_tests import (
    changed,
    compared_pairs,
    compiling,
    disturbed,
    diverged,
    out_of_memory,
    record,
    timed_tuning,
    written_tables,
)

from trainmark.tables.bounds import DELAY
from trainmark.tables.costs import costs_of
from trainmark.tables.formatting import number_in_words
from trainmark.tables.frames import SETTING, rows_of, select_group
from trainmark.tables.metrics import COMPARED
from trainmark.tables.numbers import COLUMNS, as_table, numbers_table, read_numbers
from trainmark.tables.runs import runs_table
from trainmark.tables.tuning import tuning_rows

PRICES = {"currency": "CHF", "cpu_hour": 0.1, "gpu_hour": 2.0}
HOUR = {
    "wall_seconds": 3600.375,
    "phases_seconds.device_wait": 0.125,
    "phases_seconds.peak": 0.25,
    "provenance.cpus": [0],
}
TARGET = {"settings.target_accuracy": 0.7}


def experiment():
    """Two frameworks on the CPU, one also on a GPU that first compiles for 5.5 s; a target; one run without memory."""
    for repeat in range(1, 7):
        noise = 1 + repeat / 50
        yield record("a", repeat, epochs=3, seconds=2.0, changes=TARGET)
        yield record("b", repeat, epochs=3, seconds=3.0 * noise, changes=TARGET)
        gpu = record("a", repeat, "gpu", epochs=3, seconds=0.5 * noise, changes=TARGET)
        energy = {"energy": {"training_joules": 30.0, "source": "nvml", "reason": None}}
        yield changed(compiling(gpu, 5.0), energy)
    yield out_of_memory("b", 7, epochs=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(the table of runs, that of numbers) of the experiment."""
    by_path, runs = written_tables(tmp_path_factory.mktemp("numbers"), *experiment())
    runs = runs_table(by_path, list(runs["id"]), prices=PRICES)
    return runs, numbers_table(runs, compared_pairs(runs), currency="CHF")


def numbers_of(runs, **options):
    """The table of the numbers of these runs, whose trainers are all certified."""
    return numbers_table(runs, compared_pairs(runs, **options))


def select(numbers, **values):
    return numbers[(numbers[list(values)] == list(values.values())).all(axis=1)]


# --- rows -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["12 trainers", "failures", "variants"])
def campaign(request, tmp_path_factory):
    """The table of a campaign, as it is read from its file."""
    folder = tmp_path_factory.mktemp("campaign")
    write_collected(request.param, folder)
    return read_numbers(folder / "tables" / "numbers.csv")


def test_each_number_is_one_row_with_a_unit_or_a_word_for_what_is_missing(campaign):
    assert list(campaign.columns) == COLUMNS
    assert (campaign["unit"] != "").all() and (campaign["metric"] != "").all()
    assert (campaign["verdict"] != "")[campaign["value"].isna()].all()
    assert not campaign.duplicated([*SETTING, "variant", "compared_with", "metric", "statistic"]).any()
    ends = campaign[["low", "value", "high"]].dropna()
    rounding = 1 + 1e-9
    assert (ends["low"] <= ends["value"] * rounding).all() and (ends["value"] <= ends["high"] * rounding).all()


def test_energy_and_cost_of_trainers_are_not_compared(campaign):
    compared = campaign[campaign["statistic"] == "ratio"]
    assert {"training_seconds", "steady_epoch_seconds"} <= set(compared["metric"]) <= set(COMPARED)
    assert not {"training_joules", "epoch_joules", "cost"} & set(compared["metric"])


CAMPAIGNS = {
    "a third": [record(name, n, seconds=n / 3 + 0.1) for n in range(1, 8) for name in "ab"],
    "without any time": [diverged("a"), out_of_memory("b")],
    "one run": [record("a")],
    **{f"named {name}": [record(one, experiment=name) for one in "ab"] for name in ("007", "1e3", "nan", "true")},
}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_what_is_read_is_what_was_written(tmp_path, name):
    """To the last bit. Names stay texts, whatever they look like."""
    table = numbers_of(written_tables(tmp_path, *CAMPAIGNS[name])[1])
    (tmp_path / "numbers.csv").write_text(table.to_csv(index=False))
    again = read_numbers(tmp_path / "numbers.csv")
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    experiment = CAMPAIGNS[name][0]["run"]["experiment"]
    assert len(select_group(again, (experiment, "mnist-mlp-flux", "digits"))) == len(table) > 0


# --- medians --------------------------------------------------------------------------------------------------------


def test_a_number_is_that_of_its_runs(made):
    runs, numbers = made
    (row,) = select(numbers, metric="training_seconds", statistic="median", framework="b").to_dict("records")
    times = runs.query("framework == 'b' and status == 'ok'")["training_seconds"]
    assert (row["value"], row["low"], row["high"]) == (times.median(), times.min(), times.max())
    assert (row["runs"], row["unit"], row["epochs"], row["verdict"]) == (6, "s", 3, "")
    assert {int(number) for number in row["run_numbers"].split()} == {*runs["number"][runs["framework"] == "b"]}
    (even,) = select(numbers, statistic="break_even", metric="training_seconds", device="gpu").to_dict("records")
    assert (even["framework"], even["compared_with"], even["unit"]) == ("a", "a on cpu", "epochs")
    assert even["low"] < even["value"] < even["high"] and even["value"] == pytest.approx(5 / 1.46, rel=0.05)
    assert len(select(numbers, metric="target_seconds", statistic="median_time_to_accuracy")) == 3
    assert set(select(numbers, metric="cost")["unit"]) == {"CHF"}


def test_a_median_leaves_censored_runs_out_and_counts_those_that_it_is_of(runs_of):
    energy = {"energy": {"training_joules": 8.0, "source": "nvml", "reason": None}}
    runs = runs_of(
        record("a", 1, loss=0.5, seconds=1.0, changes=energy), record("a", 2, loss=0.7, seconds=5.0),
        diverged("a", 3, seconds=0.1), out_of_memory("a", 4), diverged("b", 1), out_of_memory("b", 2),
    )  # fmt: skip
    medians = select(numbers_of(runs), statistic="median")
    of_a = select(medians, framework="a").set_index("metric")
    assert of_a.loc["test_loss", ["value", "low", "high", "runs"]].tolist() == pytest.approx([0.6, 0.5, 0.7, 2])
    assert of_a.loc["steady_epoch_seconds", "value"] == 3.0
    assert of_a.loc["training_joules", ["value", "runs"]].tolist() == [8.0, 1], "of the run that measured it"
    assert of_a.loc["peak_device_mib", ["runs", "verdict"]].tolist() == [0, "not measured"]
    assert set(of_a["run_numbers"]) == {"1 2 3 4"}
    assert set(select(medians, framework="b")["verdict"]) == {"diverged or out of memory"}


def test_times_of_disturbed_runs_enter_no_median_their_losses_do(runs_of):
    """As in verdicts, unless every run was disturbed."""
    changes, target = disturbed(foreign_seconds=1.0), {"settings.target_accuracy": 0.5}
    one = record("a", 1, loss=0.5, seconds=1.0, changes=target)
    runs = runs_of(one, *(record(name, 2, loss=0.7, seconds=9.0, changes=changes | target) for name in "ab"))
    numbers = numbers_of(runs)
    medians = select(numbers, statistic="median").set_index(["framework", "metric"])[["value", "runs"]]
    assert medians.loc[("a", "test_loss")].tolist() == pytest.approx([0.6, 2])
    assert medians.loc[("a", "steady_epoch_seconds")].tolist() == [1.0, 1]
    assert medians.loc[("b", "test_loss")].tolist() == [0.7, 1]
    assert medians.loc[("b", "steady_epoch_seconds")].tolist() == [9.0, 1]
    assert select(numbers, statistic="reached")["value"].tolist() == [2, 1]
    assert select(numbers, statistic="median_time_to_accuracy")["value"].tolist() == pytest.approx([1.5, 9.5])


def test_the_range_of_disturbed_runs_alone_begins_with_what_they_took_at_least(runs_of):
    changes = disturbed(foreign_seconds=0.2)
    numbers = numbers_of(runs_of(*(record("a", repeat, seconds=0.25 * repeat, changes=changes) for repeat in (1, 2))))
    (row,) = rows_of(select(numbers, statistic="median", metric="training_seconds"))
    assert [row[key] for key in ("value", "low", "high")] == pytest.approx([1.25, 1.0 * (1 - 0.2 * DELAY), 1.5])
    assert (row["runs"], row["bounded"], row["disturbed_times"]) == (2, 2, True)
    assert number_in_words(row).startswith("1.25 s (of disturbed runs, runs from 0.")


def test_numbers_from_times_of_disturbed_runs_alone_are_flagged_and_in_no_comparison(runs_of):
    changes = TARGET | disturbed(foreign_seconds=1.0)
    numbers = numbers_of(runs_of(*(record(name, n, epochs=3, changes=changes) for name in "ab" for n in range(1, 7))))
    numbers = numbers[numbers["value"].notna()]
    flagged = numbers["disturbed_times"]
    lasting, fleeting = set(numbers["metric"][~flagged]), set(numbers["metric"][flagged])
    assert {"test_loss", "test_accuracy", "peak_host_mib", "target_epochs"} <= lasting
    assert {"training_seconds", "target_seconds", "phase_shares.steady", "wall_seconds"} <= fleeting
    assert not lasting & fleeting
    assert set(numbers["statistic"]) == {"median", "median_time_to_accuracy", "reached", "trimmed_mean"}


def test_the_shares_of_the_phases_sum_to_one(made):
    shares = select(made[1], statistic="median", framework="a", device="cpu")
    shares = shares[shares["metric"].str.startswith("phase_shares.")]
    assert shares["value"].sum() == pytest.approx(1) and set(shares["unit"]) == {"share"}


def test_speed_ups_are_over_the_baseline(made):
    """The first trainer unless the config names another one, also for trainers that differ in framework and device."""
    runs, numbers = made
    speed_ups = select(numbers, statistic="speed_up").set_index(["framework", "device"])
    assert list(speed_ups.index) == [("b", "cpu"), ("a", "gpu")]
    assert set(speed_ups["compared_with"]) == {"a on cpu"} and (speed_ups["value"] < 1).all()
    assert (speed_ups["low"] < speed_ups["value"]).all() and (speed_ups["value"] < speed_ups["high"]).all()
    named = select(numbers_of(runs, experiments={"e": {"baseline": "b on cpu"}}), statistic="speed_up")
    named = named.set_index(["framework", "device"])
    assert set(named.index) == {("a", "cpu"), ("a", "gpu")}
    assert named.loc[("a", "cpu"), "value"] == pytest.approx(1 / speed_ups.loc[("b", "cpu"), "value"])
    assert named.loc[("a", "cpu"), "low"] == pytest.approx(1 / speed_ups.loc[("b", "cpu"), "high"])


# --- timed tunings --------------------------------------------------------------------------------------------------


def test_ratios_and_times_follow_from_the_turns():
    """Two epochs a turn; the third step was tried and not taken, and the fourth compares without it."""
    rows = as_table(tuning_rows([timed_tuning([0.5, 0.8, 1.5, 0.9], taken=[True, True, False, True])]))
    steps = [f"tuning.s{place}" for place in range(4)]
    ratios, times = (rows[rows["statistic"] == name] for name in ("step_ratio", "epoch_seconds"))
    assert ratios["metric"].tolist() == steps and times["metric"].tolist() == ["tuning.stock", *steps]
    assert ratios["value"].tolist() == pytest.approx([0.5, 0.8, 1.5, 0.9], rel=1e-3)
    assert times["value"].tolist() == pytest.approx([4.0, 2.0, 1.6, 2.4, 1.44], rel=3e-3)
    assert (ratios["low"] <= ratios["value"]).all() and (ratios["value"] <= ratios["high"]).all()
    assert ratios["runs"].tolist() == [6] * 4
    assert ratios["verdict"].tolist() == ["taken", "taken", "not taken", "taken"]
    assert ratios["reason"].str.contains("which takes").all() and set(ratios["note"]) == {"2 threads"}
    assert set(rows["framework"]) == {"a"} and set(rows["loop"]) == {"tuned"} and (rows["unit"] != "").all()


# --- costs ----------------------------------------------------------------------------------------------------------


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
def test_a_run_that_held_two_cpus_for_an_hour_and_trained_on_one_costs(device, prices, expected):
    energy = {"training_joules": 7.2e6, "source": "nvml", "reason": None}
    costs = costs_of(changed(record("a", device=device, epochs=4), HOUR | {"energy": energy}), prices)
    assert costs["cost"] == (expected if expected is None else pytest.approx(expected))
    assert costs["epoch_cost"] == (expected if expected is None else pytest.approx(expected / 4))
    assert costs["epoch_joules"] == 1.8e6


def test_a_cost_with_a_part_that_was_not_measured_is_missing():
    assert costs_of(record("a"), {"cpu_hour": 0.1, "kilowatt_hour": 0.3})["cost"] is None
    assert costs_of(record("a"), {"cpu_hour": 0.1})["epoch_joules"] is None
