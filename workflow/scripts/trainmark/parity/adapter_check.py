"""Compares an adapter with numpy in what a comparison of two trainers does not show.

Small networks with known results are built and trained as runs do: in float32 and without `observed_batch`.

Order: three epochs of a softmax regression, each with a learning rate of its own. Evaluation: more samples than fit
into one evaluation batch. Dropout: all masks that the framework draws itself, derived from the weights.
"""

from collections.abc import Mapping

import numpy as np

from trainmark.frameworks.adapter import EVALUATION_BATCH_SIZE, Adapter
from trainmark.networks.graph import Architecture, chain
from trainmark.recipes.batch_order import EpochFeed, share_of
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import DTYPE, Optimizer

TOLERANCE = 1e-5
"""Relative tolerance of logits, and a tenth of that of losses: float32 rounds by 6e-8, which sums turn into 1e-6."""

FEATURES, CLASSES, EPOCHS = 6, 3, 3

FULL_BATCHES, LAST_BATCH, MORE_SAMPLES = 4, 8, 2
"""An epoch's full batches, the samples of its shorter last one (one for each worker, if they are more), and by how many
the others are larger."""

LEARNING_RATES = (0.5, 0.2, 0.8)
"""Learning rate of each epoch: first that of the optimizer, then those of feeds, as schedules change it."""

DROPOUT_STEPS, DROPOUT_BATCH, DROPOUT_FEATURES, DROPOUT_EPOCHS = 4, 16, 4096, 8
"""All samples x features x epochs are 2,097,152 draws, which determine a rate of .2 to .0003 (one standard deviation).
A batch is larger if there are more workers."""

SMALL_RATE = 1e-6
"""Learning rate of the dropout check; so small that the weights stay practically 0 in every step."""

SCALE_TOLERANCE = 1e-3
"""Relative tolerance of the factor by which dropout scales the values that it keeps."""

MAX_DEVIATIONS = 5.0
"""Allowed deviation of a share of draws, in standard deviations; chance exceeds it once in a million checks."""


def check_adapter(adapter: Adapter, architecture: Architecture, device: str, workers: int = 1) -> dict[str, str | None]:
    """Return by check what is wrong, as a phrase, or None: "order", "evaluation" and, if the network has it, "dropout".

    architecture: the recipe's network; each of its dropout rates is checked.

    The adapter is built anew.
    """
    rates = {node.attributes["rate"] for node in architecture.nodes if node.op == "Dropout"}
    network = _network(FEATURES, CLASSES, None)
    generator = np.random.default_rng(5)
    weights = {"dense.kernel": generator.normal(size=(FEATURES, CLASSES)), "dense.bias": generator.normal(size=CLASSES)}
    optimizer = Optimizer("sgd", LEARNING_RATES[0])
    adapter.build(architecture=network, weights=weights, optimizer=optimizer, device=device, dtype=DTYPE)
    checks = {
        "evaluation": _wrong_evaluation(adapter, weights, generator),
        "order": _wrong_order(adapter, weights, workers),
    }
    wrong_dropout = (_wrong_dropout(adapter, rate, device, workers) for rate in sorted(rates))
    return checks | ({"dropout": next(filter(None, wrong_dropout), None)} if rates else {})


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
    expected = inputs @ weights["dense.kernel"] + weights["dense.bias"]
    for _ in range(2):  # a state that predictions change would show the second time
        logits = adapter.predict("test")
        if logits.shape != expected.shape:
            return f"predicts {len(logits)} samples instead of {len(expected)}"
        wrong = ~(np.abs(logits - expected) <= TOLERANCE * np.abs(expected).max()).all(axis=1)
        if wrong.any():
            return f"predicts other logits than numpy for sample {np.argmax(wrong) + 1} of {len(expected)}"
    return None


def _wrong_order(adapter: Adapter, weights: Weights, workers: int) -> str | None:
    """Compare the losses of several epochs with numpy; each epoch has its own order and a shorter last batch."""
    last = max(LAST_BATCH, workers)
    batch_size = last + MORE_SAMPLES
    samples = FULL_BATCHES * batch_size + last
    generator = np.random.default_rng(6)
    orders = [generator.permutation(samples) for _ in range(EPOCHS)]
    inputs, labels = generator.normal(size=(samples, FEATURES)).astype(DTYPE), generator.integers(0, CLASSES, samples)
    _load(adapter, "train", inputs, labels)
    kernel, bias = weights["dense.kernel"], weights["dense.bias"]
    updates = 0
    for epoch, (order, rate) in enumerate(zip(orders, LEARNING_RATES, strict=True), start=1):
        rates = (("learning_rate", rate),) if epoch > 1 else ()
        feed = EpochFeed(order, batch_size, samples, dropout_seed=epoch, rates=rates)
        losses = adapter.train_epoch(feed)
        updates += feed.steps
        if wrong := feed.wrong_counts(adapter.counted(), updates):
            return f"{wrong} in epoch {epoch}"
        if len(losses) != feed.steps:
            return f"returns {len(losses)} losses for {feed.steps} steps in epoch {epoch}"
        for step, loss in enumerate(losses):
            batch = order[step * batch_size : (step + 1) * batch_size]
            expected, errors = _softmax_regression(inputs[batch], labels[batch], kernel, bias)
            if not abs(loss - expected) <= 10 * TOLERANCE * abs(expected):
                return (
                    f"has the loss {loss:.6g} in epoch {epoch}, step {step + 1} of {feed.steps}; numpy has "
                    f"{expected:.6g} for the same batches and learning rate"
                )
            kernel, bias = kernel - rate * inputs[batch].T @ errors, bias - rate * errors.sum(axis=0)
    trained = adapter.weights()
    if not np.allclose(trained["dense.kernel"], kernel, rtol=0, atol=10 * TOLERANCE * np.abs(kernel).max()):
        return f"has other weights than numpy after {EPOCHS} epochs of the same batches and learning rates"
    return None


