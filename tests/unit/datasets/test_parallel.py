"""A function over many items in threads: in order, in constant memory, and out in time."""

import time

import pytest

from trainmark.datasets.images.parallel import AHEAD, in_order


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_results_come_in_the_order_of_the_items(workers):
    def slow_at_first(number):
        time.sleep(0.01 if number % 5 == 0 else 0)
        return number * number

    assert list(in_order(slow_at_first, range(50), workers)) == [number * number for number in range(50)]
    assert list(in_order(str, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_it_never_runs_further_ahead_than_each_worker_may(workers):
    """Items are asked for, and results kept, however slowly results are taken."""
    asked = []

    def items():
        for number in range(100):
            asked.append(number)
            yield number

    results = in_order(lambda number: number, items(), workers)
    assert asked == [], "nothing is done before a result is asked for"
    for taken in range(1, 101):
        assert next(results) == taken - 1
        assert len(asked) - taken <= workers * AHEAD
    assert list(results) == []


def test_what_the_function_or_the_items_raise_is_raised_and_the_rest_is_not_begun():
    begun = []

    def fail_at_ten(number):
        begun.append(number)
        if number == 10:
            raise ValueError("ten")
        time.sleep(0.001)
        return number

    found = []
    with pytest.raises(ValueError, match="ten"):
        for result in in_order(fail_at_ten, range(1000), 2):
            found.append(result)
    assert found == list(range(10))
    assert max(begun) <= 10 + 2 * AHEAD + 1
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_order(str, map(int, ["1", "no number"]), 2))
