"""Train with several workers and with one, and print how far their weights and losses are apart, as JSON.

Started by the launcher of MPI: mpiexec -n 2 python same_training.py torch 2
"""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "workflow/scripts"))

from trainmark.frameworks.adapter import ObservedAdapter as Adapter
from trainmark.frameworks.registry import create_adapter, set_environment
from trainmark.machine.ranks import Ranks, join_ranks
from trainmark.networks.graph import Architecture, chain
from trainmark.parity.adapter_check import check_adapter
from trainmark.recipes.batch_order import EpochFeed, epoch_feed
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer

OPTIMIZER = Optimizer("adam", 1e-2, (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", 1e-8)))
SAMPLES, BATCH_SIZE, STEPS = 93, 16, 10
SHAPE, UNITS, CLASSES = (1, 8, 8), 12, 3


def network(*, has_dropout: bool = False, is_normalised: bool = False) -> Architecture:
    """Return the network of the trainings."""
    dropout = [("dropout", "Dropout", {"rate": 0.5})] if has_dropout else []
    layers = [
        ("conv", "Conv2D", {"filters": 4, "size": 3}),
        *([("norm", "BatchNorm", {})] if is_normalised else []),
        ("relu1", "ReLU", {}),
        ("flatten", "Flatten", {}),
        ("dense1", "Dense", {"units": UNITS}),
        ("relu2", "ReLU", {}),
        *dropout,
        ("dense2", "Dense", {"units": CLASSES}),
    ]
    return chain("small", SHAPE, layers)


def built(framework: str, ranks: Ranks, architecture: Architecture, observed_batch: int | None = None) -> Adapter:
    """Return a fresh adapter in float64, with the same samples as "train" and "test"."""
    adapter = create_adapter(framework, 1, ranks=ranks)
    adapter.build(
        architecture=architecture,
        weights=draw_initial_weights(architecture, "glorot_uniform", (1, 1)),
        optimizer=OPTIMIZER,
        device="cpu",
        dtype="float64",
        observed_batch=observed_batch,
    )
    generator = np.random.default_rng(0)
    images, labels = generator.random((SAMPLES, *SHAPE)), generator.integers(0, CLASSES, SAMPLES)
    for split in ("train", "test"):
        adapter.load(split=split, inputs=images, labels=labels)
    return adapter


def train(framework: str, ranks: Ranks) -> dict:
    """Return what steps with given masks show, and an epoch with a short last batch."""
    found: dict = {"losses": [], "gradients": []}
    adapter, generator = built(framework, ranks, network(has_dropout=True), BATCH_SIZE), np.random.default_rng(1)
    for step in range(STEPS):
        part = EpochFeed(generator.permutation(SAMPLES)[:BATCH_SIZE], BATCH_SIZE, BATCH_SIZE, step)
        adapter.set_masks({"dropout": 2.0 * generator.integers(0, 2, (BATCH_SIZE, UNITS))})
        found["losses"].append(adapter.train_epoch(part))
        found["gradients"].append(adapter.gradients()["conv.kernel"])
    found |= {"weights": adapter.weights(), "state": adapter.state()}
    found["activations"] = adapter.activations("train", range(BATCH_SIZE), training=True)
    adapter = built(framework, ranks, network())
    found["epoch losses"] = adapter.train_epoch(epoch_feed(SAMPLES, BATCH_SIZE, (1, 1), 1))
    found |= {"counted": adapter.counted(), "epoch weights": adapter.weights()}
    found["logits"] = ranks.from_first(lambda: adapter.predict("test"))  # which the first can do alone
    adapter.set_state(adapter.state())
    found["next losses"] = adapter.train_epoch(epoch_feed(SAMPLES, BATCH_SIZE, (1, 1), 2))
    return found


def check(framework: str, ranks: Ranks, equal_masks: bool) -> dict:
    """Return what is wrong with the adapter of several workers (see `check_adapter`).

    equal_masks: let all ranks draw the same dropout masks.
    """
    if equal_masks:
        shard = EpochFeed.shard
        EpochFeed.shard = lambda feed, *of: replace(shard(feed, *of), dropout_seed=feed.dropout_seed)
    adapter = create_adapter(framework, 1, ranks=ranks)
    checks = check_adapter(adapter, network(has_dropout=True), OPTIMIZER, (1, 1), "cpu", ranks.size)
    return {name: wrong for name, wrong in checks.items() if wrong}


def normalised(framework: str, ranks: Ranks) -> dict:
    """Return the weights and logits after an epoch of a network with batch normalisation."""
    adapter = built(framework, ranks, network(is_normalised=True))
    adapter.train_epoch(epoch_feed(SAMPLES, BATCH_SIZE, (1, 1), 1))
    return {"weights": adapter.weights(), "logits": ranks.from_first(lambda: adapter.predict("test"))}


def difference(one: object, other: object) -> float:
    """Return the largest absolute difference of two trees of numbers."""
    if isinstance(one, dict):
        return max(difference(one[key], other[key]) for key in one)
    return float(np.max(np.abs(np.asarray(one, float) - np.asarray(other, float))))


def compare(framework: str, ranks: Ranks) -> dict:
    """Return how far all that several workers show is from what one shows, and the ranks from each other."""
    together, alone = train(framework, ranks), train(framework, Ranks())
    of_ranks = ranks.all_values(together["state"])
    differences = {key: difference(together[key], alone[key]) for key in together}
    return differences | {"ranks": max(difference(state, of_ranks[0]) for state in of_ranks)}


def compare_normalised(framework: str, ranks: Ranks) -> dict:
    """Return how far a network with batch normalisation is from that of torch, and from that of one worker."""
    own, one = normalised(framework, ranks), normalised(framework, Ranks())
    return {"torch": difference(own, normalised("torch", ranks)), "one": difference(own, one)}


MODES = {
    "train": compare,
    "own masks": partial(check, equal_masks=False),
    "equal masks": partial(check, equal_masks=True),
    "normalised": compare_normalised,
}


def main() -> None:
    framework, workers = sys.argv[1], int(sys.argv[2])
    set_environment(framework, "stock")
    ranks = join_ranks(workers)
    found = MODES[sys.argv[3] if sys.argv[3:] else "train"](framework, ranks)
    if ranks.rank == 0:
        print(json.dumps(found))
    ranks.leave()


if __name__ == "__main__":
    main()
