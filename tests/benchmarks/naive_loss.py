"""In which step does the cross entropy of the Julia benchmark become NaN, and in which arithmetic?

Flux 0.8 computed it from the probabilities of a softmax, -mean(y log p), without adding a small number to p. This
trains mnist-mlp-flux in numpy with that loss and its gradient, as the notebook did: one model, the whole training set
as one batch, and a new Adam after so many epochs. Once the probability of some class of an image rounds to 0, the loss
depends on what 0 log 0 is: NaN where the labels y are numbers, 0 where they are Booleans, as Julia multiplies them.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainmark.datasets.prepared import read_split
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.update_rules import UPDATE_RULES

RECIPE = RECIPES["mnist-mlp-flux"]


@dataclass(frozen=True)
class Step:
    """What the network gives after so many steps.

    loss, loss_of_numbers: with Boolean labels, and with labels that are 0 and 1.
    smallest, smallest_true: the smallest probability of any class, and that of the true class, over all images.
    accuracy: share of the training images that are right.
    """

    loss: float
    loss_of_numbers: float
    smallest: float
    smallest_true: float
    accuracy: float


def train(folder: Path, dtype: str, repeat: int, epochs: int, restarts: int) -> Iterator[Step]:
    """Yield what the network gives before the first step, and after each of them. An epoch is a step."""
    images, labels = read_split(folder, "train")
    inputs = (images.reshape(len(images), -1) / 255).astype(dtype)
    truth = np.eye(10, dtype=bool)[np.asarray(labels)]
    architecture = RECIPE.network(RECIPE.input_shape, 10, {})
    drawn = draw_initial_weights(architecture, RECIPE.initializer, (1, repeat))
    weights = {name: array.astype(dtype) for name, array in drawn.items()}
    constants = RECIPE.optimizer.as_dict()
    rule, states = UPDATE_RULES[constants.pop("rule")], {}
    part = epochs // (restarts + 1)
    for epoch in range(epochs + 1):
        if epoch % part == 0:
            states = {name: {} for name in weights}
        hidden = np.maximum(inputs @ weights["dense1.kernel"] + weights["dense1.bias"], 0)
        logits = hidden @ weights["dense2.kernel"] + weights["dense2.bias"]
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = powers / powers.sum(axis=1, keepdims=True)
        logarithms = np.log(probabilities)
        yield Step(
            loss=float(-logarithms[truth].mean()),
            loss_of_numbers=float(-(truth.astype(dtype) * logarithms).sum() / len(truth)),
            smallest=float(probabilities.min()),
            smallest_true=float(probabilities[truth].min()),
            accuracy=float((logits.argmax(axis=1) == labels).mean()),
        )
        backward = np.where(truth, -1 / probabilities, 0).astype(dtype) / np.dtype(dtype).type(len(truth))
        backward = probabilities * (backward - (backward * probabilities).sum(axis=1, keepdims=True))
        of_hidden = (backward @ weights["dense2.kernel"].T) * (hidden > 0)
        gradients = {
            "dense1.kernel": inputs.T @ of_hidden,
            "dense1.bias": of_hidden.sum(axis=0),
            "dense2.kernel": hidden.T @ backward,
            "dense2.bias": backward.sum(axis=0),
        }
        for name, gradient in gradients.items():
            updated = rule(weights[name], gradient, states[name], epoch % part + 1, **constants)
            weights[name] = np.asarray(updated, dtype)


def main() -> None:
    """Print, for float32 and float64, the first step with a NaN, and what the source would have published."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("results/datasets/mnist/prepared"), help="prepared MNIST")
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--restarts", type=int, default=9)
    parser.add_argument("--repeat", type=int, default=1, help="repeat of config/originals.yaml with these weights")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    arguments = parser.parse_args()
    part = arguments.epochs // (arguments.restarts + 1)
    for dtype in arguments.dtypes:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps = list(train(arguments.folder, dtype, arguments.repeat, arguments.epochs, arguments.restarts))
        ends = steps[part::part]
        first = next((after for after, step in enumerate(steps) if np.isnan(step.loss_of_numbers)), None)
        smallest = (f"{min(getattr(one, name) for one in steps):.1e}" for name in ("smallest", "smallest_true"))
        medians = (f"{np.median([getattr(one, name) for one in ends]):.4f}" for name in ("loss", "accuracy"))
        print(
            f"{dtype}, repeat {arguments.repeat}: smallest probability of a class and of a true class "
            f"{' and '.join(smallest)}; "
            f"with labels as numbers, the loss is NaN {'never' if first is None else f'after {first} steps'}; with "
            f"Booleans, the medians at the restarts are {' and '.join(medians)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
