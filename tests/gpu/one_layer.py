"""An adapter on the GPU for the scripts that give it work of their own."""

from trainmark.frameworks.registry import create_adapter
from trainmark.networks.graph import chain
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer

NETWORK = chain("one", (1,), [("dense", "Dense", {"units": 1})])


def one_layer_adapter(framework):
    """The adapter of a framework with a network of one layer."""
    adapter = create_adapter(framework, threads=2)
    adapter.build(
        architecture=NETWORK, weights=draw_initial_weights(NETWORK, "glorot_uniform", (1, 1)),
        optimizer=Optimizer("sgd", 0.1), device="gpu", dtype="float32",
    )  # fmt: skip
    return adapter
