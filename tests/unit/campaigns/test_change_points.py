"""Change points: the statistic is the published one, changes are found where they are, and chance finds none."""

from itertools import permutations

import numpy as np
import pytest

from trainmark.campaigns import change_points as module
from trainmark.campaigns.change_points import change_points, fewest
from trainmark.tables.paired import LEVEL


def published(first, second):
    """The statistic of Matteson and James, as it is printed: mn / (m + n) times the divergence, with exponent 1."""
    m, n = len(first), len(second)
    between = np.abs(first[:, None] - second).mean()
    within = [np.abs(one[:, None] - one).sum() / (len(one) * (len(one) - 1)) for one in (first, second)]
    return m * n / (m + n) * (2 * between - sum(within))


def test_the_distance_of_each_split_is_the_published_one():
    values = np.random.default_rng(1).standard_t(2, size=13)
    values[7] = values[2]  # a tie
    ranks = values.argsort(kind="stable").argsort()[None]
    distances = (module._weights(ranks) @ np.diff(np.sort(values)))[0]
    expected = [published(values[:place], values[place:]) for place in range(2, 12)]
    assert distances == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_no_p_value_is_below_that_of_all_orders():
    """Of eight values, all orders can be tried: so few have a distance as large as two separate halves."""
    values = np.array([0.0, 0.01, 0.02, 0.03, 1.0, 1.01, 1.02, 1.03])
    orders = np.array([*permutations(range(8))])
    largest = (module._weights(orders) @ np.diff(np.sort(values))).max(axis=1)
    exact = (largest >= largest[0] * (1 - 1e-5)).mean()
    assert exact == pytest.approx(2 / 70)
    ((place, p_value),) = change_points([values])[0].items()
    assert place == 4 and exact <= p_value <= exact + 0.02
    assert change_points([values[:7]]) == [{}] and fewest() == 8
    assert change_points([values] * 8) == [{}] * 8, "8 series need 11 values each"


def test_changes_are_found_where_they_are():
    noise = 0.01 * np.random.default_rng(2).normal(size=(4, 40))
    noise[0] += np.repeat([0, 0.05, -0.05, 0], 10)
    noise[1, 36:] += 0.05
    noise[2, 20] += 1  # an outlier
    found = change_points(list(noise))
    assert [[*one] for one in found] == [[10, 20, 30], [36], [], []]
    assert all(0 < p_value <= LEVEL for one in found for p_value in one.values())
    assert change_points(list(noise)) == found, "the same each time"
    assert change_points([np.ones(40), [], [1.0]]) == [{}, {}, {}]


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy"])
def test_calls_on_series_without_a_change_seldom_find_one(draw):
    random = np.random.default_rng(3)
    calls = [any(change_points(list(getattr(random, draw)(size=(4, 15))))) for _ in range(200)]
    assert sum(calls) <= 18, "the 0.99 quantile of 200 calls at 5 % is 18"


def test_many_long_series_take_seconds():
    """More permutations than for few: the smallest p-value must be below the level after correction."""
    random = np.random.default_rng(4)
    series = random.normal(size=(100, 100))
    series[::10, 60:] += 5
    found = change_points(list(series))
    assert [[*one] for one in found] == [[60], *[[]] * 9] * 10
