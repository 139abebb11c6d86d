"""The steps from a framework's stock loop to its tuned loop. Each `*_tuned` module lists its own in a table TUNING."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from trainmark.machine.cpus import has_avx512


@dataclass(frozen=True)
class TuningStep:
    """One step of the tuning. Each builds on those before it.

    name: by which the tuned adapter knows it.
    text: what it does, for tables and figures.
    device: the only device on which it is taken; None for both.
    op: beginning of the names of the layer types that it makes faster; it is taken in networks with one of them.
    slow_with: beginning of the names of the layer types that it makes slower on the CPU; it is not taken there in
        networks with one of them.
    resident: whether it makes only trainings faster whose samples are in memory.
    streamed: whether it makes only trainings faster whose images are streamed.
    avx512_environment: environment variables that are the step, set before numpy is imported; it is taken on a CPU with
        AVX-512.
    """

    name: str
    text: str
    device: str | None = None
    op: str = ""
    slow_with: str | None = None
    resident: bool = False
    streamed: bool = False
    avx512_environment: dict[str, str] = field(default_factory=dict)

    def is_taken(self, ops: Collection[str], device: str) -> bool:
        """Return whether a network of these layer types trains on a device with this step."""
        if self.device not in (None, device) or (self.avx512_environment and not has_avx512()):
            return False
        slow = device == "cpu" and self.slow_with and any(op.startswith(self.slow_with) for op in ops)
        return any(op.startswith(self.op) for op in ops) and not slow


StepsTaken = Callable[[Collection[str], str], Collection[str]]
"""A function (layer types of a network, device) -> names of the steps that a tuned adapter takes."""
