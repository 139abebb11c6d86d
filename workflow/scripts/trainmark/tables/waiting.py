"""Which runs waited so long for batches of streamed images that their times are the loader's, not the network's."""

from collections.abc import Mapping

import pandas as pd

from trainmark.records.result import waiting_share
from trainmark.tables.formatting import named_runs
from trainmark.trainer import TRAINER, Trainer

WAITING_LIMIT = 0.1
"""Largest share of its time that a run may wait for batches: its time is then at most 11 % longer than without waiting.
The limit is a choice, not a measurement."""

SHARES = {
    "training_seconds": "training_waiting_share",
    "steady_epoch_seconds": "waiting_share",
    "target_seconds": "training_waiting_share",
}
"""For each time, the column with the share of it that the run waited: of all epochs, or of the steady ones."""


def waiting_of(record: Mapping) -> dict:
    """The columns of a run. waited: the share beyond the limit in words, "" if there is none.

    The share is that of the steady epochs. Of a run without any, it is that of all epochs.
    """
    share, steady = waiting_share(record["curves"]), record["result"]["waiting_share"]
    largest, epochs = (share, "its epochs") if steady is None else (steady, "its steady epochs")
    waited = f"{100 * largest:.0f} % of {epochs}" if largest is not None and largest > WAITING_LIMIT else ""
    return {"training_waiting_share": share, "waited": waited}


def waiting_sentences(runs: pd.DataFrame) -> list[str]:
    """A sentence that names the runs that waited beyond the limit, trainer by trainer; empty if none did."""
    waited = runs[runs["waited"] != ""]
    if waited.empty:
        return []
    parts = []
    for _, group in waited.groupby([*TRAINER], sort=False):
        shares = 100 * group["waiting_share"].fillna(group["training_waiting_share"])
        ends = " to ".join(dict.fromkeys((f"{shares.min():.0f}", f"{shares.max():.0f}")))
        parts.append(f"{Trainer.of(group.iloc[0]).name} for {ends} % of the time ({named_runs(group['number'])})")
    return [
        f"Waited for data: {', '.join(parts)}. The loader was measured rather than the network. To load faster, set "
        "loader.store to mapped, or give the run more CPUs and loader.jobs. Medians include these runs; verdicts on "
        "trainers that waited are withheld."
    ]


def withheld_for_waiting(pairs: pd.DataFrame, metric: str) -> str | None:
    """Say that a verdict is withheld because a trainer waited for data; None if it is not.

    Of each trainer the median over its runs counts, so that no pair enters or is left out because of its own time.

    pairs: the pairs of runs that the comparison measured. metric: a key of SHARES.
    """
    shares = [pairs[f"{SHARES[metric]}_{side}"].median() for side in ("first", "second")]
    if not any(share > WAITING_LIMIT for share in shares):
        return None
    first, second = (f"{0 if pd.isna(share) else 100 * share:.0f} %" for share in shares)
    return f"withheld: waited for data ({first} and {second} of the time)"
