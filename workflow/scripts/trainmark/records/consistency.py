"""Checks a record against itself: its results must follow from its curves, its phases from its epochs, and so on."""

from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from math import ceil, inf, isclose, isfinite

from trainmark.machine.disturbance import disturbance_of
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.clock import SECONDS, contradicting_moments, contradicting_sums, contradicting_times, is_settled
from trainmark.records.resolved import batch_size_of, epoch_steps_of
from trainmark.records.result import command_result, part_of, peak_shares, result, untimed
from trainmark.records.shares import contradicting_ranks
from trainmark.records.step_losses import step_losses

ACCURACY_TOLERANCE = 1e-6
"""Largest distance of accuracy x samples from an integer, in samples."""


def contradictions(record: Mapping) -> Iterator[str]:
    """Yield each contradiction within a record that fits its schema, as a phrase. Yields nothing for a valid record."""
    try:
        of_command = record["run"]["framework"] == FRAMEWORK
        for check in OF_EVERY_RUN if of_command else (*OF_EVERY_RUN, *OF_TRAININGS):
            yield from check(record)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        yield f"it has a value that no run can have ({type(error).__name__}: {error})"


def _inputs(record: Mapping) -> Iterator[str]:
    if record["dataset"]["name"] != record["run"]["dataset"]:
        yield f"its dataset is {record['dataset']['name']} in one place and {record['run']['dataset']} in another"


def _compilation_cache(record: Mapping) -> Iterator[str]:
    if record["compilation_cache"] and not record["settings"].get("compilation_cache"):
        yield "it counts programs of a compilation cache, but its settings have none"


def _status(record: Mapping) -> Iterator[str]:
    status = record["status"]
    for censored in ("diverged", "out_of_memory"):
        if (record[censored] is not None) != (status == censored):
            yield f"its status is {status}, but its {censored} is {record[censored]}"
    if record["weights"] and status != "ok":
        yield f"its status is {status}, but it names trained weights"
    if record["peak"] and status != "ok":
        yield f"its status is {status}, but it has a peak"
    finite = [not isinstance(loss, str) for entry in record["curves"] for loss in _losses(entry)]
    if status == "ok" and not all(finite):
        yield "its status is ok, but a loss of its curves is not finite"


def _losses(entry: Mapping) -> list[float | str | None]:
    return [entry["batch_loss"], *(one["loss"] for one in entry["evaluations"].values())]


def _epochs(record: Mapping) -> Iterator[str]:
    curves, configured = record["curves"], record["run"]["epochs"]
    epochs = [entry["epoch"] for entry in curves]
    if epochs != list(range(1, len(curves) + 1)) or len(curves) > configured:
        yield f"its curves hold the epochs {epochs[:5]}..., but its run is of {configured} epochs"
    last_epochs = {"ok": configured, "diverged": (record["diverged"] or {}).get("epoch")}
    last = last_epochs.get(record["status"], len(curves))
    if len(curves) != last:
        yield f"its curves hold {len(curves)} epochs, but its status {record['status']} implies {last}"
    starts = [session["first_epoch"] for session in record["sessions"]]
    ascending = all(first <= second for first, second in pairwise(starts))
    if starts[0] != 1 or not ascending or record["resumes"] != len(starts) - 1:
        yield f"its {len(starts)} sessions begin with the epochs {starts}, but its resumes are {record['resumes']}"
    parts, warm_up = [entry["part"] for entry in curves], set(epochs if untimed(curves) else starts)
    if parts != ["warm_up" if epoch in warm_up else "steady" for epoch in epochs]:
        yield "its warm_up epochs are not the first epochs of its sessions"


def _results(record: Mapping) -> Iterator[str]:
    recorded, curves = record["result"], record["curves"]
    if record["run"]["framework"] == FRAMEWORK:
        seconds = recorded["training_seconds"] if untimed(curves) else sum(entry["seconds"] for entry in curves)
        expected = command_result(curves, seconds)
    else:
        expected = result(curves, recorded["first_step_seconds"], record["dataset"]["samples"]["train"])
    for name, value in expected.items():
        if recorded[name] != value:
            yield f"result.{name} is {recorded[name]}, but its curves give {value}"


