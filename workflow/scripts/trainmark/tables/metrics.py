"""The metrics: for each its heading, its unit, its place in a record, and when it is compared. A new one is a row."""

from dataclasses import dataclass

from trainmark.records.record import PHASES

CURRENCY = "currency"
"""The unit of costs, which the prices of the config name."""

ALWAYS, AT_TARGET, OF_RESULTS, OF_VARIANTS = "always", "at target", "results", "variants"
"""When two sets of runs are compared by a metric: in each group; with a target accuracy, at the largest number of
epochs; between variants, and if each framework draws its own dropout masks (results are else equal up to rounding);
between variants that both measured it."""

NOT_DISTINGUISHABLE = "not distinguishable"
"""The verdict on an interval that contains 1."""


@dataclass(frozen=True)
class Metric:
    """A value of each run.

    heading: its name in tables, with its unit. unit: of its values.
    path: of its value in a record; "" if it follows from others. is_lasting: whether a disturbance leaves it as it is.
    compared: when two sets of runs are compared by it; "" for never. words: the verdicts on a smaller and a larger one.
    waited: the column of the table of runs with the share of it that the run waited for data; "" for none.
    """

    heading: str
    unit: str
    path: str = ""
    is_lasting: bool = False
    compared: str = ""
    waited: str = ""
    words: tuple[str, str] = ("lower", "higher")


def _time(heading: str, path: str = "", compared: str = "", waited: str = "") -> Metric:
    return Metric(heading, "s", path, compared=compared, waited=waited, words=("faster", "slower"))


METRICS = {
    "training_seconds": _time("training, s", "result.training_seconds", ALWAYS, "training_waiting_share"),
    "first_step_seconds": _time("first step, s", "result.first_step_seconds"),
    "steady_epoch_seconds": _time("steady epoch, s", "result.steady_epoch_seconds", ALWAYS, "waiting_share"),
    "samples_per_second": Metric("samples/s", "1/s", "result.samples_per_second"),
    "waiting_share": Metric("waiting for data", "share", "result.waiting_share"),
    "test_loss": Metric("test loss", "1", "result.test_loss", is_lasting=True, compared=OF_RESULTS),
    "test_accuracy": Metric("test accuracy", "share", "result.test_accuracy", is_lasting=True, compared=OF_RESULTS),
    "test_top5_accuracy": Metric("test top-5 accuracy", "share", "result.test_top5_accuracy", is_lasting=True),
    "train_loss": Metric("train loss", "1", "result.train_loss", is_lasting=True),
    "train_accuracy": Metric("train accuracy", "share", "result.train_accuracy", is_lasting=True),
    "peak_host_mib": Metric("peak memory, MiB", "MiB", "memory.peak_host_mib", is_lasting=True),
    "peak_device_mib": Metric("peak GPU memory, MiB", "MiB", "memory.peak_device_mib", is_lasting=True),
    "training_joules": Metric(
        "energy of training, J", "J", "energy.training_joules", compared=OF_VARIANTS, waited="training_waiting_share"
    ),
    "epoch_joules": Metric("energy per epoch, J", "J"),
    "cost": Metric("cost", CURRENCY),
    "epoch_cost": Metric("cost per epoch", CURRENCY),
    "training_gflop_per_second": Metric("training, GFLOP/s", "GFLOP/s"),
    "peak_gflop_per_second": Metric("peak of the framework, GFLOP/s", "GFLOP/s"),
    "memory_gb_per_second": Metric("memory, GB/s", "GB/s"),
    "peak_share": Metric("share of the framework's peak", "share"),
    "machine_peak_share": Metric("share of the machine's peak", "share"),
    "communication_share": Metric("communication", "share"),
    "cpu_share": Metric("use of the CPUs held", "share"),
}
"""But for those of phases and of the compilation cache."""

PHASE_METRICS = {f"phases.{phase}": _time(phase.replace("_", " "), f"phases_seconds.{phase}") for phase in PHASES} | {
    "wall_seconds": _time("wall time", "wall_seconds"),
    "working_seconds": _time("wall time without waiting and peak"),
}

CACHE_COUNTS = {"cached_programs": Metric("hits", "1"), "compiled_programs": Metric("misses", "1")}

PHASE_SHARES = {f"phase_shares.{phase}": Metric(f"share of {phase.replace('_', ' ')}", "share") for phase in PHASES}

WITH_MEDIAN = METRICS | PHASE_METRICS | PHASE_SHARES | CACHE_COUNTS
"""All that have a median, but for scored texts."""

KNOWN = WITH_MEDIAN | {"target_seconds": _time("time to accuracy, s", "", AT_TARGET, "training_waiting_share")}
"""Not every run reaches the target, so that the time to it has no median."""

COMPARED = {name: metric for name, metric in KNOWN.items() if metric.compared}

VERDICTS = {*(word for metric in COMPARED.values() for word in metric.words), NOT_DISTINGUISHABLE}
"""All verdicts. Other texts in their column say why there is none."""
