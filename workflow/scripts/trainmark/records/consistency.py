"""Checks a record against itself: its results must follow from its curves, its phases from its epochs, and so on."""

from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from math import ceil, inf, isclose, isfinite

from trainmark.machine.disturbance import disturbance_of
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.inputs import digest_of_inputs
from trainmark.records.resolved import batch_size_of, epoch_steps_of
from trainmark.records.result import command_result, part_steps, peak_shares, result, untimed
from trainmark.records.shares import contradicting_ranks
from trainmark.records.step_losses import step_losses

SECONDS = {"rel_tol": 1e-6, "abs_tol": 1e-6}
"""Tolerances of `math.isclose` for two sums of the same times."""

SAME_MOMENT, SAME_START = 0.01, 0.5
"""Seconds between two readings of the clock for one moment, and between a process's last readings on a busy machine."""

RANKS_SHARE, RANKS_SECONDS = 0.1, 0.1
"""Largest difference between the times of two ranks, which end each part of an epoch together: as a share, and in
seconds for each epoch."""

CPU_SHARE, CPU_SECONDS = 0.02, 0.1
"""Largest excess of the CPU time that a machine counts, which does so in ticks of 10 ms: as a share, and in seconds for
each CPU. On busy machines .991 to 1.000 of the time was counted."""
ROUNDING = 1e-6
"""Error of a difference of two moments, in seconds: a host may have been up for a year."""

TICK_SECONDS = 0.01
"""The kernel counts the CPU time of threads that compute at that moment by ticks of at most 10 ms."""

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
    inputs, code = record["inputs"], record["provenance"]["code"]
    if inputs["sha256"] != digest_of_inputs(inputs, record["settings"], record["dataset"], code):
        yield "the digest of its inputs does not match its settings, data and code"
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
    epochs = len(curves) + (not _is_settled(record))  # memory may have run out within the next one
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
    if record["counted"] != counts and _is_settled(record):
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
    part = _part_of(record) or steps
    step_in_epoch: int = record["diverged"]["step"] - (record["diverged"]["epoch"] - 1) * steps
    return min(ceil(step_in_epoch / part) * part, steps)


def _part_of(record: Mapping) -> int | None:
    """Return the number of steps of a part of an epoch; None if it has one part."""
    is_streamed = any(entry["waiting_seconds"] is not None for entry in record["curves"])
    return part_steps(record["settings"], is_streamed)


def _phases(record: Mapping) -> Iterator[str]:
    phases, wall = record["phases_seconds"], record["wall_seconds"]
    if not isclose(total := sum(phases.values()), wall, **SECONDS):
        yield f"its phases sum to {total:.6f} s, but its wall time is {wall:.6f} s"
    others = record.get("other_ranks", [])
    if len(others) != record["run"]["workers"] - 1:
        yield f"it has {record['run']['workers']} workers and {len(others)} other ranks"
    for i, rank in enumerate(others, start=1):
        if not isclose(sum(rank["phases_seconds"].values()), rank["wall_seconds"], **SECONDS):
            yield f"the phases of its rank {i} do not sum to the wall time of that rank"
    sums = {
        part: sum(entry["seconds"] or 0.0 for entry in record["curves"] if entry["part"] == part)
        for part in ("warm_up", "steady")
    } | {"compilation": record["result"]["first_step_seconds"] or 0.0}
    if untimed(record["curves"]):
        sums["warm_up"] = record["result"]["training_seconds"]
    for phase, seconds in sums.items():
        if not isclose(phases[phase], seconds, **SECONDS) and _is_settled(record):
            yield f"its phase {phase} is {phases[phase]:.6f} s, but its epochs and first step give {seconds:.6f} s"


