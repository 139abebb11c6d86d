"""How large would the test losses of Keras's MNIST example be with the cross entropy of its time?

Keras of 2017 clipped probabilities to 1e-7 at least, so no image had a loss above 16.1. The fused loss of today has no
such limit, and a network that is trained for 20 epochs is sure of some wrong answers. This evaluates the kept weights
of runs (keep_weights: true) in numpy, in both ways.
"""

import argparse
from pathlib import Path

import numpy as np

from trainmark.datasets.prepared import read_split
from trainmark.plan.plan_file import read_plan
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.outputs import cross_entropies
from trainmark.records.record import read_record
from trainmark.trainer import Trainer
from trainmark.training.kept_weights import FILE_NAME, read_weights

RECIPE = RECIPES["mnist-mlp-keras"]

SMALLEST = 1e-7
"""The smallest probability: epsilon of the backends of Keras 1 and 2."""


def losses(file: Path, record: dict, inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cross entropy of each image with the weights of a run. file: its record."""
    weights = read_weights(file, record, RECIPE.network(RECIPE.input_shape, 10, {}))
    values = inputs
    for layer in ("dense1", "dense2", "dense3"):
        logits = values @ weights[f"{layer}.kernel"] + weights[f"{layer}.bias"]
        values = np.maximum(logits, 0)
    return cross_entropies(logits, labels)


def main() -> None:
    """Print, for each trainer, the range of the test losses of its runs, and that of the clipped ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder")
    parser.add_argument("--experiment", default="keras-mnist")
    parser.add_argument("--dataset", default="mnist")
    arguments = parser.parse_args()
    plan = read_plan(arguments.results / "plan.json")
    images, labels = read_split(arguments.results / plan["datasets"][arguments.dataset]["folder"] / "prepared", "test")
    inputs = (images.reshape(len(images), -1) / 255).astype(np.float32)
    found: dict[str, list[tuple[float, float, int]]] = {}
    for weights in sorted((arguments.results / "runs" / arguments.experiment).rglob(FILE_NAME)):
        file = weights.with_name("record.json")
        record, most = read_record(file), -np.log(SMALLEST)
        of_images = losses(file, record, inputs, np.asarray(labels))
        both = float(of_images.mean()), float(np.minimum(of_images, most).mean()), int((of_images > most).sum())
        found.setdefault(Trainer.of(record["run"]).name, []).append(both)
    for trainer, of_runs in found.items():
        fused, clipped, counts = zip(*of_runs, strict=True)
        print(
            f"{trainer}, {len(of_runs)} runs: test loss {min(fused):.4f} to {max(fused):.4f}; clipped "
            f"{min(clipped):.4f} to {max(clipped):.4f}; {min(counts)} to {max(counts)} images are clipped"
        )


if __name__ == "__main__":
    main()
