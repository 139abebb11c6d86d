"""The energy of a run: that of its GPU. The counters of CPUs (RAPL) are root's alone since Linux 5.10."""

from collections.abc import Callable

from trainmark.machine import nvml

NVML_STEP_SECONDS = 0.1
"""Time between two steps of NVML's counter. It is updated every 0.02 to 0.1 s (PETSc's manual, PetscLogGpuEnergyMeter).
The power sensors of A100 and H100 give a value every 0.1 s (Yang, Adamek, Armour: "Part-time Power Measurements",
arXiv 2312.02741)."""

MAX_ERROR = 0.05
"""Largest error of an energy by the steps of its counter, as a share of the time measured. It is also the accuracy that
NVIDIA states for its power readings (NVML's manual, nvmlDeviceGetPowerUsage)."""


class _NotMeasured(Exception):
    """The energy is not measured. The message is the reason."""


class Meter:
    """Measures the energy in joules since the meter was opened.

    source: "nvml", or None if the energy is not measured.
    reason: why it is not measured; None if it is.
    """

    def __init__(self, source: str | None, read: Callable[[], float] | None, reason: str | None) -> None:
        self.source = source
        self.reason = reason
        self._read = read

    def too_coarse(self, parts: int, seconds: float) -> str | None:
        """Return why the counter is too coarse for the energy of these parts; None if it is fine enough.

        It is read before and after each part, whose energy may be wrong by that of one step.

        parts, seconds: number of the parts, and their time together.
        """
        if self.source != "nvml" or parts * NVML_STEP_SECONDS <= MAX_ERROR * seconds:
            return None
        return (
            f"the GPU's energy counter steps by {NVML_STEP_SECONDS:g} s, too coarse for a training of less than "
            f"{NVML_STEP_SECONDS / MAX_ERROR:g} s between two evaluations"
        )

    def joules(self) -> float | None:
        """Return the joules since the meter was opened; None if not, or no longer, measured (see `reason`)."""
        if self._read is None:
            return None
        try:
            return self._read()
        except _NotMeasured as error:
            self.source, self.reason, self._read = None, str(error), None
            return None


def open_meter(gpu_uuid: str | None) -> Meter:
    """Open the energy meter of a run, which reads the counter of its GPU, for the whole board.

    gpu_uuid: UUID of the GPU that the run holds; None for a run on CPUs.
    """
    if gpu_uuid is None:
        return Meter(None, None, "the energy of CPUs is not measured: root alone may read their counters")
    if nvml.is_instance(gpu_uuid):
        return Meter(None, None, "the run holds an instance of a GPU (MIG), and the counter counts the whole GPU")

    def read() -> float:
        if (joules := nvml.energy_joules(gpu_uuid)) is None:
            raise _NotMeasured(nvml.describe(gpu_uuid).get("reason", "this GPU has no energy counter"))
        return joules

    try:
        start = read()
    except _NotMeasured as error:
        return Meter(None, None, str(error))
    return Meter("nvml", lambda: read() - start, None)
