"""A trace: everything that one trainer showed while it trained the certified steps, stored as one file of arrays."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.errors import CertificateError
from trainmark.files.disk import write_arrays
from trainmark.files.whole import written_whole
from trainmark.parity.epoch_check import EpochTrace, ResultWithCopy, TrainingResult
from trainmark.parity.sketches import Sketches
from trainmark.trainer import Trainer

FORMAT = 9
"""Version of the file format; files of any other version are refused."""

SINGLE_SKETCHES = ("initial_weights", "activations", "epoch_weights", "evaluation")
STEP_SKETCHES = ("gradients", "weights")
RESULTS = tuple(product(("full", "slow"), ("own", "copy", "whole")))
ARRAYS = ("losses", "epoch_losses", "update_errors", "logits")


@dataclass(frozen=True)
class StageTrace:
    """What a trainer showed in one stage.

    losses: loss of each step, float64.
    epoch_losses: losses of the first steps repeated as a single epoch; empty if the stage has no such epoch.
    epoch_weights: weights after that epoch; None without it.
    update_layers: for each step, the layer whose update differs most from the rule; empty if updates are not checked.
    update_errors: relative difference of that layer's update from the rule in numpy, float64.
    initial_weights: weights right after the network was built.
    activations: outputs of every node in the first step, "input" first.
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
class Failure:
    """Why a trainer did not finish a stage.

    kind: "shape": the output of `node` has another shape; "precision": an array holds 16-bit numbers; "out_of_memory";
        "unobserved": its adapter shows no gradients.
    stage: a key of certified_steps.STAGES, "epochs" or "checks".
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
    epochs: what it showed in whole epochs; None if there are none or the trainer failed before them.
    checks: what is wrong with its adapter, by check (see adapter_check.check_adapter).
    settings: description of the training, as plain JSON.
    failure: why it stopped early; None if it did not.
    float32_ops: ops that its framework is known to compute in float32, even in a float64 network.
    """

    trainer: Trainer
    versions: Mapping[str, str]
    stages: Mapping[str, StageTrace]
    epochs: EpochTrace | None = None
    checks: Mapping[str, str | None] = field(default_factory=dict)
    settings: Mapping = field(default_factory=dict)
    failure: Failure | None = None
    float32_ops: tuple[str, ...] = ()


# --- files --------------------------------------------------------------------------------------------------------


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace to a file, atomically. The file contains no pickled objects."""
    arrays: dict[str, np.ndarray] = {}
    stages = {name: _pack_stage(stage, name, arrays) for name, stage in trace.stages.items()}
    header = {
        "format": FORMAT,
        "trainer": str(trace.trainer),
        **{key: getattr(trace, key) for key in ("versions", "settings")},
        "failure": asdict(trace.failure) if trace.failure else None,
        "float32_ops": trace.float32_ops,
        "checks": trace.checks,
        "epochs": trace.epochs and {"steps": trace.epochs.steps, "wrong_counts": trace.epochs.wrong_counts},
        "results": [key for key in RESULTS if _result_of(trace.epochs, *key)],
        "stages": stages,
    }
    for rate, name in RESULTS:
        if result := _result_of(trace.epochs, rate, name):
            arrays |= {f"epochs/{rate}/{name}/{key}": array for key, array in result.to_arrays().items()}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with written_whole(path) as temporary:
        write_arrays(temporary, arrays)


def _result_of(epochs: EpochTrace | None, rate: str, name: str) -> TrainingResult | None:
    return getattr(getattr(epochs, rate, None), name, None)


def _pack_stage(stage: StageTrace, name: str, arrays: dict[str, np.ndarray]) -> dict:
    """Return the part of a stage that goes to JSON; add its arrays to `arrays`, under the stage's name."""
    assert stage.final is not None  # only a comparison cuts stages
    arrays |= {f"{name}/{key}": getattr(stage, key) for key in ARRAYS if getattr(stage, key) is not None}
    arrays |= {f"{name}/final/{key}": array for key, array in stage.final.items()}
    sketches = {key: [getattr(stage, key)] for key in SINGLE_SKETCHES if getattr(stage, key) is not None}
    sketches |= {key: list(getattr(stage, key)) for key in STEP_SKETCHES}
    for key, by_step in sketches.items():
        arrays |= {f"{name}/{key}/{i}": sketch.values for i, sketch in enumerate(by_step)}
    shapes = {key: [list(sketch.shapes.items()) for sketch in by_step] for key, by_step in sketches.items()}
    return {"rule": stage.rule, "update_layers": stage.update_layers, "shapes": shapes}


def read_trace(path: Path) -> Trace:
    """Read a trace. The final weights are read only when they are accessed.

    Raises CertificateError if the file is missing, damaged or of another version.
    """
    if not path.is_file():
        raise CertificateError(f"{path}: there is no such trace; give files that trace_training.py wrote")
    try:
        arrays = np.load(path, allow_pickle=False)
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise KeyError("format")
        stages = {name: _unpack_stage(packed, name, arrays) for name, packed in header["stages"].items()}
        failure = Failure(**header["failure"]) if header["failure"] else None
        epochs = _unpack_epochs(header, arrays) if header["epochs"] else None
    except (OSError, EOFError, ValueError, LookupError, TypeError, zipfile.BadZipFile) as error:
        # numpy's own message is not repeated: it advises to unpickle files that are not arrays.
        raise CertificateError(
            f"{path} is damaged or not a trace of this version of trainmark; delete it and run snakemake again"
        ) from error
    return Trace(
        Trainer.parse(header["trainer"]),
        **{key: header[key] for key in ("versions", "settings", "checks")},
        stages=stages,
        epochs=epochs,
        failure=failure,
        float32_ops=tuple(header["float32_ops"]),
    )


def _unpack_epochs(header: Mapping, arrays: Mapping[str, np.ndarray]) -> EpochTrace:
    by_rate: dict[str, dict[str, TrainingResult]] = {}
    for rate, name in header["results"]:
        values = _ArraysWithPrefix(arrays, f"epochs/{rate}/{name}/")
        by_rate.setdefault(rate, {})[name] = TrainingResult.from_arrays(values)
    results = {rate: ResultWithCopy(**named) for rate, named in by_rate.items()}
    steps, wrong_counts = tuple(header["epochs"]["steps"]), header["epochs"]["wrong_counts"]
    return EpochTrace(results["full"], results.get("slow"), steps, wrong_counts)


def _unpack_stage(packed: dict, name: str, arrays: Mapping[str, np.ndarray]) -> StageTrace:
    sketches = {
        key: tuple(
            Sketches({array: tuple(shape) for array, shape in shapes}, arrays[f"{name}/{key}/{i}"])
            for i, shapes in enumerate(by_step)
        )
        for key, by_step in packed["shapes"].items()
    }
    fields: dict[str, Any] = {
        **{key: arrays.get(f"{name}/{key}") for key in ARRAYS},
        **{key: sketches[key][0] if key in sketches else None for key in SINGLE_SKETCHES},
        **{key: sketches[key] for key in STEP_SKETCHES},
    }
    return StageTrace(
        rule=packed["rule"],
        update_layers=tuple(packed["update_layers"]),
        final=_ArraysWithPrefix(arrays, f"{name}/final/"),
        **fields,
    )


class _ArraysWithPrefix(Mapping):
    """The arrays of a file whose names have a prefix, by the rest of their names. Each is read when it is accessed."""

    def __init__(self, arrays: Mapping[str, np.ndarray], prefix: str) -> None:
        self._arrays = arrays
        self._names = [name.removeprefix(prefix) for name in arrays if name.startswith(prefix)]
        self._prefix = prefix

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
