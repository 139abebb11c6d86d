"""Top-k accuracy: by sorting, with equal logits and with NaN."""

import numpy as np
import pytest

from trainmark.recipes.outputs import cross_entropy_and_accuracy, evaluate, top_k_share

NAN, INF = float("nan"), float("inf")


def by_sorting(logits, labels, k):
    """The share by a stable sort, in which the smaller class comes first among equal logits."""
    best = np.argsort(-logits.astype(np.float64), axis=1, kind="stable")[:, :k]
    return np.mean([label in row for row, label in zip(best, labels, strict=True)])


@pytest.mark.parametrize(("levels", "dtype"), [(2, "float32"), (10**6, "float64")], ids=["many ties", "none"])
def test_the_share_is_that_of_sorted_logits(dtype, levels):
    generator = np.random.default_rng(levels)
    logits = generator.integers(levels, size=(500, 12)).astype(dtype)
    labels = generator.integers(12, size=500)
    shares = [top_k_share(logits, labels, k) for k in range(1, 13)]
    assert shares == [by_sorting(logits, labels, k) for k in range(1, 13)]
    assert shares[0] == cross_entropy_and_accuracy(logits, labels)[1]
    assert shares == sorted(shares) and shares[-1] == 1


def test_a_sample_with_a_nan_logit_is_wrong_and_infinite_ones_have_their_order():
    logits = np.array([[NAN] * 6, [9, 0, 0, 0, 0, NAN], [0, 1, 2, 3, 4, INF], [-INF, 1, 2, 3, 4, 5], [-INF] * 6])
    assert [top_k_share(row[np.newaxis], [0], 5) for row in logits] == [0, 0, 0, 0, 1]
    assert top_k_share(logits[2:3], [5], 1) == 1


def test_five_classes_or_fewer_have_no_top_5_accuracy():
    labels = np.array([0, 1])
    assert evaluate(np.eye(2, 5), labels).top5_accuracy is None
    six = evaluate(np.eye(2, 6), labels)
    assert (six.accuracy, six.top5_accuracy) == (1, 1)
    assert (six.loss, six.accuracy) == cross_entropy_and_accuracy(np.eye(2, 6), labels)
    assert [type(value) for value in six] == [float] * 3
