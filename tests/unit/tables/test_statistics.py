"""Medians and ranges."""

import pytest

from trainmark.tables.statistics import median_and_range


@pytest.mark.parametrize(
    ("values", "expected"), [([3.0], (3, 3, 3)), ([1.0, 9.0, 2.0], (2, 1, 9)), ([1.0, 2.0], (1.5, 1, 2))]
)
def test_median_and_range(values, expected):
    assert median_and_range(values) == expected
