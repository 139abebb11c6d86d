"""Which runs waited so long for batches of streamed images that their times are the loader's, not the network's."""

from collections.abc import Mapping

from trainmark.records.result import waiting_share

WAITING_LIMIT = 0.1
"""Largest share of its time that a run may wait for batches: its time is then at most 11 % longer than without waiting.
The limit is a choice, not a measurement."""


def waiting_of(record: Mapping) -> dict:
    """The columns of a run. waited: a share beyond the limit in words, else "": of the steady epochs, or without any of
    all epochs.
    """
    share, steady = waiting_share(record["curves"]), record["result"]["waiting_share"]
    largest, epochs = (share, "its epochs") if steady is None else (steady, "its steady epochs")
    waited = f"{100 * largest:.0f} % of {epochs}" if largest is not None and largest > WAITING_LIMIT else ""
    return {"training_waiting_share": share, "waited": waited}
