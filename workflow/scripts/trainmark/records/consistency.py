"""Does a record contradict itself? Its results follow from its curves, and its phases from its epochs."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import ceil, isclose

from trainmark.machine.disturbance import disturbance
from trainmark.records.inputs import are_those_of
from trainmark.records.result import result

SECONDS = {"rel_tol": 1e-6, "abs_tol": 1e-6}
"""How near two sums of the same seconds are to each other."""

ACCURACY_TOLERANCE = 1e-6
"""How near to a whole number an accuracy times its samples is, in samples."""


def contradictions(record: Mapping) -> Iterator[str]:
    """Each way in which a record that fits its schema contradicts itself, as a phrase; none in one that is whole."""
    try:
        for check in (_settings, _status, _epochs, _results, _accuracies, _steps, _phases, _machine):
            yield from check(record)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        yield f"a value in it is none that a run can have ({type(error).__name__}: {error})"


def _settings(record: Mapping) -> Iterator[str]:
    settings, inputs = record["settings"], record["inputs"]
    asked, recipe, samples = settings["experiment"], inputs["recipe"], record["dataset"]["samples"]
    if not are_those_of(record):
        yield "the digest of its inputs is not that of its settings, data and code"
    size = {"recipe": recipe.get("batch_size"), "full": None}.get(asked.get("batch_size"), asked.get("batch_size"))
    expected = {
        "seed": (settings["seed"], asked.get("seed")),
        "optimizer": (settings["optimizer"], recipe.get("optimizer")),
        "initializer": (settings["initializer"], recipe.get("initializer")),
        "batch size": (settings["batch_size"], min(int(size or samples["train"]), samples["train"])),
        "dataset": (record["dataset"]["name"], record["run"]["dataset"]),
    }
    for name, (found, wanted) in expected.items():
        if found != wanted:
            yield f"its {name} is {found} in one place and {wanted} in another"


def _status(record: Mapping) -> Iterator[str]:
    status = record["status"]
    for censored in ("diverged", "out_of_memory"):
        if (record[censored] is not None) != (status == censored):
            yield f"its status is {status}, and it says {censored}: {record[censored]}"
    if record["weights"] and status != "ok":
        yield f"its status is {status}, and it names trained weights"
    finite = [not isinstance(loss, str) for entry in record["curves"] for loss in _losses(entry)]
    if status == "ok" and not all(finite):
        yield "its status is ok, and a loss of its curves is not finite"


def _losses(entry: Mapping) -> list[float | str]:
    return [entry["batch_loss"], *(one["loss"] for one in entry["evaluations"].values())]


def _epochs(record: Mapping) -> Iterator[str]:
    curves, asked = record["curves"], record["run"]["epochs"]
    epochs = [entry["epoch"] for entry in curves]
    if epochs != list(range(1, len(curves) + 1)) or len(curves) > asked:
        yield f"its curves hold the epochs {epochs[:5]}..., and {asked} were asked for"
    ends = {"ok": asked, "diverged": (record["diverged"] or {}).get("epoch")}
    end = ends.get(record["status"], len(curves))
    if len(curves) != end:
        yield f"its curves hold {len(curves)} epochs, and its status {record['status']} says {end}"
    begun = [session["first_epoch"] for session in record["sessions"]]
    if begun[0] != 1 or any(second < first for first, second in pairwise(begun)) or record["resumes"] != len(begun) - 1:
        yield f"{len(begun)} sessions begin with the epochs {begun}, and it says {record['resumes']} resumes"
    parts = [entry["part"] for entry in curves]
    if parts != ["warm_up" if epoch in begun else "steady" for epoch in epochs]:
        yield "the epochs that it calls warm_up are not the first ones of its sessions"


def _results(record: Mapping) -> Iterator[str]:
    found, samples = record["result"], record["dataset"]["samples"]["train"]
    for name, value in result(record["curves"], found["first_step_seconds"], samples).items():
        if found[name] != value:
            yield f"result.{name} is {found[name]}, and its curves give {value}"


def _accuracies(record: Mapping) -> Iterator[str]:
    """An accuracy is a whole number of samples by their number: most invented ones are not."""
    for entry in record["curves"]:
        for split, figures in entry["evaluations"].items():
            right = figures["accuracy"] * record["dataset"]["samples"][split]
            if abs(right - round(right)) > ACCURACY_TOLERANCE:
                yield f"in epoch {entry['epoch']} the accuracy of the {split} split is no whole number of samples"


def _steps(record: Mapping) -> Iterator[str]:
    samples, epochs = record["dataset"]["samples"]["train"], len(record["curves"])
    steps = epochs * ceil(samples / record["settings"]["batch_size"])
    counts = {"samples": epochs * samples, "batches": steps, "updates": steps}
    if record["counted"] != counts and _is_settled(record):
        yield f"its framework counted {record['counted']}, and its epochs have {counts}"
    if record["settings"]["dropout"] != (record["initial_evaluation"] is not None) and epochs:
        yield "an evaluation before training belongs to every run with dropout, and to no other"
    kept, wanted = len(record["step_losses"]), min(record["settings"]["experiment"].get("step_losses", steps), steps)
    if kept != wanted and _is_settled(record):
        yield f"it holds the losses of {kept} first steps, and its epochs give {wanted}"


def _phases(record: Mapping) -> Iterator[str]:
    phases, wall = record["phases_seconds"], record["wall_seconds"]
    if not isclose(total := sum(phases.values()), wall, **SECONDS):
        yield f"its phases sum to {total:.6f} s, and its wall time is {wall:.6f} s"
    sums = {
        part: sum(entry["seconds"] for entry in record["curves"] if entry["part"] == part)
        for part in ("warm_up", "steady")
    } | {"compilation": record["result"]["first_step_seconds"] or 0.0}
    for phase, seconds in sums.items():
        if not isclose(phases[phase], seconds, **SECONDS) and _is_settled(record):
            yield f"its phase {phase} has {phases[phase]:.6f} s, and its epochs and first step give {seconds:.6f} s"


def _machine(record: Mapping) -> Iterator[str]:
    cpus = len(record["sessions"][-1]["cpus"])
    if record["disturbed"] != disturbance(record["machine"], cpus):
        yield "what it says of disturbances does not follow from what the machine did"


def _is_settled(record: Mapping) -> bool:
    """Whether the run ended between two steps: memory runs out within one, and another thread may write the record."""
    return bool(record["status"] != "out_of_memory")
