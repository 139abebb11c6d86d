"""A trainer: a framework on a device, with a loop and a number of workers.

How a trainer is written in paths and options, and how tables and texts name it, is decided here.
"""

import re
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from trainmark.errors import ConfigError

DEVICES = ("cpu", "gpu")

LOOPS = ("stock", "tuned")
"""How a framework may train. stock: as its own documentation does. tuned: as fast as its public interface allows, with
the same arithmetic."""

STOCK, TUNED = LOOPS

_WRITTEN = (
    r"(?P<framework>[a-z0-9-]+)-(?P<device>cpu|gpu)"
    r"(?:-(?P<loop>tuned))?(?:-w(?P<workers>[0-9]+))?"
)
_NAMED = (
    r"(?P<framework>.+?)(?: (?P<loop>tuned))? on (?P<device>cpu|gpu)"
    r"(?: with (?P<workers>[0-9]+) workers)?"
)


class Trainer(NamedTuple):
    """What trains a run. Runs are grouped and compared by it. As text, it is written as in paths: chainer-gpu-tuned."""

    framework: str
    device: str
    loop: str = STOCK
    workers: int = 1

    def __str__(self) -> str:
        loop = [] if self.loop == STOCK else [self.loop]
        workers = [] if self.workers == 1 else [f"w{self.workers}"]
        return "-".join((self.framework, self.device, *loop, *workers))

    @property
    def name(self) -> str:
        """Its name in tables and texts: "keras-jax on cpu", or "keras-jax tuned on cpu"."""
        loop = "" if self.loop == STOCK else f" {self.loop}"
        workers = "" if self.workers == 1 else f" with {self.workers} workers"
        return f"{self.framework}{loop} on {self.device}{workers}"

    @classmethod
    def parse(cls, text: str) -> "Trainer":
        """Return the trainer that is written like this. Raises ConfigError if none is."""
        return _matched(_WRITTEN, text)

    @classmethod
    def named(cls, name: str) -> "Trainer":
        """Return the trainer of this name. Raises ConfigError if no trainer has such a name."""
        return _matched(_NAMED, name)

    @classmethod
    def of(cls, values: Any) -> "Trainer":
        """Return the trainer of what has the keys TRAINER, such as the run of a record or the row of a table."""
        return cls(*(values[key] for key in TRAINER))


TRAINER = Trainer._fields
"""The parts of a trainer: keys of runs and records, and columns of tables."""

KEYS = {"devices": "device", "loops": "loop", "workers": "workers", "frameworks": "framework"}
"""The keys of an experiment that list parts of its trainers.

Frameworks come last: each trainer evaluates the weights of the one before it, which should be of another framework.
"""


def trainers_of(experiment: Mapping[str, Any]) -> list[Trainer]:
    """Return the trainers of an experiment with resolved devices: every combination of the parts that it lists."""
    lists = (experiment[key] for key in KEYS)
    return [Trainer(**dict(zip(KEYS.values(), parts, strict=True))) for parts in product(*lists)]


def is_written(text: str) -> bool:
    """Whether a trainer is written like this."""
    return re.fullmatch(_WRITTEN, text) is not None


@cache
def _matched(pattern: str, text: str) -> Trainer:
    match = re.fullmatch(pattern, text)
    if not match:
        raise ConfigError(
            f"found {text}; allowed: a framework on a device, and its loop if that is not {STOCK}, such as "
            f"{Trainer('chainer', 'cpu')} or {Trainer('chainer', 'gpu', TUNED)}"
        )
    parts: dict[str, Any] = {key: value for key, value in match.groupdict().items() if value}
    return Trainer(**parts | {"workers": int(parts.get("workers", 1))})
