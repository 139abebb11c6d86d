"""The epoch of a run that is audited: kept with the state before it, so that another trainer can replay it.

An .npz file beside the record, which holds the file's SHA-256, has the weights before the epoch and after it, the
optimizer's arrays before it and the sizes of those after it. Which epoch that is, nobody knows until it is trained.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainmark.errors import RecordError
from trainmark.files.checksums import sha256_of
from trainmark.files.disk import write_arrays
from trainmark.files.whole import written_whole
from trainmark.frameworks.adapter import Adapter, ObservedAdapter
from trainmark.networks.graph import Architecture
from trainmark.recipes.initial_weights import Weights, read_arrays
from trainmark.recipes.update_rules import SLOTS

FILE_NAME = "audit.npz"

BEFORE, AFTER = "before.", "after."
"""What the names of the arrays begin with. Those of the optimizer have names of SLOTS behind the layer's."""


class AuditedEpoch:
    """Keeps one of some epochs of a run, and each with the same probability.

    The state is taken before each of them, and the draw is after it (Algorithm R: Vitter 1985, ACM Transactions on
    Mathematical Software 11(1), 37-57). So no code of the training, an adapter's included, can treat the audited epoch
    differently.

    epochs: those of which one is kept.
    kept: the record's entry: epoch, name and SHA-256 of the file; None as long as there is none.
    """

    def __init__(self, file: Path, adapter: Adapter, epochs: range, kept: Mapping | None) -> None:
        self._file, self._epochs = file, epochs
        self._adapter = adapter if isinstance(adapter, ObservedAdapter) else None
        self._before: Weights | None = None
        is_there = kept is not None and file.is_file() and sha256_of(file) == kept["sha256"]
        self.kept = dict(kept) if kept and is_there else None  # of a run that resumes: the file may be a later one

    def begin(self, epoch: int) -> None:
        """Take the state before an epoch. An adapter that does not show it is not audited."""
        if epoch in self._epochs and self._adapter:
            self._before = {**self._adapter.weights(), **self._adapter.slots()}

    def end(self, epoch: int) -> dict | None:
        """Keep an epoch that has ended, or do not; return `kept`.

        If the disk refuses it, that is logged, and training continues.
        """
        before, self._before = self._before, None
        if before is None or self._adapter is None or (self.kept and secrets.randbelow(epoch - self._epochs.start + 1)):
            return self.kept
        arrays = {BEFORE + name: array for name, array in before.items()}
        arrays |= {AFTER + name: array for name, array in self._adapter.weights().items()}
        arrays |= {AFTER + slot: np.array(size) for slot, size in slot_sizes(self._adapter.slots()).items()}
        try:
            with written_whole(self._file) as part:
                write_arrays(part, arrays)
                sha256 = sha256_of(part)
            self.kept = {"epoch": epoch, "file": self._file.name, "sha256": sha256}
        except OSError as error:
            print(f"epoch {epoch} was not kept for the audit: {error}", flush=True)
        return self.kept


@dataclass(frozen=True)
class KeptEpoch:
    """An audited epoch.

    before, after: weights.
    slots: the optimizer's arrays before (`ObservedAdapter.slots`).
    slot_sizes: of those after.
    """

    epoch: int
    before: Weights
    slots: Weights
    after: Weights
    slot_sizes: dict[str, float]


def slot_sizes(slots: Weights) -> dict[str, float]:
    """Return by slot the Euclidean norm of all its arrays together. slots: see `ObservedAdapter.slots`."""
    sizes: dict[str, float] = {}
    for name, array in slots.items():
        slot = name.rpartition(".")[2]
        sizes[slot] = float(np.hypot(sizes.get(slot, 0.0), np.linalg.norm(array.astype(np.float64))))
    return sizes


def read_kept(record_file: Path, record: Mapping, architecture: Architecture, rule: str) -> KeptEpoch:
    """Read the audited epoch that a record names. rule: the update rule.

    Raises RecordError where the file is missing, or is not the record's or not of this network.
    """
    kept = record["weights"]["audit"]
    file = record_file.with_name(kept["file"])
    again = f"delete {record_file} and run snakemake again"
    if not file.is_file() or sha256_of(file) != kept["sha256"]:
        what = "is missing" if not file.is_file() else "is damaged or of another run: its SHA-256 is not the record's"
        raise RecordError(f"{file}, the audited epoch of the run, {what}; {again}")
    arrays = read_arrays(file)
    of_weights, of_slots = dict(_shapes(architecture, ())), dict(_shapes(architecture, SLOTS[rule]))
    expected = {BEFORE + name: shape for name, shape in (of_weights | of_slots).items()}
    expected |= {AFTER + name: shape for name, shape in of_weights.items()} | {AFTER + slot: () for slot in SLOTS[rule]}
    if {name: array.shape for name, array in arrays.items()} != expected:
        raise RecordError(f"{file} is of another network than today's {architecture.name}; {again}")
    return KeptEpoch(
        epoch=kept["epoch"],
        before={name: arrays[BEFORE + name] for name in of_weights},
        slots={name: arrays[BEFORE + name] for name in of_slots},
        after={name: arrays[AFTER + name] for name in of_weights},
        slot_sizes={slot: float(arrays[AFTER + slot]) for slot in SLOTS[rule]},
    )


def _shapes(architecture: Architecture, slots: tuple[str, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield (name, shape) of each slot of the trained arrays; without slots of all arrays."""
    if not slots:
        yield from ((one.name, tuple(one.shape)) for one in architecture.arrays())
    for one in architecture.parameters() if slots else ():
        yield from ((f"{one.name}.{slot}", tuple(one.shape)) for slot in slots)
