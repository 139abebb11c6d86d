"""A trace: what one trainer showed of itself while it trained the certified steps. On disk it is one file of arrays."""

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
from trainmark.parity.epoch_check import Course, Courses, EpochTrace
from trainmark.parity.sketches import Sketches
from trainmark.plan.run import trainer_name

FORMAT = 6
"""Of the file: another one is refused."""

SINGLE_SKETCHES = ("initial_weights", "activations", "epoch_weights", "evaluation")
STEP_SKETCHES = ("gradients", "weights")
RATES, COURSES = ("full", "slow"), ("own", "copy")
ARRAYS = ("losses", "epoch_losses", "update_errors", "logits")


@dataclass(frozen=True)
class StageTrace:
    """What one stage of the certified training showed.

    rule: of the updates. losses: a step each, float64. epoch_losses: of the first steps again, taken as one epoch of
    several batches; none in stages that do not. epoch_weights: after that epoch, else None. update_errors: how far each
    step's weights are from what the rule makes in numpy of the same gradients, relative, float64, in stages that decide
    the class; update_layers: in which layer. initial_weights: right after the network was built. activations: of every
    node, "input" first, before the first step. gradients, weights: after each step, of every array. evaluation: of
    every node, for the evaluation samples after the last step; logits: those of the last node, in full. final: all
    weights after the last step, in full. The last three None where the stage was cut, and epoch_weights where it was
    cut within that epoch.
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
        """The stage cut after a step, but for its updates, each of which is judged by itself."""
        if step >= len(self.losses):
            return self
        steps: dict[str, Any] = {key: getattr(self, key)[:step] for key in ("losses", "epoch_losses", *STEP_SKETCHES)}
        cut: dict[str, Any] = {"evaluation": None, "logits": None, "final": None}
        if step < len(self.epoch_losses):
            cut["epoch_weights"] = None
        return replace(self, **steps, **cut)


@dataclass(frozen=True)
class Failure:
    """Why a trainer came to no end of a stage.

    kind: "shape", where `node` gave another one; "precision", where an array holds two-byte numbers; "out_of_memory".
    """

    kind: str
    stage: str
    node: str | None
    message: str


@dataclass(frozen=True)
class Trace:
    """What one trainer showed, by stage (see certified_steps.STAGES). settings: of its plan, as plain JSON.

    epochs: whole ones, as runs train them; None where the plan has none, or the trainer did not come that far. checks:
    what is wrong with its adapter, by check (adapter_check.check_adapter). float32_ops: ops that its framework is known
    to compute in float32, whatever it is given.
    """

    framework: str
    device: str
    versions: Mapping[str, str]
    stages: Mapping[str, StageTrace]
    epochs: EpochTrace | None = None
    checks: Mapping[str, str | None] = field(default_factory=dict)
    settings: Mapping = field(default_factory=dict)
    failure: Failure | None = None
    float32_ops: tuple[str, ...] = ()

    @property
    def trainer(self) -> str:
        """Its name, as comparisons have it."""
        return trainer_name(self.framework, self.device)


# --- files --------------------------------------------------------------------------------------------------------


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace as a whole or not at all. Nothing in the file has to be unpickled."""
    arrays: dict[str, np.ndarray] = {}
    stages = {name: _packed(stage, name, arrays) for name, stage in trace.stages.items()}
    about = {
        "format": FORMAT,
        **{key: getattr(trace, key) for key in ("framework", "device", "versions", "settings")},
        "failure": asdict(trace.failure) if trace.failure else None,
        "float32_ops": trace.float32_ops,
        "checks": trace.checks,
        "epochs": trace.epochs and {"steps": trace.epochs.steps, "wrong_counts": trace.epochs.wrong_counts},
        "rates": [rate for rate in RATES if getattr(trace.epochs, rate, None)],
        "stages": stages,
    }
    for rate, name in product(about["rates"], COURSES):
        course: Course = getattr(getattr(trace.epochs, rate), name)
        arrays |= {f"epochs/{rate}/{name}/{key}": array for key, array in course.arrays().items()}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with written_whole(path) as part:
        write_arrays(part, arrays)


