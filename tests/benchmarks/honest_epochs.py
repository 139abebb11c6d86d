"""How near do right trainings come to what a certificate allows in whole epochs? A line each: the five nearest seeds.

Run: make bench-epochs. Chainer and Keras on JAX train the default experiment's recipe.
"""

import tempfile
from collections import defaultdict
from pathlib import Path

from harness import REPOSITORY, snakemake

from trainmark.frameworks.registry import create_adapter
from trainmark.parity import whole_epochs
from trainmark.parity.certified_steps import certified_plan
from trainmark.parity.epoch_check import compare_epochs
from trainmark.recipes.catalogue import RECIPES

SEEDS = 40
CONFIG = str(REPOSITORY / "config" / "config.yaml")
RECIPE, FRAMEWORKS = "mnist-mlp-chainer", ("chainer", "keras-jax")
SETTINGS = {"batch_size": "recipe", "input": {"subtract_mean": True}}


def main() -> None:
    """Print a line for each thing that is compared: differences by what is allowed, the largest last."""
    whole_epochs.LONG = 0  # at the small learning rate too
    adapters = [create_adapter(framework, threads=2) for framework in FRAMEWORKS]
    shares = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        prepared = snakemake(Path(folder), "results/datasets/digits/mean.npy", "--cores", "2", "--configfile", CONFIG)
        prepared.check_returncode()
        data = Path(folder) / "results" / "datasets" / "digits"
        for seed in range(1, SEEDS + 1):
            plan = certified_plan(RECIPES[RECIPE], SETTINGS | {"seed": seed}, data / "prepared", data / "mean.npy")
            traces = [whole_epochs.train_epochs(adapter, plan.epochs, "cpu") for adapter in adapters]
            for apart in compare_epochs(*traces, [one.name for one in plan.architecture.parameters()]):
                shares[apart.what].append((apart.excess, apart.difference, seed))
    for what, found in shares.items():
        nearest = [f"{share:.2g} ({difference:.1e}, seed {seed})" for share, difference, seed in sorted(found)[-5:]]
        print(f"{what}: {', '.join(nearest)}")


if __name__ == "__main__":
    main()
