"""Which pairs `make certify-networks` takes as certified."""

import pytest
from parity.certify_networks import is_certified, table_lines

from trainmark.parity.compare import NOT_CERTIFIED, Pair
from trainmark.parity.sentences import Location


def location(op, difference):
    return Location("steps", 1, "layer", op, "forward", difference)


def pair(parity, network="single", causes=(), reasons=()):
    stages = {} if parity == NOT_CERTIFIED else {"network": {"parity": network}, "steps": {"parity": parity}}
    return Pair("one", "other", parity, stages, None, tuple(causes), "the sentence", reasons=tuple(reasons))


DENSE, KINK = location("Dense", 3e-7), location("BatchNorm", 1e-3)


@pytest.mark.parametrize(
    ("compared", "without_float32", "with_dense"),
    [
        (pair("bitwise", "bitwise"), True, True),
        (pair("rounding", "rounding"), True, True),
        (pair("single", causes=[DENSE]), False, True),
        (pair("different", causes=[DENSE, KINK]), False, True),
        (pair("different", causes=[KINK, DENSE]), False, False),
        (pair("different", "different", causes=[DENSE]), False, False),
        (pair("different", causes=[DENSE], reasons=["the loss of epoch 2 differs"]), False, False),
        (pair("different"), False, False),
        (pair(NOT_CERTIFIED), False, False),
    ],
)
def test_pairs_are_certified_by_the_ops_that_are_computed_in_float32(compared, without_float32, with_dense):
    assert is_certified(compared, set()) == without_float32
    assert is_certified(compared, {"Dense"}) == with_dense


def test_a_trainer_that_stored_a_failure_is_shown_with_its_sentence():
    """Without traces of its stages, and so without their differences."""
    assert table_lines("recipe", [(pair(NOT_CERTIFIED), set())])[0].endswith("one and other: the sentence")