def _packed(stage: StageTrace, name: str, arrays: dict[str, np.ndarray]) -> dict:
    """What JSON holds of a stage; its arrays are put to the others, under the stage's name."""
    assert stage.final is not None  # only a comparison cuts stages
    arrays |= {f"{name}/{key}": getattr(stage, key) for key in ARRAYS}
    arrays |= {f"{name}/final/{key}": array for key, array in stage.final.items()}
    sketches = {key: [getattr(stage, key)] for key in SINGLE_SKETCHES if getattr(stage, key) is not None}
    sketches |= {key: list(getattr(stage, key)) for key in STEP_SKETCHES}
    for key, found in sketches.items():
        arrays |= {f"{name}/{key}/{i}": one.values for i, one in enumerate(found)}
    shapes = {key: [list(one.shapes.items()) for one in found] for key, found in sketches.items()}
    return {"rule": stage.rule, "update_layers": stage.update_layers, "shapes": shapes}


def read_trace(path: Path) -> Trace:
    """Read a trace; the final weights are read when they are looked at. Raises CertificateError where it is none."""
    if not path.is_file():
        raise CertificateError(f"{path}: there is no such trace; give the files that trace_training.py wrote")
    try:
        arrays = np.load(path, allow_pickle=False)
        about = json.loads(arrays["about"].tobytes())
        if about["format"] != FORMAT:
            raise KeyError("format")
        stages = {name: _unpacked(packed, name, arrays) for name, packed in about["stages"].items()}
        failure = Failure(**about["failure"]) if about["failure"] else None
        epochs = _epochs(about, arrays) if about["epochs"] else None
    except (OSError, EOFError, ValueError, LookupError, TypeError, zipfile.BadZipFile) as error:
        # Without numpy's own words, which advise to unpickle what is no array.
        raise CertificateError(
            f"{path} is damaged, or no trace of this version of trainmark; delete it and run snakemake again"
        ) from error
    known = {key: about[key] for key in ("framework", "device", "versions", "settings")}
    return Trace(
        **known,
        stages=stages,
        epochs=epochs,
        checks=about["checks"],
        failure=failure,
        float32_ops=tuple(about["float32_ops"]),
    )


def _epochs(about: Mapping, arrays: Mapping[str, np.ndarray]) -> EpochTrace:
    courses = {
        rate: Courses(*(Course.of_arrays(_Part(arrays, f"epochs/{rate}/{name}/")) for name in COURSES))
        for rate in about["rates"]
    }
    steps, wrong_counts = tuple(about["epochs"]["steps"]), about["epochs"]["wrong_counts"]
    return EpochTrace(courses["full"], courses.get("slow"), steps, wrong_counts)


def _unpacked(packed: dict, name: str, arrays: Mapping[str, np.ndarray]) -> StageTrace:
    sketches = {
        key: tuple(
            Sketches({array: tuple(shape) for array, shape in shapes}, arrays[f"{name}/{key}/{i}"])
            for i, shapes in enumerate(found)
        )
        for key, found in packed["shapes"].items()
    }
    fields: dict[str, Any] = {
        **{key: arrays[f"{name}/{key}"] for key in ARRAYS},
        **{key: sketches[key][0] if key in sketches else None for key in SINGLE_SKETCHES},
        **{key: sketches[key] for key in STEP_SKETCHES},
    }
    return StageTrace(
        rule=packed["rule"],
        update_layers=tuple(packed["update_layers"]),
        final=_Part(arrays, f"{name}/final/"),
        **fields,
    )


class _Part(Mapping):
    """The arrays of a file whose names begin alike, by the rest of their names; each is read when it is asked for."""

    def __init__(self, arrays: Mapping[str, np.ndarray], beginning: str) -> None:
        self._arrays = arrays
        self._names = [name.removeprefix(beginning) for name in arrays if name.startswith(beginning)]
        self._beginning = beginning

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[self._beginning + name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
