"""From what a command reports of its epochs to the curves of its record."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from trainmark.commands.entries import Entry, source_of
from trainmark.errors import CommandError
from trainmark.recipes.command import FORMATS, LINE_FORMATS, columns_of
from trainmark.records.record import encode_loss
from trainmark.records.result import untimed

MOMENT_SECONDS = 0.001
"""Reports that come within this time of each other tell nothing about the time of their epochs."""


def curves_of(
    metrics: Mapping, entries: Sequence[Entry], epochs: int, start: float, end: float
) -> tuple[list[dict], dict | None, float]:
    """Return (the curves, where the loss diverged or None, the training time in seconds), as the record holds them.

    An entry more than epochs, of epoch 0, is from before the training and only begins the time of the first epoch.
    Epochs that were reported at the same moment have no times.

    start, end: when the command started and ended, on the clock of `time.monotonic`.

    Raises CommandError if the entries are not those of the epochs, or have no usable times.
    """
    before: Entry | None = None
    if len(entries) == epochs + 1 and entries[0].values.get("epoch") == 0:
        _check_first(metrics, entries)
        before, *entries = entries
    diverged = next((at for at, entry in enumerate(entries, start=1) if _not_finite(entry)), None)
    if len(entries) != epochs and not (diverged and len(entries) < epochs):
        raise CommandError(_wrong_count(metrics, len(entries), epochs))
    _check_numbers(metrics, entries, before)
    if not diverged:
        _check_columns(metrics, entries)
    seconds = _seconds(metrics, before, entries, start, end)
    curves: list[dict] = [
        {
            "epoch": number,
            "part": "warm_up" if number == 1 or epoch_seconds is None else "steady",
            "seconds": epoch_seconds,
            "waiting_seconds": None,
            "batches_sha256": None,
            "batch_loss": _loss(entry, "loss"),
            "step_losses": None,
            "evaluations": {
                "test": _evaluation(entry, "test_loss", "test_accuracy"),
                "train": _evaluation(entry, "loss", "accuracy"),
            },
        }
        for number, (entry, epoch_seconds) in enumerate(zip(entries, seconds, strict=True), start=1)
    ][:diverged]
    if untimed(curves):
        training_seconds = (entries[len(curves) - 1].seen or end) - ((before and before.seen) or start)
    else:
        training_seconds = sum(entry["seconds"] for entry in curves)
    return curves, _divergence(entries, diverged) if diverged else None, training_seconds


def _check_first(metrics: Mapping, entries: Sequence[Entry]) -> None:
    """Raise CommandError if epoch 0 is not from before a training whose epochs all have a report of their own."""
    later = entries[1:]
    of_training = {name for entry in later for name in entry.values if name in ("loss", "accuracy")}
    of_all = {name for entry in entries for name in entry.values}
    if any(of_training - entry.values.keys() for entry in later) or of_all - later[-1].values.keys():
        raise CommandError(
            f"{source_of(metrics)} has the epochs 0 to {len(later)}, and some of them lack a value: let training and "
            "test give an epoch one number, and let each be reported once"
        )


def _evaluation(entry: Entry, loss: str, accuracy: str) -> dict:
    return {"loss": _loss(entry, loss), "accuracy": entry.values.get(accuracy), "top5_accuracy": None}


def _loss(entry: Entry, name: str) -> float | str | None:
    return encode_loss(entry.values[name]) if name in entry.values else None


def _losses(entry: Entry) -> list[float]:
    return [entry.values[name] for name in ("loss", "test_loss") if name in entry.values]


def _not_finite(entry: Entry) -> bool:
    return not all(map(math.isfinite, _losses(entry)))


def _divergence(entries: Sequence[Entry], epoch: int) -> dict:
    earlier = _losses(entries[epoch - 2])[:1] if epoch > 1 else []
    kind = "nan" if any(map(math.isnan, _losses(entries[epoch - 1]))) else "inf"
    return {"kind": kind, "epoch": epoch, "step": None, "last_finite_loss": earlier[0] if earlier else None}


def _wrong_count(metrics: Mapping, found: int, epochs: int) -> str:
    if not found:
        what = "no line that matches the pattern" if metrics["format"] == "regex" else "no epoch"
        return f"{source_of(metrics)} has {what}: compare it with the key metrics of the command"
    unnumbered = metrics["format"] in ("csv", "json-lines") and "epoch" not in columns_of(metrics)
    hint = " Or do several lines belong to one epoch? Then name its column epoch in columns." if unnumbered else ""
    return (
        f"{source_of(metrics)} has {found} epoch{'s' if found > 1 else ''}, and the run is of {epochs}: does the "
        f"command use {{epochs}}?{hint}"
    )


def _check_columns(metrics: Mapping, entries: Sequence[Entry]) -> None:
    """Raise CommandError if no epoch has a value of a column that the config names."""
    for name, column in metrics["columns"].items():
        if not any(name in entry.values for entry in entries):
            raise CommandError(f"{source_of(metrics)} has no value of {column}, which columns names as {name}")


def _check_numbers(metrics: Mapping, entries: Sequence[Entry], before: Entry | None) -> None:
    """Raise CommandError if the epochs' own numbers do not follow each other."""
    numbers = [entry.values["epoch"] for entry in entries if "epoch" in entry.values]
    steps = [later - earlier for earlier, later in pairwise([0.0, *numbers] if before else numbers)]
    # Hugging Face's Trainer leaves out the batches that fill no update: 0.94, 1.88. Others number the updates.
    in_shares = all(place - 1 < number <= place for place, number in enumerate(numbers, start=1))
    if not (
        all(step == 1 for step in steps)
        or (in_shares and all(0.5 < step < 1.001 for step in steps))
        or _are_last_steps(numbers)
    ):
        first = ", ".join(f"{number:g}" for number in numbers[:8])
        raise CommandError(
            f"{source_of(metrics)} has the epochs {first}, which do not follow each other: let the command report each "
            "epoch once, and read the number of the epoch or, if each report is of one epoch, none"
        )


