"""Numbers are formatted for people; a missing number has a word in its place."""

import math

import pytest

from trainmark.tables.formatting import (
    format_figure,
    format_ratio,
)


@pytest.mark.parametrize(
    ("metric", "texts"),
    [
        ("training_seconds", {0.11: "0.110", 99.949: "99.9", 99.96: "100", 1234.5: "1,234"}),
        ("phases.start", {0.0: "0.000", 0.01234: "0.012", 1.234: "1.23"}),
        ("samples_per_second", {46989.4: "46,989"}),
        ("training_joules", {7.654: "7.65"}),
        ("test_accuracy", {0.98349: "98.35 %"}),
        ("test_top5_accuracy", {0.98349: "98.35 %"}),
        ("waiting_share", {0.0: "0.0 %", 0.6154: "61.5 %"}),
        ("test_loss", {0.12345: "0.1235", 99999.5: "99999.5000", 2.63221e37: "2.632e+37", math.inf: "inf"}),
        ("peak_host_mib", {512.4: "512"}),
        ("resumes", {2: "2"}),
    ],
)
def test_figures_as_people_read_them(metric, texts):
    assert {value: format_figure(metric, value) for value in texts} == texts


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.00"), (1.104, "1.10"), (0.5, "0.500"), (123.4, "123"), (1.0004, "1.0004"), (0.9996, "0.9996")],
)
def test_a_ratio_is_shown_on_its_side_of_1(value, text):
    assert format_ratio(value) == text