def _moments(record: Mapping) -> Iterator[str]:
    """The clock of an epoch ran from its beginning to its end, and no CPU computes for longer than it does."""
    whole = (_part_of(record) or inf) >= epoch_steps_of(record)
    resumed = {session["first_epoch"] for session in record["sessions"][1:]}
    for entry, (came, began, done, ended) in zip(
        record["curves"], (one["moments"] for one in record["epochs"]), strict=True
    ):
        low, high = done - began if whole else 0.0, inf if entry["epoch"] in resumed else ended - came
        if not came <= began <= done <= ended or not low - ROUNDING <= entry["seconds"] <= high + ROUNDING:
            took = f"epoch {entry['epoch']} took {entry['seconds']:.6f} s"
            yield f"{took}, but its moments allow {low:.6f} to {high:.6f} s"
    for rank, one in enumerate([record, *record.get("other_ranks", ())]):
        cpus = max(len(session["cpus"]) for session in one["sessions"])
        for epoch, measured in enumerate(one["epochs"], start=1):
            seconds = measured["moments"][3] - measured["moments"][1]
            if epoch not in resumed and measured["cpu_seconds"] > (1 + CPU_SHARE) * cpus * (seconds + TICK_SECONDS):
                used = f"in epoch {epoch} rank {rank} used {measured['cpu_seconds']:.3f} s of CPU time"
                yield f"{used} in {seconds:.3f} s, but held {cpus} of the CPUs"


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
    if record["disturbed"] != disturbance_of([record, *record.get("other_ranks", ())]):
        yield "its disturbances do not follow from its machine entries"
    threads = record["provenance"]["threads"]
    if threads > cpus or (threads < cpus and record["run"]["loop"] == "stock"):
        yield f"its number of threads is {threads} in its {record['run']['loop']} loop, but it held {cpus} of the CPUs"


def _clock(record: Mapping) -> Iterator[str]:
    """Every time lies within others: epochs in stretches of the machine, these in the time held, and that in the run.

    They are read in other places and at other moments, so who lengthens epochs has to change all of them, and then the
    run holds its CPUs while the next one does (tables/separate_runs.py).
    """
    if not _is_settled(record):
        return
    seconds = [record["result"]["first_step_seconds"] or 0.0, *(entry["seconds"] or 0.0 for entry in record["curves"])]
    is_streamed = any(entry["waiting_seconds"] is not None for entry in record["curves"])
    if part_steps(record["settings"], is_streamed) is None:  # else a stretch may end within an epoch
        for stretch in record["machine"]:
            first, last = stretch["epochs"]
            if (trained := sum(seconds[first : last + 1])) > stretch["seconds"] + SAME_MOMENT:
                yield (
                    f"its epochs {first} to {last} trained for {trained:.6f} s, but the machine was watched for "
                    f"{stretch['seconds']:.6f} s meanwhile"
                )
    for rank in (record, *record.get("other_ranks", ())):
        yield from _nested(rank)
        yield from _cpu_time(rank)
        if not isclose(_trained(rank), _trained(record), rel_tol=RANKS_SHARE, abs_tol=RANKS_SECONDS * len(seconds)):
            yield f"a rank trained for {_trained(rank):.3f} s, but the first one for {_trained(record):.3f} s"


def _trained(rank: Mapping) -> float:
    phases: Mapping[str, float] = rank["phases_seconds"]
    return phases["warm_up"] + phases["steady"]


def _nested(rank: Mapping) -> Iterator[str]:
    sessions = rank["sessions"]
    times = {
        "it trained": rank["phases_seconds"]["compilation"] + _trained(rank),
        "the machine was watched": sum(stretch["seconds"] for stretch in rank["machine"]),
        "it held its CPUs": sum(session["held_seconds"][1] - session["held_seconds"][0] for session in sessions),
        "it ran": rank["wall_seconds"] + sum(session["restart_seconds"] for session in sessions),
    }
    for (inner, shorter), (outer, longer) in pairwise(times.items()):
        if shorter > longer + (SAME_START if outer == "it ran" else SAME_MOMENT):
            yield f"{inner} for {shorter:.3f} s, but {outer} for {longer:.3f} s"


def _cpu_time(rank: Mapping) -> Iterator[str]:
    """CPUs can't be used for longer than they were held. Where the system counts nothing, foreign_seconds is None."""
    cpus, machine = len(rank["sessions"][-1]["cpus"]), rank["machine"]
    if any(stretch["foreign_seconds"] is None for stretch in machine):
        return
    used = sum(one["cpu_seconds"] + one["foreign_seconds"] + (one["steal_seconds"] or 0.0) for one in machine)
    held = cpus * sum(stretch["seconds"] for stretch in machine)
    if used > held * (1 + CPU_SHARE) + cpus * CPU_SECONDS:
        yield f"its {cpus} CPUs were used for {used:.3f} s, but held for {held:.3f} s"


def _is_settled(record: Mapping) -> bool:
    """Whether the run ended between two steps. One that ran out of memory may have ended within a step."""
    return bool(record["status"] != "out_of_memory")


OF_EVERY_RUN = (_inputs, _compilation_cache, _status, _epochs, _results, _phases, _machine)

OF_TRAININGS = (
    _accuracies, _waiting, _step_evaluations, _steps, _step_losses, _clock, _moments, contradicting_ranks,
    _communication, _peak,
)  # fmt: skip
"""Checks of what is known of trainings, but not of commands."""
