"""Does an adapter do what no comparison of two trainers shows? Small networks whose results are known in numpy.

They are built and trained as runs do, in float32, not looked into. Order: three epochs of a softmax regression.
Evaluation: more samples than one batch of it. Dropout: the framework's own masks, all of them, seen by the weights.
"""

from collections.abc import Callable, Mapping

import numpy as np

from trainmark.frameworks.adapter import EVALUATION_BATCH_SIZE, Adapter
from trainmark.networks.graph import Architecture, chain
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import DTYPE, Optimizer

TOLERANCE = 1e-5
"""Of losses and logits, relative: float32 rounds by 6e-8, and makes 1e-6 of it in sums."""

SAMPLES, BATCH_SIZE, FEATURES, CLASSES, EPOCHS = 23, 5, 6, 3, 3

DROPOUT_SAMPLES, DROPOUT_BATCH, DROPOUT_FEATURES, DROPOUT_EPOCHS = 64, 16, 4096, 8
"""2,097,152 draws: a rate of .2 is known to .0003."""

SMALL_RATE = 1e-6
"""The learning rate with dropout: so small that each step sees all weights as 0."""

SCALE_TOLERANCE = 1e-3
"""Of the factor by which dropout scales up what it keeps, relative."""

MOST_DEVIATIONS = 5.0
"""Standard deviations that a share of draws may be off: by chance one check in a million is further off."""


def check_adapter(adapter: Adapter, architecture: Architecture, device: str) -> dict[str, str | None]:
    """What is wrong by check: "order", "evaluation" and, for each rate of the network, "dropout"; None: nothing.

    architecture: of the recipe, whose rates of dropout are checked. The adapter is built anew.
    """
    rates = {node.attributes["rate"] for node in architecture.nodes if node.op == "Dropout"}
    network = _network(FEATURES, CLASSES, None)
    generator = np.random.default_rng(5)
    weights = {"dense.kernel": generator.normal(size=(FEATURES, CLASSES)), "dense.bias": generator.normal(size=CLASSES)}
    adapter.build(architecture=network, weights=weights, optimizer=Optimizer("sgd", 0.5), device=device, dtype=DTYPE)
    found = {"evaluation": _wrong_evaluation(adapter, weights, generator), "order": _wrong_order(adapter, weights)}
    wrong = (_wrong_dropout(adapter, rate, device) for rate in sorted(rates))
    return found | ({"dropout": next(filter(None, wrong), None)} if rates else {})


def _network(features: int, classes: int, rate: float | None) -> Architecture:
    dropout: list[tuple[str, str, dict]] = [("drop", "Dropout", {"rate": rate})] if rate else []
    layers = [("flatten", "Flatten", {}), *dropout, ("dense", "Dense", {"units": classes})]
    return chain("checked", (1, 1, features), layers)


def _load(adapter: Adapter, split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
    adapter.load(split=split, inputs=inputs.astype(DTYPE).reshape(len(inputs), 1, 1, -1), labels=labels)


# --- evaluation and order -----------------------------------------------------------------------------------------


def _wrong_evaluation(adapter: Adapter, weights: Weights, generator: np.random.Generator) -> str | None:
    inputs = generator.normal(size=(2 * EVALUATION_BATCH_SIZE + 7, FEATURES))
    _load(adapter, "test", inputs, np.zeros(len(inputs), int))
    wanted = inputs @ weights["dense.kernel"] + weights["dense.bias"]
    for _ in range(2):  # dropout that is on, and a state that predictions change, would show the second time
        logits = adapter.predict("test")
        if logits.shape != wanted.shape:
            return f"predicts {len(logits)} samples of {len(wanted)}"
        off = ~(np.abs(logits - wanted) <= TOLERANCE * np.abs(wanted).max()).all(axis=1)
        if off.any():
            return f"predicts sample {np.argmax(off) + 1} of {len(wanted)} otherwise than its weights do in numpy"
    return None


def _wrong_order(adapter: Adapter, weights: Weights) -> str | None:
    """Losses of several epochs, each in an order of its own with a shorter last batch, against numpy."""
    generator = np.random.default_rng(6)
    orders = [generator.permutation(SAMPLES) for _ in range(EPOCHS)]
    inputs, labels = generator.normal(size=(SAMPLES, FEATURES)).astype(DTYPE), generator.integers(0, CLASSES, SAMPLES)
    _load(adapter, "train", inputs, labels)
    kernel, bias = weights["dense.kernel"], weights["dense.bias"]
    updates = 0
    for epoch, order in enumerate(orders, start=1):
        feed = EpochFeed(order, BATCH_SIZE, SAMPLES, dropout_seed=epoch)
        losses = adapter.train_epoch(feed)
        updates += feed.steps
        if wrong := feed.wrong_counts(adapter.counted(), updates):
            return f"{wrong} in epoch {epoch}"
        if len(losses) != feed.steps:
            return f"returns {len(losses)} losses for {feed.steps} steps in epoch {epoch}"
        for step, loss in enumerate(losses):
            batch = order[step * BATCH_SIZE : (step + 1) * BATCH_SIZE]
            wanted, errors = _softmax_regression(inputs[batch], labels[batch], kernel, bias)
            if not abs(loss - wanted) <= 10 * TOLERANCE * abs(wanted):
                return (
                    f"has the loss {loss:.6g} in epoch {epoch}, step {step + 1} of {feed.steps}, where numpy has "
                    f"{wanted:.6g} for these batches"
                )
            kernel, bias = kernel - 0.5 * inputs[batch].T @ errors, bias - 0.5 * errors.sum(axis=0)
    trained = adapter.weights()
    if not np.allclose(trained["dense.kernel"], kernel, rtol=0, atol=10 * TOLERANCE * np.abs(kernel).max()):
        return f"has other weights than numpy after {EPOCHS} epochs of the same batches"
    return None


def _softmax_regression(
    inputs: np.ndarray, labels: np.ndarray, kernel: np.ndarray, bias: np.ndarray
) -> tuple[float, np.ndarray]:
    """(mean cross entropy of a batch, its gradient by the logits)."""
    chances = np.exp(inputs @ kernel + bias)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(chances[rows, labels]).mean())
    chances[rows, labels] -= 1
    return loss, chances / len(labels)


