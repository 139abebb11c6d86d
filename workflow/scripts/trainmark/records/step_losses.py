"""The losses of all steps of an epoch in a record: base64 of float32, little-endian; a tenth of the size of numbers."""

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping


def encode_step_losses(losses: Iterable[float]) -> str:
    """Encode the losses of an epoch's steps. What is not finite stays so."""
    return b64encode(_little_endian(array("f", losses))).decode()


def step_losses(entry: Mapping) -> array:
    """Return the losses of the steps of an epoch, an array of float32. entry: the epoch in the curves of a record.

    Raises ValueError if they can't be decoded.
    """
    return decode_step_losses(entry["step_losses"])


def decode_step_losses(text: str) -> array:
    """Return the losses that `encode_step_losses` encoded. Raises ValueError if they can't be decoded."""
    return _little_endian(array("f", b64decode(text, validate=True)))


def _little_endian(values: array) -> array:
    if sys.byteorder == "big":
        values.byteswap()
    return values
