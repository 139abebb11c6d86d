"""How a run ended, and how equal trainers are, for people. Standard library only: the workflow itself prints it."""

import re
from collections.abc import Iterable, Iterator, Mapping

from trainmark.machine.disturbance import disturbance_in_words
from trainmark.records.result import untimed


def run_sentence(record: Mapping) -> str:
    """Result, training time and disturbances of a run: "test accuracy 0.9750, test loss 0.0950, 1.23 s of training".

    record: as its file holds it.
    """
    seconds = record["result"]["training_seconds"]
    trained = "" if seconds is None else f", {seconds:.2f} s of training"
    resumed = f"; resumed {times(record['resumes'])}" if record["resumes"] else ""
    causes = disturbance_in_words(record["disturbed"])
    disturbed = f"; disturbed: {causes}" if causes else ""
    untimed_epochs = (
        "; no times of its epochs, which it reported at the same moment" if untimed(record["curves"]) else ""
    )
    others = len(record["other_attempts"])
    chosen = f"; the least disturbed of {others + 1} attempts" if others else ""
    return f"{_status(record)}{trained}{resumed}{disturbed}{untimed_epochs}{chosen}"


def _status(record: Mapping) -> str:
    result, diverged, exceeded = record["result"], record["diverged"], record["out_of_memory"]
    if diverged:
        step = f"at step {diverged['step']}, " if diverged["step"] else "in "
        return f"diverged: loss is {diverged['kind']} {step}epoch {diverged['epoch']}"
    if exceeded:
        when = f"epoch {exceeded['epoch']}" if exceeded["epoch"] else exceeded["phase"].replace("_", " ")
        return f"out of memory in {when}: {exceeded['message']}"
    known = [name for name in ("test_accuracy", "test_loss", "train_loss") if result.get(name) is not None][:2]
    return ", ".join(f"{name.replace('_', ' ')} {format_loss(result[name])}" for name in known) or "done"


DIFFERENCE = r" \(largest difference ([^)]+)\)"


def pair_lines(pairs: Iterable[Mapping]) -> Iterator[str]:
    """Yield a line for each pair of a certificate; pairs that are equal in the same words share one."""
    alike: dict[str, list[Mapping]] = {}
    for pair in pairs:
        words = re.sub(DIFFERENCE, "", pair["sentence"])
        alike.setdefault(words if re.match("bitwise equal|equal ", words) else str(pair), []).append(pair)
    for words, same in alike.items():
        first, *others = same
        found = re.findall(DIFFERENCE, " ".join(pair["sentence"] for pair in same))
        largest = f" (largest difference {max(found, key=float)})" if found else ""
        yield (
            f"{len(same)} pairs: {words}{largest}"
            if others
            else (f"{first['first']} and {first['second']}: {first['sentence']}")
        )


def times(count: int) -> str:
    """How often: "once", "2 times"."""
    return "once" if count == 1 else f"{count} times"


def format_loss(value: float | str) -> str:
    """A loss or an accuracy to four decimals; a loss that is not finite is a word already ("NaN")."""
    if isinstance(value, str):
        return value
    return f"{value:.4f}" if abs(value) < 1e5 else f"{value:.4g}"