# --- dropout ------------------------------------------------------------------------------------------------------


def _wrong_dropout(adapter: Adapter, rate: float, device: str) -> str | None:
    classes = DROPOUT_SAMPLES + 1
    adapter.build(
        architecture=_network(DROPOUT_FEATURES, classes, rate),
        weights={"dense.kernel": np.zeros((DROPOUT_FEATURES, classes)), "dense.bias": np.zeros(classes)},
        optimizer=Optimizer("sgd", SMALL_RATE),
        device=device,
        dtype=DTYPE,
    )
    _load(adapter, "train", np.ones((DROPOUT_SAMPLES, DROPOUT_FEATURES)), np.arange(DROPOUT_SAMPLES))
    state = adapter.state()
    factors = np.stack([_factors(adapter, state, seed) for seed in range(DROPOUT_EPOCHS)])
    again = _factors(adapter, state, 0)
    kernel = np.random.default_rng(7).normal(size=(DROPOUT_FEATURES, classes)).astype(DTYPE)
    adapter.set_weights({"dense.kernel": kernel, "dense.bias": np.zeros(classes)})
    _load(adapter, "test", np.ones((3, DROPOUT_FEATURES)), np.zeros(3, int))
    logits, wanted = adapter.predict("test"), kernel.sum(axis=0, dtype=np.float64)
    if not np.allclose(logits, wanted, rtol=0, atol=1e-3 * np.abs(wanted).max()):
        return "drops units in evaluation too"
    return _wrong_factors(factors, rate) or (
        None
        if np.allclose(factors[0], again, rtol=0, atol=SCALE_TOLERANCE)
        else f"draws other masks for the same seed where dropout is {rate:g}"
    )


def _factors(adapter: Adapter, state: Mapping[str, np.ndarray], seed: int) -> np.ndarray:
    """What dropout multiplied each input of 1 by in an epoch: (samples, features).

    Each sample has a class of its own, and one class has none. The gradient of a class's weights is (p - 1) m, plus p
    times the masks of all others; that of the class of none lacks the -m alone. p is the same for all: weights are 0.
    """
    adapter.set_state(dict(state))
    adapter.train_epoch(EpochFeed(np.arange(DROPOUT_SAMPLES), DROPOUT_BATCH, DROPOUT_SAMPLES, dropout_seed=seed))
    kernel = adapter.weights()["dense.kernel"].astype(np.float64)
    return (kernel[:, :-1] - kernel[:, -1:]).T * DROPOUT_BATCH / SMALL_RATE


def _wrong_factors(factors: np.ndarray, rate: float) -> str | None:
    """What is wrong with masks (epochs, samples, features) of a rate."""
    dropped = np.abs(factors) < 0.5
    share = float(dropped.mean())
    scales = factors[~dropped] * (1 - rate)
    if np.abs(scales - 1).max() > SCALE_TOLERANCE:
        furthest = float(scales[np.argmax(np.abs(scales - 1))])
        return f"scales what dropout keeps by {furthest / (1 - rate):.4f}, where {1 / (1 - rate):.4f} keeps the mean"
    for between, (first, second) in _neighbours(dropped).items():
        alike, wanted = float((first == second).mean()), share**2 + (1 - share) ** 2
        if abs(alike - wanted) > MOST_DEVIATIONS * np.sqrt(wanted * (1 - wanted) / first.size):
            return f"drops the same for {between}: {100 * alike:.1f} % are alike, by chance {100 * wanted:.1f} %"
    deviation = np.sqrt(rate * (1 - rate) / dropped.size)
    if abs(share - rate) > MOST_DEVIATIONS * deviation:
        return f"drops {100 * share:.2f} % of a layer's inputs, where the network says {100 * rate:g} %"
    return None


def _neighbours(dropped: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Draws that have to be independent of each other, in pairs, by what lies between them."""
    steps = dropped.reshape(len(dropped), -1, DROPOUT_BATCH, dropped.shape[-1])
    pairs: Mapping[str, Callable[[slice], np.ndarray]] = {
        "the samples of a batch": lambda part: steps[:, :, part],
        "the steps of an epoch": lambda part: steps[:, part],
        "the epochs of a run": lambda part: steps[part],
        "neighbouring units": lambda part: steps[..., part],
    }
    return {name: (of(slice(None, -1)), of(slice(1, None))) for name, of in pairs.items()}
