"""What machines can do, and the share of it that trainings reach."""

from collections.abc import Mapping

import pandas as pd

PEAK_METRICS = {
    "training_gflop_per_second": "training, GFLOP/s",
    "peak_gflop_per_second": "peak of the framework, GFLOP/s",
    "memory_gb_per_second": "memory, GB/s",
    "peak_share": "share of the framework's peak",
    "machine_peak_share": "share of the machine's peak",
}
"""The heading of each metric of this module. Runs whose peak was not measured have none of them."""

MACHINE = ["machine", "device", "threads", "workers"]
"""The columns that identify what a peak belongs to. All peaks are of float32."""


def peak_of(record: Mapping) -> dict:
    """The columns of a run, without the machine's share, which depends on other runs."""
    peak = record["peak"]
    if peak is None:
        return dict.fromkeys(PEAK_METRICS)
    return {
        "training_gflop_per_second": peak["training_flops_per_second"] / 1e9,
        "peak_gflop_per_second": peak["matrix_flops_per_second"] / 1e9,
        "memory_gb_per_second": peak["memory_bytes_per_second"] / 1e9,
        "peak_share": peak["share_of_peak"],
        "machine_peak_share": None,
    }


def with_machine(runs: pd.DataFrame) -> pd.DataFrame:
    """The table of runs with the column `machine`: the CPU's or the GPU's model."""
    return runs.assign(machine=runs["gpu"].where(runs["device"] == "gpu", runs["cpu_model"]).fillna("unknown"))


def with_machine_shares(runs: pd.DataFrame) -> pd.DataFrame:
    """The table of runs with the share of the machine's peak: the largest of any run on it, by whatever framework."""
    peaks = with_machine(runs).groupby(MACHINE)["peak_gflop_per_second"].transform("max")
    return runs.assign(machine_peak_share=runs["training_gflop_per_second"] / peaks)


def machine_peaks(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per MACHINE: its largest peak with the `framework` and `number` of the run, and its largest bandwidth."""
    measured = with_machine(runs[runs["peak_gflop_per_second"].notna()])
    largest, fastest = (
        measured.sort_values(metric, ascending=False, kind="stable").drop_duplicates(MACHINE)
        for metric in ("peak_gflop_per_second", "memory_gb_per_second")
    )
    memory = fastest[[*MACHINE, "memory_gb_per_second", "number"]].rename(columns={"number": "memory_number"})
    return largest[[*MACHINE, "peak_gflop_per_second", "framework", "number"]].merge(memory, on=MACHINE)
