"""Measures how close correct trainings come to the limits of whole epochs in a certificate.

Run: make bench-epochs. Chainer and Keras on JAX train the default experiment's recipe.
"""

import tempfile
from collections import defaultdict
from pathlib import Path

from harness import REPOSITORY, settings, snakemake

from trainmark.frameworks.registry import create_adapter
from trainmark.parity import whole_epochs
from trainmark.parity.certified_training import certified_training
from trainmark.parity.epoch_check import compare_epochs
from trainmark.recipes.catalogue import RECIPES

SEEDS = 40
CONFIG = str(REPOSITORY / "config" / "config.yaml")
RECIPE, FRAMEWORKS = "mnist-mlp-chainer", ("chainer", "keras-jax")


def main() -> None:
    """Print a line for each quantity: the five seeds closest to its limit, as shares of the limit, the largest last."""
    whole_epochs.LONG_TRAINING_STEPS = 0  # at the small learning rate too
    adapters = [create_adapter(framework, threads=2) for framework in FRAMEWORKS]
    shares = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        prepared = snakemake(Path(folder), "results/datasets/digits/mean.npy", "--cores", "2", "--configfile", CONFIG)
        prepared.check_returncode()
        data = Path(folder) / "results" / "datasets" / "digits"
        for seed in range(1, SEEDS + 1):
            values = settings(input={"subtract_mean": True}, seed=seed)
            training = certified_training(RECIPES[RECIPE], values, data / "prepared", data / "mean.npy")
            traces = [whole_epochs.train_epochs(adapter, training.epochs, "cpu") for adapter in adapters]
            for one in compare_epochs(*traces, [one.name for one in training.architecture.parameters()]):
                shares[one.what].append((one.excess, one.difference, seed))
    for what, by_seed in shares.items():
        nearest = [f"{share:.2g} ({difference:.1e}, seed {seed})" for share, difference, seed in sorted(by_seed)[-5:]]
        print(f"{what}: {', '.join(nearest)}")


if __name__ == "__main__":
    main()