def _accuracies(record: Mapping) -> Iterator[str]:
    """An accuracy is an integer divided by the number of samples; most invented ones are not."""
    evaluations = list(_evaluations(record))
    for when, split, figures in evaluations:
        accuracies = {"accuracy": figures["accuracy"], "top-5 accuracy": figures["top5_accuracy"]}
        for name, accuracy in accuracies.items():
            correct = (accuracy or 0.0) * record["dataset"]["samples"][split]
            if abs(correct - round(correct)) > ACCURACY_TOLERANCE:
                yield f"{when} the {name} on the {split} split is not a whole number of samples"
        finite = not isinstance(figures["loss"], str)  # NaN logits can be right by argmax, but not among the top 5
        if figures["top5_accuracy"] is not None and finite and figures["top5_accuracy"] < figures["accuracy"]:
            yield f"{when} the top-5 accuracy on the {split} split is below the accuracy"
    if len({figures["top5_accuracy"] is None for *_, figures in evaluations}) > 1:
        yield "some of its evaluations have a top-5 accuracy and others do not"


def _evaluations(record: Mapping) -> Iterator[tuple[str, str, Mapping]]:
    """Yield (when in words, split, evaluation) of all evaluations."""
    for entry in record["curves"]:
        for split, figures in entry["evaluations"].items():
            yield f"in epoch {entry['epoch']}", split, figures
    for figures in record["step_evaluations"]:
        yield f"after step {figures['step']}", "test", figures
    if record["initial_evaluation"]:
        yield "before training", "test", record["initial_evaluation"]


def _step_evaluations(record: Mapping) -> Iterator[str]:
    """They follow from the setting: after every so many steps of each trained epoch, but not at its end."""
    curves, found = record["curves"], record["step_evaluations"]
    every = record["settings"].get("evaluation_steps")
    steps = epoch_steps_of(record)
    epochs = len(curves) + (not is_settled(record))  # memory may have run out within the next one
    within = range(every, steps, every) if every else ()
    expected = [(epoch, (epoch - 1) * steps + step) for epoch in range(1, epochs + 1) for step in within]
    places = [(one["epoch"], one["step"]) for one in found]
    if places != expected[: len(places)] or (record["status"] == "ok" and places != expected):
        after, implied = ([step for _, step in listed] for listed in (places, expected))
        yield f"its evaluations within epochs are after the steps {after[:6]}, but its settings imply {implied[:6]}"
        return
    ends = [0.0, *accumulate(entry["seconds"] or 0.0 for entry in curves), inf]
    earlier = 0.0
    for one in found:
        seconds = one["training_seconds"]
        low, high = max(earlier, ends[one["epoch"] - 1]), ends[one["epoch"]]
        if not (low <= seconds <= high or any(isclose(seconds, limit, **SECONDS) for limit in (low, high))):
            yield (
                f"after step {one['step']} it had trained for {seconds:.6f} s, but its epochs allow {low:.6f} to "
                f"{high:.6f} s"
            )
        earlier = seconds


def _waiting(record: Mapping) -> Iterator[str]:
    """Inputs are a stream in all epochs or in none, and no epoch waits for longer than it takes."""
    curves = record["curves"]
    if len({entry["waiting_seconds"] is None for entry in curves}) > 1:
        yield "some of its epochs waited for batches and others have no such time"
    for entry in curves:
        if (waiting := entry["waiting_seconds"] or 0.0) > (seconds := entry["seconds"] or 0.0):
            yield f"in epoch {entry['epoch']} it waited {waiting:.6f} s for batches, but trained for {seconds:.6f} s"


