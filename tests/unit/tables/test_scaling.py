"""Speed-up and efficiency by number of workers: as computed by hand, from one worker to 1,024."""

from pathlib import Path

import matplotlib
import pandas as pd
import pytest
from records_for_tests import compared_pairs, record, with_other_ranks

from trainmark.report.figures.data import Data
from trainmark.report.figures.options import FigureOptions
from trainmark.report.figures.save import draw_figure
from trainmark.report.figures.style import settings
from trainmark.tables.numbers import numbers_table
from trainmark.tables.sections import Results
from trainmark.tables.trainers import parity_table
from trainmark.tables.variants import variant_pairs

WORKERS = (1, 2, 4, 32, 1024)
STEADY = "steady_epoch_seconds"


def epoch_seconds(workers):
    """Of a ring that exchanges 100 MB over links of 10 GB/s with a latency of 5 microseconds, 1,000 times an epoch."""
    exchange = 2 * (workers - 1) * (5e-6 + 1e8 / workers / 1e10) if workers > 1 else 0.0
    return 600 / workers + 1000 * exchange


def section_of(runs, pairs=None, **options):
    """The first section of a campaign of these runs."""
    numbers = numbers_table(runs, compared_pairs(runs, **options) if pairs is None else pairs)
    return Results(Path(), {"config": {"experiments": {}}}, runs, numbers, parity_table([]), {}).sections[0]


def figure_of(section):
    """(the figure, whether it shows anything)."""
    with matplotlib.rc_context(settings(FigureOptions())):
        return draw_figure("scaling", Data(section, pd.DataFrame()))


def records_of(workers, repeats=6, framework="a", **more):
    made = []
    for count in workers:
        for repeat in range(1, repeats + 1):
            seconds = epoch_seconds(count) * (1 + repeat / 1000)
            one = record(framework, repeat, epochs=3, workers=count, seconds=seconds, **more)
            made.append(with_other_ranks(one, epoch_seconds(count), 600 / count) if count > 1 else one)
    return made


@pytest.mark.parametrize("order", [WORKERS, [*reversed(WORKERS)]])
def test_speed_ups_and_efficiencies_are_those_of_the_model(runs_of, order):
    runs = runs_of(*records_of(WORKERS))
    section = section_of(pd.concat([runs[runs["workers"] == workers] for workers in order]))
    speed_ups, efficiencies = section.rows("strong_speed_up"), section.rows("strong_efficiency", STEADY)
    assert {*speed_ups["metric"]} == {"training_seconds", STEADY} and {*speed_ups["compared_with"]} == {"a on cpu"}
    found = speed_ups[speed_ups["metric"] == STEADY].set_index("workers")
    assert {*found.index} == {*WORKERS[1:]} and len(efficiencies) == len(found)
    shares = section.rows("median", "communication_share").set_index("workers")["value"]
    for workers, efficiency in zip(efficiencies["workers"], efficiencies.to_dict("records"), strict=True):
        row, expected = found.loc[workers], epoch_seconds(1) / epoch_seconds(workers)
        assert row["value"] == pytest.approx(expected, rel=1e-9)
        assert row["low"] <= row["value"] * (1 + 1e-9) and row["value"] <= row["high"] * (1 + 1e-9)
        for end in ("value", "low", "high"):
            assert efficiency[end] == pytest.approx(row[end] / workers, rel=1e-9)
        assert shares[workers] == pytest.approx(1 - 600 / workers / epoch_seconds(workers))


def test_the_figure_has_a_line_for_each_framework_from_one_worker_on(runs_of):
    figure, shows = figure_of(section_of(runs_of(*records_of(WORKERS), *records_of((1, 4), framework="b"))))
    assert shows
    speed_up, efficiency, communication = figure.axes
    drawn = {tuple(line.get_xdata()): line.get_ydata() for line in speed_up.lines if len(line.get_xdata()) > 1}
    assert drawn[1, 4][-1] == pytest.approx(epoch_seconds(1) / epoch_seconds(4))
    assert {*drawn} == {(1, 4), WORKERS}
    assert efficiency.lines[0].get_ydata()[0] == 100
    assert {tuple(line.get_xdata()) for line in communication.lines} == {(4,), WORKERS[1:]}
    _, shows = figure_of(section_of(runs_of(*records_of((1,)), *records_of((1,), framework="b"))))
    assert not shows


def test_the_fewest_workers_are_the_base_and_other_frameworks_no_partners(runs_of):
    section = section_of(runs_of(*records_of((2, 4), repeats=2), *records_of((1,), framework="b")))
    (speed_up,), (efficiency,) = (
        section.rows(f"strong_{name}", STEADY).to_dict("records") for name in ("speed_up", "efficiency")
    )
    for row in (speed_up, efficiency):
        assert [row[key] for key in ("framework", "workers", "compared_with", "runs")] == [
            "a", 4, "a on cpu with 2 workers", 2,
        ]  # fmt: skip
        assert pd.isna(row["low"]) and pd.isna(row["high"]), "too few pairs for an interval"
    assert efficiency["value"] == pytest.approx(speed_up["value"] / 2)


def test_variants_with_the_same_batch_of_each_worker_are_weak_scaling(tables_of):
    batches = {1: 20, 2: 40, 4: 80, 8: 100}
    records = [
        one
        for count, size in batches.items()
        for one in records_of((count,), experiment=f"weak.w{count}", settings={"batch_size": size})
    ]
    by_path, runs = tables_of(*records)
    section = section_of(runs, variant_pairs(runs, by_path.values()))
    assert section.has_variants and section.rows("strong_speed_up").empty
    speed_ups = section.rows("weak_speed_up", STEADY)
    assert {*speed_ups["experiment"]} == {"weak"} and {*speed_ups["framework"]} == {"a"}
    assert speed_ups["workers"].tolist() == [2, 4], "8 workers have other batches"
    assert speed_ups["value"].tolist() == pytest.approx([epoch_seconds(1) / epoch_seconds(count) for count in (2, 4)])
    figure, shows = figure_of(section)
    assert shows and figure.axes[0].get_ylabel() == "speed-up (weak scaling)"


def test_workers_that_train_something_else_have_no_speed_up(runs_of):
    names = ("a on cpu", "a on cpu with 2 workers")
    speed_ups = section_of(runs_of(*records_of((1, 2))), parities={names: "different"}).rows("strong_speed_up")
    assert speed_ups["value"].isna().all() and {*speed_ups["verdict"]} == {"refused: different"}


def test_a_variant_that_also_differs_in_something_else_is_no_strong_scaling(tables_of):
    """Otherwise one number of workers would have two speed-ups."""
    variants = {"one": (1, {}), "rate": (2, {"optimizer": {"learning_rate": 0.5}}), "two": (2, {})}
    records = [
        one
        for name, (count, settings) in variants.items()
        for one in records_of((count,), experiment=f"strong.{name}", settings=settings)
    ]
    by_path, runs = tables_of(*records)
    pairs = list(variant_pairs(runs, by_path.values()))
    assert [len(pair.differing) for pair in pairs] == [2, 1]
    speed_ups = section_of(runs, pairs).rows("strong_speed_up", STEADY)
    assert speed_ups["value"].tolist() == pytest.approx([epoch_seconds(1) / epoch_seconds(2)])
