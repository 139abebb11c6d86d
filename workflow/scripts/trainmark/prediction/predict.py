"""Labels inputs with the network of a trained run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainmark.datasets import prepared
from trainmark.errors import DataError
from trainmark.frameworks.adapter import Adapter
from trainmark.frameworks.registry import create_adapter
from trainmark.prediction.trained_run import TrainedRun
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.outputs import probabilities
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.training.kept_weights import read_weights


@dataclass(frozen=True)
class Model:
    """The network of a trained run, and what is needed to label with it.

    framework, dtype: as in the record of the run.
    encode: turns texts or decoded photographs into network inputs, as in its training.
    """

    framework: str
    dtype: str
    training: ResolvedTraining
    weights: Weights
    encode: Callable[[Sequence[Any]], np.ndarray]

    @property
    def class_names(self) -> list[str]:
        """The names of the classes, by label."""
        return list(self.training.manifest["class_names"])


def training_of(run: TrainedRun) -> ResolvedTraining:
    """Return the training of a run. Raises DataError if the prepared dataset is another one than it was trained on."""
    name, folder = run.record["dataset"]["name"], run.dataset_folder
    manifest = prepared.read_manifest(folder)
    if manifest["content_sha256"] != run.record["dataset"]["content_sha256"]:
        raise DataError(
            f"{folder} holds another dataset, or another version of {name}, than {run.file} was trained on; name "
            "the right one with --dataset-folder, or train the run again"
        )
    return ResolvedTraining(run.recipe, run.record["settings"], manifest)


def read_model(run: TrainedRun, training: ResolvedTraining, encode: Callable[[Sequence[Any]], np.ndarray]) -> Model:
    """Read the trained weights of a run. Raises RecordError if they are not those of the record."""
    weights = read_weights(run.file, run.record, training.architecture)
    return Model(run.record["run"]["framework"], run.record["network"]["dtype"], training, weights, encode)


class Predictor:
    """A network, built by the adapter of its framework. Raises DeviceError if that or a GPU is missing.

    top: number of classes to name for each input. Raises DataError if the network has fewer.
    """

    def __init__(self, model: Model, device: str, threads: int, top: int = 1) -> None:
        if top > len(model.class_names):
            raise DataError(f"--top {top}: the run has {len(model.class_names)} classes; name at most as many")
        self.model, self._top = model, top
        self._adapter: Adapter = create_adapter(model.framework, threads)
        self._adapter.build(
            architecture=model.training.architecture,
            weights=model.weights,
            optimizer=model.training.recipe.optimizer,
            device=device,
            dtype=model.dtype,
        )
        self._adapter.check_device(device)

    def probabilities(self, given: Sequence[Any]) -> np.ndarray:
        """Return the probability of each class, float64 (inputs, classes). given: what `Model.encode` takes."""
        inputs = self.model.encode(given)
        self._adapter.load(split="test", inputs=inputs, labels=np.zeros(len(inputs), np.int64))
        return probabilities(self._adapter.predict("test"))

    def labels(self, given: Sequence[Any]) -> list[str]:
        """Return "<class><TAB><its probability>" for each input, and the same of the next classes if `top` is above 1.

        Of equal probabilities the class with the lower label comes first.
        """
        names = self.model.class_names
        return [
            "\t".join(f"{names[label]}\t{row[label]:.4f}" for label in np.argsort(-row, kind="stable")[: self._top])
            for row in self.probabilities(given)
        ]
