"""The kept weights of a trainer's runs, evaluated by another trainer: do they give what the records say?"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from trainmark.datasets import prepared
from trainmark.frameworks.adapter import Adapter
from trainmark.recipes import input_transform
from trainmark.recipes.outputs import cross_entropy_and_accuracy
from trainmark.recipes.recipe import DTYPE, Recipe, merged_input, seen_shape
from trainmark.records.record import encode_loss, read_record
from trainmark.training.kept_weights import read_weights


def cross_evaluation(
    adapter: Adapter,
    device: str,
    recipe: Recipe,
    settings: Mapping,
    dataset_folder: Path,
    mean_file: Path | None,
    record_files: Iterable[Path],
) -> dict:
    """What the adapter makes of the weights of these runs on the test split, as `records.evaluation` keeps it.

    Runs that kept no weights are left out. Raises RecordError where weights are not those that a record names, and
    DeviceError where the framework does not see the device.
    """
    transform = merged_input(recipe, settings["input"])
    manifest = prepared.read_manifest(dataset_folder)
    architecture = recipe.architecture(seen_shape(transform, manifest["sample_shape"]), manifest["classes"])
    mean = np.load(mean_file, allow_pickle=False) if mean_file else None
    stored, labels = prepared.read_split(dataset_folder, "test")
    built = False
    runs = {}
    for file in record_files:
        record = read_record(file)
        if record["weights"] is None:
            continue
        weights = read_weights(file, record, architecture)
        if built:
            adapter.set_weights(weights)
        else:
            adapter.build(
                architecture=architecture, weights=weights, optimizer=recipe.optimizer, device=device, dtype=DTYPE
            )
            adapter.check_device(device)
            inputs = input_transform.network_inputs(stored, mean, transform, DTYPE)
            adapter.load(split="test", inputs=inputs, labels=np.asarray(labels))
            built = True
        loss, accuracy = cross_entropy_and_accuracy(adapter.predict("test"), labels)
        runs[record["run"]["id"]] = {
            "weights_sha256": record["weights"]["sha256"],
            "loss": encode_loss(loss),
            "accuracy": accuracy,
        }
    return {"framework": adapter.framework, "device": device, "versions": adapter.versions(), "runs": runs}
