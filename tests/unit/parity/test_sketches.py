"""Sketches: the distance of two arrays, estimated from their summaries."""

import hashlib

import numpy as np
import pytest

from trainmark.parity.sketches import BLOCK_ROWS, BUCKETS, Sketches, _signs, array_difference, scalar_difference, sketch

INFINITE = float("inf")


def sketches(**arrays):
    return Sketches.of({name: np.asarray(array, np.float64) for name, array in arrays.items()})


@pytest.mark.parametrize("shape", [(3,), (BUCKETS,), (300, 7), (BLOCK_ROWS * BUCKETS + 5,), (2, BLOCK_ROWS, BUCKETS)])
def test_distance_is_estimated_within_its_error(shape):
    generator = np.random.default_rng(1)
    array = generator.normal(size=shape)
    other = array + 1e-6 * generator.normal(size=shape)
    found = sketches(x=array).difference(sketches(x=other), ["x"])
    true = array_difference({"x": array}, {"x": other}, ["x"])
    assert found == pytest.approx(true, rel=0.35)  # four times the standard deviation
    assert sketch(array)[0] == pytest.approx(np.linalg.norm(array), rel=1e-12)


def test_estimate_is_unbiased():
    """Over many differences, so that a sign or a bucket that is always wrong would show."""
    generator = np.random.default_rng(2)
    squares = [np.sum(sketch(x)[1:] ** 2) / np.sum(x**2) for x in generator.normal(size=(400, 5000))]
    assert np.mean(squares) == pytest.approx(1, abs=4 * np.sqrt(2 / BUCKETS / 400))
    assert np.std(squares) == pytest.approx(np.sqrt(2 / BUCKETS), rel=0.25)


def test_sketch_depends_on_positions_and_not_on_the_memory_layout():
    array = np.arange(12.0).reshape(3, 4)
    assert sketch(np.asfortranarray(array)).tobytes() == sketch(array).tobytes()
    assert sketches(x=array).difference(sketches(x=array[::-1]), ["x"]) > 0.1


@pytest.mark.parametrize(("block", "sha256"), [(0, "12a43b515bd8e96b"), (3, "af2a54e6b6e49f0c")])
def test_signs_are_the_same_whatever_python_and_numpy(block, sha256):
    """Each framework may have an environment of its own."""
    assert hashlib.sha256(_signs(block).tobytes()).hexdigest().startswith(sha256)


@pytest.mark.parametrize(
    "other", [{}, {"x": np.ones(3)}, {"x": np.ones((2, 1))}, {"x": [1, float("nan")]}, {"x": [1, INFINITE]}]
)
def test_missing_or_infinite_values_differ_infinitely(other):
    arrays = {name: np.asarray(array, np.float64) for name, array in other.items()}
    assert sketches(x=np.ones(2)).difference(Sketches.of(arrays), ["x"]) == INFINITE
    assert array_difference({"x": np.ones(2)}, arrays, ["x"]) == INFINITE


def test_equal_bits_are_equal_even_if_not_finite():
    arrays = {"x": np.array([1.0, float("nan"), INFINITE]), "y": np.ones(2)}
    assert Sketches.of(arrays).difference(Sketches.of(arrays), ["x", "y"]) == 0
    assert array_difference(arrays, arrays, ["x", "y"]) == 0
    assert scalar_difference(float("nan"), float("nan")) == 0
    assert Sketches.of(arrays).equal(Sketches.of(arrays))
    assert not Sketches.of(arrays).equal(Sketches.of(arrays | {"y": np.full(2, 1 + 1e-15)}))


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [(2.0, 1.0, 0.5), (-1.0, 1.0, 2.0), (0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, float("nan"), INFINITE)],
)
def test_numbers_differ_relative_to_the_larger(first, second, difference):
    assert scalar_difference(first, second) == scalar_difference(second, first) == difference
