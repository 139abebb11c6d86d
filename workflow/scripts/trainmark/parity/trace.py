"""A trace: everything that one trainer showed while it trained the certified steps, stored as one file of arrays."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.errors import CertificateError, expect_damage
from trainmark.files.disk import write_arrays
from trainmark.files.whole import written_whole
from trainmark.parity.epoch_check import EpochTrace
from trainmark.parity.sketches import Sketches
from trainmark.trainer import Trainer

FORMAT = 12
"""Version of the file format; files of any other version are refused."""

SINGLE_SKETCHES = ("initial_weights", "activations", "epoch_weights", "evaluation")
STEP_SKETCHES = ("gradients", "weights")


@dataclass(frozen=True)
class StageTrace:
    """What a trainer showed in one stage.

    losses: loss of each step, float64.
    epoch_losses: losses of the first steps repeated as a single epoch; empty if the stage has no such epoch.
    epoch_weights: weights after that epoch; None without it.
    update_layers: for each step, the layer whose update differs most from the rule; empty if updates are not checked.
    update_errors: relative difference of that layer's update from the rule in numpy, float64.
    initial_weights: weights right after the network was built.
    activations: outputs of every node in the first step, "input" first; empty for perturbed copies.
    gradients, weights: of each step; weights after it.
    evaluation: outputs of every node for the evaluation samples, after the last step; None for perturbed copies.
    logits: output of the last node for these samples, in full; None for perturbed copies.
    final: weights after the last step, in full; empty for perturbed copies.

    `evaluation`, `logits` and `final` are None in a stage that was cut (see `until`), and so is `epoch_weights` if the
    cut is within that epoch.
    """

    rule: str
    losses: np.ndarray
    epoch_losses: np.ndarray
    epoch_weights: Sketches | None
    update_layers: tuple[str, ...]
    update_errors: np.ndarray
    initial_weights: Sketches
    activations: Sketches
    gradients: tuple[Sketches, ...]
    weights: tuple[Sketches, ...]
    evaluation: Sketches | None
    logits: np.ndarray | None
    final: Mapping[str, np.ndarray] | None

    def until(self, step: int) -> "StageTrace":
        """Return the stage cut after a step. All updates stay, because each is judged by itself."""
        if step >= len(self.losses):
            return self
        steps: dict[str, Any] = {key: getattr(self, key)[:step] for key in ("losses", "epoch_losses", *STEP_SKETCHES)}
        cut: dict[str, Any] = {"evaluation": None, "logits": None, "final": None}
        if step < len(self.epoch_losses):
            cut["epoch_weights"] = None
        return replace(self, **steps, **cut)


@dataclass(frozen=True)
class PrecisionDifference:
    """The difference of a trainer in float32 from float64.

    what: one of precision_check.ORDER, all a `sentences.Location.what`; the first two only if one of the next two is
        too large.
    """

    what: str
    layer: str | None
    difference: float
    allowed: float

    @property
    def excess(self) -> float:
        """The difference divided by the allowed one."""
        return self.difference / self.allowed


@dataclass(frozen=True)
class Failure:
    """Why a trainer did not finish a stage.

    kind: "shape": the output of `node` has another shape; "precision": an array holds 16-bit numbers; "out_of_memory";
        "unobserved": its adapter shows no gradients.
    stage: a key of certified_steps.STAGES, "precision", "epochs" or "checks".
    node: name of the node for "shape"; otherwise None.
    message: the error, as a sentence.
    """

    kind: str
    stage: str
    node: str | None
    message: str


@dataclass(frozen=True)
class Trace:
    """Everything that one trainer showed.

    stages: what it showed in each stage (see certified_steps.STAGES).
    precision: its differences from float64; empty if it failed before.
    epochs: what it showed in whole epochs; None if there are none or the trainer failed before them.
    checks: what is wrong with its adapter, by check (see adapter_check.check_adapter).
    settings: description of the training, as plain JSON.
    failure: why it stopped early; None if it did not.
    float32_ops: ops that its framework is known to compute in float32, even in a float64 network.
    """

    trainer: Trainer
    versions: Mapping[str, str]
    stages: Mapping[str, StageTrace]
    precision: tuple[PrecisionDifference, ...] = ()
    epochs: EpochTrace | None = None
    checks: Mapping[str, str | None] = field(default_factory=dict)
    settings: Mapping = field(default_factory=dict)
    failure: Failure | None = None
    float32_ops: tuple[str, ...] = ()


# --- files --------------------------------------------------------------------------------------------------------

STORED = {one.__name__: one for one in (StageTrace, Sketches, Failure, PrecisionDifference, EpochTrace)}
"""The classes of which a trace consists, by name."""


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace to a file, atomically. The file contains no pickled objects."""
    arrays: dict[str, np.ndarray] = {}
    header = {one.name: _packed(getattr(trace, one.name), arrays) for one in fields(trace)}
    header |= {"format": FORMAT, "trainer": str(trace.trainer)}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with written_whole(path) as temporary:
        write_arrays(temporary, arrays)


def _packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a value as JSON. Its arrays go to `arrays`, and their names stand in their places."""
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return {"array": name}
    if is_dataclass(value):
        return {type(value).__name__: {one.name: _packed(getattr(value, one.name), arrays) for one in fields(value)}}
    if isinstance(value, Mapping):
        return {"mapping": {key: _packed(one, arrays) for key, one in value.items()}}
    return {"tuple": [_packed(one, arrays) for one in value]} if isinstance(value, tuple) else value


def read_trace(path: Path) -> Trace:
    """Read a trace. The final weights are read only when they are accessed.

    Raises CertificateError if the file is missing, damaged or of another version.
    """
    if not path.is_file():
        raise CertificateError(f"{path}: there is no such trace; give files that trace_training.py wrote")
    try:
        arrays = np.load(path, allow_pickle=False)
        header = json.loads(arrays["header"].tobytes())
        if header.pop("format") != FORMAT:
            raise KeyError("format")
        trainer = Trainer.parse(header.pop("trainer"))
        return Trace(trainer, **{key: _unpacked(value, arrays) for key, value in header.items()})
    except (OSError, EOFError, ValueError, LookupError, TypeError, zipfile.BadZipFile) as error:
        expect_damage(error, path, CertificateError)
        # numpy's own message is not repeated: it advises to unpickle files that are not arrays.
        raise CertificateError(
            f"{path} is damaged or not a trace of this version of trainmark; delete it and run snakemake again"
        ) from error


def _unpacked(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Restore what `_packed` returned; a mapping of arrays reads each when it is accessed."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[content]
    if kind == "tuple":
        return tuple(_unpacked(one, arrays) for one in content)
    if kind == "mapping" and content and all(isinstance(one, dict) and "array" in one for one in content.values()):
        return _StoredArrays(arrays, {key: one["array"] for key, one in content.items()})
    unpacked = {key: _unpacked(one, arrays) for key, one in content.items()}
    return unpacked if kind == "mapping" else STORED[kind](**unpacked)


class _StoredArrays(Mapping):
    """Arrays of a file, by names of their own. Each is read when it is accessed."""

    def __init__(self, arrays: Mapping[str, np.ndarray], names: Mapping[str, str]) -> None:
        self._arrays, self._names = arrays, names

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
