"""Checks what a record holds of several ranks: one network, each sample of a batch with one rank, one clock."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import isclose, isfinite

from trainmark.records.resolved import batch_size_of
from trainmark.records.step_losses import decode_step_losses, step_losses

REPLAY_TOLERANCE = 1e-3
"""Largest relative difference of the loss of a share and of its replay. On CPUs clean runs of five networks differed by
1.5e-7 at most, torch and Chainer mostly not at all; with other samples or masks by 1.3 to 61 %. A GPU may choose other
algorithms for the two."""

SMALLEST_LOSS = 1e-6
"""Losses below it are those of samples that are learnt by heart: they are equal for any share."""


def is_same_loss(loss: float, replayed: float) -> bool:
    """Return whether the loss of a share is that of its replay."""
    return isclose(loss, replayed, rel_tol=REPLAY_TOLERANCE, abs_tol=SMALLEST_LOSS) or not isfinite(loss)


def contradicting_ranks(record: Mapping) -> Iterator[str]:
    """Yield each contradiction among the ranks of a record, as a phrase."""
    ranks = [record, *record.get("other_ranks", ())]
    for entries in zip(record["curves"], *(rank["epochs"] for rank in ranks), strict=True):
        if len(ranks) > 1:
            curve, *of_ranks = entries
            where = f"in epoch {curve['epoch']}"
            if any(one["weights_sha256"] != of_ranks[0]["weights_sha256"] for one in of_ranks):
                yield f"{where} its ranks have different weights"
            if _have_one_clock(ranks):
                yield from _waits(where, of_ranks)
            if all(one["share_losses"] for one in of_ranks):
                yield from _losses(where, curve, of_ranks, record)
    yield from _replays(record, ranks)


def _have_one_clock(ranks: Sequence[Mapping]) -> bool:
    boots = [[session["boot_id"] for session in rank["sessions"]] for rank in ranks]
    return None not in boots[0] and all(one == boots[0] for one in boots)


def _waits(where: str, of_ranks: Sequence[Mapping]) -> Iterator[str]:
    """No rank goes on before the last one has come, at the beginning and at the end."""
    for what, came, left in (("began", 0, 1), ("ended", 2, 3)):
        last, first = max(one["moments"][came] for one in of_ranks), min(one["moments"][left] for one in of_ranks)
        if first < last:
            yield f"{where} a rank {what} {last - first:.6f} s before another one was there"


def _losses(where: str, curve: Mapping, of_ranks: Sequence[Mapping], record: Mapping) -> Iterator[str]:
    """The loss of a batch is the mean over its shares, and no two shares have the same losses."""
    losses = [decode_step_losses(one["share_losses"]) for one in of_ranks]
    mean = step_losses(curve)
    if {len(one) for one in losses} != {len(mean)}:
        yield f"{where} some rank has not {len(mean)} losses"
        return
    batch_size, samples = batch_size_of(record), record["dataset"]["samples"]["train"]
    for step, (loss, *of_step) in enumerate(zip(mean, *losses, strict=True), start=1):
        batch = min(batch_size, samples - (step - 1) * batch_size)
        size, larger = divmod(batch, len(losses))  # as batch_order.share_of divides it
        expected = sum((size + (rank < larger)) * one for rank, one in enumerate(of_step)) / batch
        if isfinite(expected) and not isclose(loss, expected, rel_tol=1e-5, abs_tol=1e-7):
            yield f"{where} the loss of step {step} is {loss:.6g}, but its ranks had {expected:.6g} together"
            break
    for (first, ours), (second, theirs) in combinations(enumerate(losses), 2):
        if ours == theirs and max(ours) > SMALLEST_LOSS:
            yield f"{where} the ranks {first} and {second} have the same losses: they trained the same samples"


def _replays(record: Mapping, ranks: Sequence[Mapping]) -> Iterator[str]:
    for replay in record.get("replays") or ():
        epoch = replay["epoch"]
        shares = [share for rank in ranks if (share := rank["epochs"][epoch - 1]["share_losses"])]
        expected = [*map(decode_step_losses, shares)] or [step_losses(record["curves"][epoch - 1])]
        if [one[0] for one in expected] != replay["losses"]:
            yield f"the first losses of epoch {epoch} are not those of its replay"
        for rank, (loss, alone) in enumerate(zip(replay["losses"], replay["alone_losses"], strict=True)):
            if not is_same_loss(loss, alone):
                yield f"in epoch {epoch} rank {rank} had the loss {loss:.6g}, and its share alone has {alone:.6g}"
