"""Speed-up and efficiency by number of workers: as computed by hand, from one worker to 1,024."""

from dataclasses import replace

import matplotlib
import pandas as pd
import pytest
from figures_for_tests import data_of
from records_for_tests import certificates_of, record, with_other_ranks, written_tables

from trainmark.report.figures.options import FigureOptions
from trainmark.report.figures.save import draw_figure
from trainmark.report.figures.style import settings
from trainmark.tables.comparisons import comparisons_table
from trainmark.tables.scaling import scaling_table
from trainmark.tables.variants import runs_of_variants, variants_table

WORKERS = (1, 2, 4, 32, 1024)


def epoch_seconds(workers):
    """Of a ring that exchanges 100 MB over links of 10 GB/s with a latency of 5 microseconds, 1,000 times an epoch."""
    exchange = 2 * (workers - 1) * (5e-6 + 1e8 / workers / 1e10) if workers > 1 else 0.0
    return 600 / workers + 1000 * exchange


def table_of(tmp_path, *records, order=None, parities=None):
    _, runs = written_tables(tmp_path, *records)
    runs = runs if order is None else pd.concat([runs[runs["workers"] == workers] for workers in order])
    certificates = certificates_of(runs) if parities is None else certificates_of(runs, parities)
    return scaling_table(comparisons_table(runs, certificates), runs)


def runs(workers, repeats=6, framework="a", **more):
    made = []
    for count in workers:
        for repeat in range(1, repeats + 1):
            seconds = epoch_seconds(count) * (1 + repeat / 1000)
            one = record(framework, repeat, epochs=3, workers=count, seconds=seconds, **more)
            made.append(with_other_ranks(one, epoch_seconds(count), 600 / count) if count > 1 else one)
    return made


@pytest.mark.parametrize("order", [None, [*reversed(WORKERS)]])
def test_speed_ups_and_efficiencies_are_those_of_the_model(tmp_path, order):
    table = table_of(tmp_path, *runs(WORKERS), order=order)
    assert {*table["metric"]} == {"training_seconds", "steady_epoch_seconds"}
    assert {*table["of_workers"]} == {1} and {*table["workers"]} == {*WORKERS[1:]}
    for row in table[table["metric"] == "steady_epoch_seconds"].to_dict("records"):
        expected = epoch_seconds(1) / epoch_seconds(row["workers"])
        assert row["speed_up"] == pytest.approx(expected, rel=1e-9)
        assert row["low"] <= row["speed_up"] * (1 + 1e-9) and row["speed_up"] <= row["high"] * (1 + 1e-9)
        assert row["efficiency"] == pytest.approx(expected / row["workers"], rel=1e-9)
        assert row["efficiency_low"] <= row["efficiency"] * (1 + 1e-9)
        assert row["communication_share"] == pytest.approx(1 - 600 / row["workers"] / epoch_seconds(row["workers"]))


def test_the_figure_has_a_line_for_each_framework_from_one_worker_on(tmp_path):
    with matplotlib.rc_context(settings(FigureOptions())):
        figure, shows = draw_figure("scaling", data_of(tmp_path, *runs(WORKERS), *runs((1, 4), framework="b")))
    assert shows
    speed_up, efficiency, communication = figure.axes
    drawn = {tuple(line.get_xdata()): line.get_ydata() for line in speed_up.lines if len(line.get_xdata()) > 1}
    assert drawn[1, 4][-1] == pytest.approx(epoch_seconds(1) / epoch_seconds(4))
    assert {*drawn} == {(1, 4), WORKERS}
    assert efficiency.lines[0].get_ydata()[0] == 100
    assert {tuple(line.get_xdata()) for line in communication.lines} == {(4,), WORKERS[1:]}
    figure, shows = draw_figure("scaling", data_of(tmp_path / "one", *runs((1,)), *runs((1,), framework="b")))
    assert not shows


def test_the_fewest_workers_are_the_base_and_other_frameworks_no_partners(tmp_path):
    table = table_of(tmp_path, *runs((2, 4), repeats=2), *runs((1,), framework="b"))
    assert table[["framework", "workers", "of_workers", "pairs"]].drop_duplicates().to_numpy().tolist() == [
        ["a", 4, 2, 2]
    ]
    first = table.iloc[0]
    assert first["efficiency"] == pytest.approx(first["speed_up"] / 2)
    assert pd.isna(first["low"]) and pd.isna(first["efficiency_high"]), "too few pairs for an interval"


def test_variants_with_the_same_batch_of_each_worker_are_weak_scaling(tmp_path):
    batches = {1: 20, 2: 40, 4: 80, 8: 100}
    records = [
        one
        for count, size in batches.items()
        for one in runs((count,), experiment=f"weak.w{count}", settings={"batch_size": size})
    ]
    by_path, of_runs = written_tables(tmp_path, *records)
    named = runs_of_variants(of_runs)
    compared = variants_table(of_runs, by_path.values())
    table = scaling_table(compared, named)
    assert {*table["scaling"]} == {"weak"} and {*table["experiment"]} == {"weak"} and {*table["framework"]} == {"a"}
    assert table["workers"].tolist() == [2, 2, 4, 4], "8 workers have other batches"
    assert table["batch_size"].tolist() == [40, 40, 80, 80]
    steady = table[table["metric"] == "steady_epoch_seconds"]
    assert steady["speed_up"].tolist() == pytest.approx([epoch_seconds(1) / epoch_seconds(count) for count in (2, 4)])
    with matplotlib.rc_context(settings(FigureOptions())):
        data = data_of(tmp_path / "drawn", *records)
        figure, shows = draw_figure("scaling", replace(data, runs=named, comparisons=compared))
    assert shows
    assert figure.axes[0].get_ylabel() == "speed-up (weak scaling)"


def test_workers_that_train_something_else_have_no_speed_up(tmp_path):
    names = ("a on cpu", "a on cpu with 2 workers")
    table = table_of(tmp_path, *runs((1, 2)), parities={names: "different"})
    assert table["speed_up"].isna().all() and {*table["verdict"]} == {"refused: different"}
