"""What a person reads when something is refused."""

from collections.abc import Callable

import pytest

from trainmark.errors import DataError


def message_of(function: Callable, *arguments, **options) -> str:
    """The one line of the DataError that a call ends in."""
    with pytest.raises(DataError) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)