def _are_last_steps(numbers: Sequence[float]) -> bool:
    """Whether these are the steps with which epochs of one length end: 100, 200, 300, or 99, 199, 299."""
    return numbers[0] > 2 and any(
        numbers == [(numbers[0] + shift) * place - shift for place in range(1, len(numbers) + 1)] for shift in (0, 1)
    )


def _seconds(
    metrics: Mapping, before: Entry | None, entries: Sequence[Entry], start: float, end: float
) -> Sequence[float | None]:
    """Return the time of each epoch: the command's own or, without one, between the moments of two reports.

    All are None if two reports came within MOMENT_SECONDS (the epochs are too short, or the command's output was held
    back in a buffer), or if a file was written anew, so that the moments are not known.
    """
    ran_seconds = end - start
    if all("seconds" in entry.values for entry in entries):
        own = True
        seconds = [entry.values["seconds"] for entry in entries]
    elif all("elapsed_seconds" in entry.values for entry in entries):
        own = True
        first = (before or Entry({}, None)).values.get("elapsed_seconds", 0.0)
        ends = [first, *(entry.values["elapsed_seconds"] for entry in entries)]
        since_another = FORMATS[metrics["format"]].has_times or ends[-1] > ran_seconds + 1  # the first begins unseen
        if since_another and before is None:
            ends[0] = ends[1] - max(ran_seconds - (ends[-1] - ends[1]), 0.0)
        seconds = [later - earlier for earlier, later in pairwise(ends)]
    else:
        own = False
        moments = [start, *(entry.seen for entry in entries)]
        if before:
            moments[0] = before.seen
        if None in moments:
            if metrics["format"] not in LINE_FORMATS:
                raise CommandError(f"{source_of(metrics)} has no times: name seconds or elapsed_seconds in columns")
            print(
                f"{source_of(metrics)} was written anew with other lines: the run is kept without times of its epochs. "
                "Let the command append its lines, or name seconds or elapsed_seconds in columns",
                flush=True,
            )
            return [None] * len(entries)
        seconds = [later - earlier for earlier, later in pairwise(moments)]  # type: ignore[operator]
        if min(seconds) < 0:
            late = next(epoch for epoch, value in enumerate(seconds) if value < 0)
            raise CommandError(
                f"{source_of(metrics)} has the report of epoch {late + 1} before that of epoch {late}: read the group "
                "or column epoch, and let the command write its epochs in their order"
            )
        if min(seconds[1:], default=1.0) < MOMENT_SECONDS:
            print(
                f"{source_of(metrics)} reports several epochs at the same moment: the run is kept without times of its "
                "epochs. If the command holds its output back, let it write each epoch at once (python -u, flush=True)",
                flush=True,
            )
            return [None] * len(entries)
    _check_seconds(metrics, seconds, ran_seconds, own)
    if not all(seconds[1:]):
        print(f"{source_of(metrics)} gives epochs 0 s, too coarse a time: the run is kept without times", flush=True)
        return [None] * len(entries)
    return seconds


def _check_seconds(metrics: Mapping, seconds: Sequence[float], ran_seconds: float, own: bool) -> None:
    """Raise CommandError for times that can't be: negative, not finite, or longer than the command ran."""
    for epoch, value in enumerate(seconds, start=1):
        if not math.isfinite(value) or value < 0:
            raise CommandError(f"{source_of(metrics)} gives epoch {epoch} {value:g} s, which is no time")
    rounded = 0.5 if all(value == int(value) for value in seconds) else 0.01
    if own and sum(seconds) > ran_seconds + rounded * len(seconds):
        raise CommandError(
            f"{source_of(metrics)} gives its epochs {sum(seconds):.1f} s, but the command ran for {ran_seconds:.1f} s"
        )