def _steps(record: Mapping) -> Iterator[str]:
    samples, epochs = record["dataset"]["samples"]["train"], len(record["curves"])
    batch_size = batch_size_of(record)
    of_epoch, of_last = epoch_steps_of(record), _steps_of_last_epoch(record)
    steps = (epochs - 1) * of_epoch + of_last if epochs else 0
    trained = (epochs - 1) * samples + min(of_last * batch_size, samples) if epochs else 0
    counts = {"samples": trained, "batches": steps, "updates": steps}
    if record["counted"] != counts and is_settled(record):
        yield f"its framework counted {record['counted']}, but its epochs have {counts}"
    if record["network"]["dropout"] != (record["initial_evaluation"] is not None) and epochs:
        yield "it must have an evaluation before training if its network has dropout, and none otherwise"


def _step_losses(record: Mapping) -> Iterator[str]:
    """Every step of an epoch has a loss, and their mean over the samples is the epoch's."""
    samples, batch_size = record["dataset"]["samples"]["train"], batch_size_of(record)
    for entry in record["curves"]:
        losses, is_last = step_losses(entry), entry is record["curves"][-1]
        expected = _steps_of_last_epoch(record) if is_last else epoch_steps_of(record)
        if len(losses) != expected:
            yield f"it has {len(losses)} step losses in epoch {entry['epoch']}, but trained {expected} steps"
            continue
        short = max(0, len(losses) * batch_size - samples)  # samples that the last batch lacks
        mean = (sum(losses) * batch_size - losses[-1] * short) / (len(losses) * batch_size - short)
        if isfinite(mean) and not isclose(mean, float(entry["batch_loss"]), rel_tol=1e-5):
            yield f"in epoch {entry['epoch']} its batch_loss is {entry['batch_loss']}, but its step losses give {mean}"


def _steps_of_last_epoch(record: Mapping) -> int:
    """Return the number of steps of the last epoch. A run that diverges ends its epoch with the part it is in."""
    steps = epoch_steps_of(record)
    if record["status"] != "diverged":
        return steps
    part = part_of(record) or steps
    step_in_epoch: int = record["diverged"]["step"] - (record["diverged"]["epoch"] - 1) * steps
    return min(ceil(step_in_epoch / part) * part, steps)


def _communication(record: Mapping) -> Iterator[str]:
    if measured := record.get("communication"):
        steps, batch_size = measured["steps"], batch_size_of(record)
        samples = min(steps * batch_size, record["dataset"]["samples"]["train"])
        if measured["samples"] != samples or sum(measured["alone_samples"]) != samples:
            yield (
                f"its communication was measured with {measured['samples']} samples together and "
                f"{measured['alone_samples']} alone, but {steps} steps have {samples}"
            )


def _peak(record: Mapping) -> Iterator[str]:
    """A share above 1 is no contradiction: a convolution may need fewer operations than are counted (Winograd)."""
    if (peak := record["peak"]) is None:
        return
    stated_twice = {
        "threads": (peak["threads"], record["provenance"]["threads"]),
        "dtype": (peak["dtype"], record["network"]["dtype"]),
    }
    for name, (first, second) in stated_twice.items():
        if first != second:
            yield f"its {name} is {first} in its peak and {second} in another place"
    for name, value in peak_shares(record["curves"], record["dataset"]["samples"]["train"], peak).items():
        if peak[name] != value:
            yield f"peak.{name} is {peak[name]}, but its curves and its peak give {value}"


def _machine(record: Mapping) -> Iterator[str]:
    cpus = len(record["sessions"][-1]["cpus"])
    followed = disturbance_of([record, *record.get("other_ranks", ())])
    if followed != (record["disturbed"] and {"causes": record["disturbed"]["causes"]}):  # programs follow from nothing
        yield "its disturbances do not follow from its machine entries"
    threads = record["provenance"]["threads"]
    if threads > cpus or (threads < cpus and record["run"]["loop"] == "stock"):
        yield f"its number of threads is {threads} in its {record['run']['loop']} loop, but it held {cpus} of the CPUs"


OF_EVERY_RUN = (_inputs, _compilation_cache, _status, _epochs, _results, contradicting_sums, _machine)

OF_TRAININGS = (
    _accuracies, _waiting, _step_evaluations, _steps, _step_losses, contradicting_times,
    contradicting_moments, contradicting_ranks,
    _communication, _peak,
)  # fmt: skip
"""Checks of what is known of trainings, but not of commands."""