def _softmax_regression(
    inputs: np.ndarray, labels: np.ndarray, kernel: np.ndarray, bias: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return (mean cross entropy of a batch, its gradient with respect to the logits)."""
    probabilities = np.exp(inputs @ kernel + bias)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(probabilities[rows, labels]).mean())
    probabilities[rows, labels] -= 1
    return loss, probabilities / len(labels)


# --- dropout ------------------------------------------------------------------------------------------------------


def _wrong_dropout(adapter: Adapter, rate: float, device: str, workers: int) -> str | None:
    batch_size = max(DROPOUT_BATCH, workers)
    samples = DROPOUT_STEPS * batch_size
    classes = samples + 1
    adapter.build(
        architecture=_network(DROPOUT_FEATURES, classes, rate),
        weights={"dense.kernel": np.zeros((DROPOUT_FEATURES, classes)), "dense.bias": np.zeros(classes)},
        optimizer=Optimizer("sgd", SMALL_RATE),
        device=device,
        dtype=DTYPE,
    )
    _load(adapter, "train", np.ones((samples, DROPOUT_FEATURES)), np.arange(samples))
    state = adapter.state()
    factors = np.stack([_factors(adapter, state, seed, batch_size) for seed in range(DROPOUT_EPOCHS)])
    repeated = _factors(adapter, state, 0, batch_size)
    kernel = np.random.default_rng(7).normal(size=(DROPOUT_FEATURES, classes)).astype(DTYPE)
    adapter.set_weights({"dense.kernel": kernel, "dense.bias": np.zeros(classes)})
    _load(adapter, "test", np.ones((3, DROPOUT_FEATURES)), np.zeros(3, int))
    logits, expected = adapter.predict("test"), kernel.sum(axis=0, dtype=np.float64)
    if not np.allclose(logits, expected, rtol=0, atol=1e-3 * np.abs(expected).max()):
        return "applies dropout in evaluation too"
    return _wrong_factors(factors, rate, workers) or (
        None
        if np.allclose(factors[0], repeated, rtol=0, atol=SCALE_TOLERANCE)
        else f"draws different dropout masks for the same seed, at rate {rate:g}"
    )


def _factors(adapter: Adapter, state: Mapping[str, np.ndarray], seed: int, batch_size: int) -> np.ndarray:
    """Return the factor by which dropout multiplied each input in an epoch. All inputs are 1.

    (steps, samples of a step, features)

    Each sample has its own class, and one more class has no sample. All weights are 0, so every class has the same
    probability p. The gradient of a class's weights is (p - 1) times the mask of its sample plus p times the masks of
    all others; the class without a sample has p times all masks. The difference of the two is the mask itself.
    """
    adapter.set_state(dict(state))
    samples = DROPOUT_STEPS * batch_size
    adapter.train_epoch(EpochFeed(np.arange(samples), batch_size, samples, dropout_seed=seed))
    kernel = adapter.weights()["dense.kernel"].astype(np.float64)
    factors = (kernel[:, :-1] - kernel[:, -1:]).T * batch_size / SMALL_RATE
    return factors.reshape(DROPOUT_STEPS, batch_size, DROPOUT_FEATURES)


def _wrong_factors(factors: np.ndarray, rate: float, workers: int) -> str | None:
    """Return what is wrong with the factors of all epochs at this rate, or None.

    factors: (epochs, steps, samples of a step, features).
    """
    dropped = np.abs(factors) < 0.5
    share = float(dropped.mean())
    scales = factors[~dropped] * (1 - rate)
    if np.abs(scales - 1).max() > SCALE_TOLERANCE:
        scale = float(scales[np.argmax(np.abs(scales - 1))]) / (1 - rate)
        return f"scales the values that dropout keeps by {scale:.4f} instead of {1 / (1 - rate):.4f}"
    neighbours = {
        "the samples of a batch": (2, 1),
        "the parts of a batch": (2, share_of(dropped.shape[2], 1, max(workers, 2)).start),  # those of two workers
        "the steps of an epoch": (1, 1),
        "the epochs of a run": (0, 1),
        "neighbouring units": (3, 1),
    }
    for what, (axis, distance) in neighbours.items():  # draws at this distance on this axis must be independent
        draws = np.moveaxis(dropped, axis, 0)
        first, second = draws[:-distance], draws[distance:]
        equal, by_chance = float((first == second).mean()), share**2 + (1 - share) ** 2
        if abs(equal - by_chance) > MAX_DEVIATIONS * np.sqrt(by_chance * (1 - by_chance) / first.size):
            return (
                f"does not draw dropout masks independently for {what}: {100 * equal:.1f} % of neighbouring draws are "
                f"equal, {100 * by_chance:.1f} % are expected"
            )
    if abs(share - rate) > MAX_DEVIATIONS * np.sqrt(rate * (1 - rate) / dropped.size):
        return f"drops {100 * share:.2f} % of a layer's inputs instead of {100 * rate:g} %"
    return None
