"""Compares the dropout masks that a framework draws itself with independent draws, for all Dropout layers of a network.

The masks are read from the weights of a small network, which has the layers side by side, each with its own shape and
rate. It is built and trained as runs do, with predictions between the epochs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from trainmark.frameworks.adapter import Adapter
from trainmark.networks.graph import Architecture, Graph
from trainmark.networks.ops import Shape
from trainmark.recipes.batch_order import EpochFeed, epoch_feed, share_of
from trainmark.recipes.recipe import DTYPE, Optimizer

STEPS, SAMPLES = 8, (2, 32)
"""Steps of an epoch, and fewest and most samples of a step; a step has more if there are more workers."""

DRAWS = 2**20
"""Number of draws of all epochs, from which the samples of a step follow. They determine a rate of .2 to .0004."""

PREDICTED = (("test",), ("test", "test"), (), ("train",), ("test", "train"), (), ("train", "test"), ("test",))
"""The splits that are predicted before each epoch. Runs with dropout are evaluated before the first one."""

SMALL_RATE = 1e-8
"""Learning rate; so small that all classes stay equally likely. The weights start from 0, so no digits are lost."""

SCALE_TOLERANCE = 1e-3
"""Relative tolerance of the factor by which dropout scales the values that it keeps, and of predictions."""

RATE_DEVIATIONS = 5.0
"""Allowed deviation of a layer's rate, in standard deviations; chance exceeds it once in a million checks."""

MOST_DEVIATIONS = 8.0
"""The same for millions of distances between draws; chance exceeds it once in a hundred million checks. In 80 honest
checks of recipes with dropout at most 5.7 were observed. Rare draws deviate further (Bernstein's inequality)."""

BY_CHANCE = 1e-12
"""The chance of a step in which nothing is dropped, below which it counts as an error."""

LAYERS, EPOCHS, STEPS_OF_EPOCH = "the layers", "the epochs of a run", "the steps of an epoch"
SAMPLES_OF_BATCH, UNITS = "the samples of a batch", "the units of a layer"

AXES = (LAYERS, EPOCHS, STEPS_OF_EPOCH, SAMPLES_OF_BATCH, UNITS)
"""What draws can differ in; of two draws the first of these is named."""


@dataclass(frozen=True)
class Layer:
    """A Dropout layer: name, shape of a sample, rate."""

    name: str
    shape: Shape
    rate: float


def dropout_seeds(seed: tuple[int, ...]) -> list[int]:
    """Return the dropout seeds of the epochs, as runs have them, and some that share most bits or digits with one.

    seed: that of a run. The seeds are those of its first epochs, of a part of an epoch and of another run.
    """
    of_run = [epoch_feed(2, None, seed, epoch) for epoch in (1, 2, 3)]
    part = epoch_feed(2, 1, seed, 1).parts(1)[1]
    other_run = epoch_feed(2, None, (*seed[:-1], seed[-1] + 1), 1)
    first = of_run[0].dropout_seed
    alike = [first ^ 1, first ^ 1 << 30, first + 10**9 if first < 2**30 else first - 10**9]
    return [*(feed.dropout_seed for feed in (*of_run, part, other_run)), *alike]


def wrong_dropout(
    adapter: Adapter, architecture: Architecture, seed: tuple[int, ...], device: str, workers: int
) -> str | None:
    """Return what is wrong with the dropout of an adapter, as a phrase, or None.

    architecture: the recipe's network, which has dropout.
    seed: that of a run.

    The adapter is built anew.
    """
    shapes = architecture.shapes()
    layers = [
        Layer(node.name, shapes[node.name], node.attributes["rate"])
        for node in architecture.nodes
        if node.op == "Dropout"
    ]
    seeds = dropout_seeds(seed)
    fewest, most = SAMPLES
    units = sum(prod(layer.shape) for layer in layers)
    batch_size = max(min(max(DRAWS // (len(seeds) * STEPS * units), fewest), most), workers)
    reader = _Reader(adapter, layers, batch_size, device)
    epochs = []
    for epoch, (epoch_seed, splits) in enumerate(zip(seeds, PREDICTED, strict=True), start=1):
        if any(reader.is_wrong_prediction(split) for split in splits):
            return f"applies dropout in evaluation too, before epoch {epoch}"
        epochs.append(reader.factors(epoch_seed))
    repeated = reader.factors(seeds[0])
    factors = [np.stack(of_layer) for of_layer in zip(*epochs, strict=True)]
    for layer, drawn in zip(layers, factors, strict=True):
        if wrong := _wrong_values(layer, drawn):
            return wrong
    dropped = [np.abs(drawn) < 0.5 for drawn in factors]
    if wrong := wrong_draws(layers, dropped, seeds, workers):
        return wrong
    for layer, drawn, again in zip(layers, factors, repeated, strict=True):
        if not np.allclose(drawn[0], again, rtol=0, atol=SCALE_TOLERANCE / (1 - layer.rate)):
            return f"draws different dropout masks for the same seed, in {layer.name}"
    return None


# --- reading the masks --------------------------------------------------------------------------------------------


class _Reader:
    """Trains the network from whose weights the masks are read.

    Each sample has its own class, and one more class has no sample. All weights are 0, so every class has the same
    probability p. The gradient of a class's weights is (p - 1) times the mask of its sample plus p times the masks of
    all others; the class without a sample has p times all masks. The difference of the two is the mask itself.
    """

    def __init__(self, adapter: Adapter, layers: Sequence[Layer], batch_size: int, device: str) -> None:
        self._adapter, self._batch_size, self._samples = adapter, batch_size, STEPS * batch_size
        network = side_by_side(layers, self._samples + 1)
        self._shapes = [network.shapes()[layer.name] for layer in layers]
        weights = {one.name: np.zeros(one.shape) for one in network.arrays()}
        for name in weights:
            if name.endswith((".embeddings", ".bias")) and not name.startswith("read."):
                weights[name] += 1  # the input of each Dropout layer
        optimizer = Optimizer("sgd", SMALL_RATE)
        adapter.build(architecture=network, weights=weights, optimizer=optimizer, device=device, dtype=DTYPE)
        inputs = np.zeros((self._samples, *network.input_shape), np.int32 if network.takes_tokens else DTYPE)
        for split, count in (("train", self._samples), ("test", 3)):
            adapter.load(split=split, inputs=inputs[:count], labels=np.arange(count))
        state = adapter.state()
        adapter.compile(self._feed(0))  # as a run does
        adapter.set_state(state)
        self._read()

    def _feed(self, seed: int) -> EpochFeed:
        return EpochFeed(np.arange(self._samples), self._batch_size, self._samples, dropout_seed=seed)

    def _read(self) -> None:
        weights = self._adapter.weights()
        self._kernel, self._bias = weights["read.kernel"], weights["read.bias"]

    def factors(self, seed: int) -> list[np.ndarray]:
        """Train an epoch; return by layer the factors on its inputs, all of which are 1: (steps, samples, *shape)."""
        before = self._kernel
        self._adapter.train_epoch(self._feed(seed))
        self._read()
        change = self._kernel - before
        rows = (change[:, :-1] - change[:, -1:]).T * np.float32(self._batch_size / SMALL_RATE)
        parts = np.split(rows, np.cumsum([prod(shape) for shape in self._shapes])[:-1], axis=1)
        return [part.reshape(STEPS, self._batch_size, *shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def is_wrong_prediction(self, split: str) -> bool:
        """Return whether the logits of a split, whose samples are equal, are not those of a network without dropout."""
        expected = self._kernel.sum(axis=0, dtype=np.float64) + self._bias
        wrong = np.abs(self._adapter.predict(split) - expected).max()
        return not wrong <= SCALE_TOLERANCE * np.abs(expected).max()


def side_by_side(layers: Sequence[Layer], classes: int) -> Architecture:
    """Return a network with these layers, fed by layers whose outputs are 1 if their biases and embeddings are.

    Layers on sequences get embeddings of token ids, others convolutions or dense layers. One dense layer, "read", takes
    the outputs of all. Maps are square.
    """
    lengths = [layer.shape[1] for layer in layers if len(layer.shape) == 2]
    side = max((max(layer.shape[1:]) for layer in layers if len(layer.shape) == 3), default=1)
    graph = Graph((max(lengths),) if lengths else (1, side, side))
    outputs = []
    for layer in layers:
        before, (channels, *sides) = f"{layer.name}_input", layer.shape
        if not sides:
            if lengths:
                graph.add(f"{layer.name}_tokens", "Embedding", after="input", vocabulary=1, units=1)
            vector = "GlobalMaxPool1D" if lengths else "Flatten"
            graph.add(f"{layer.name}_vector", vector, after=graph.last if lengths else "input")
            graph.add(before, "Dense", units=channels)
        elif len(sides) == 1:
            graph.add(before, "Embedding", after="input", vocabulary=1, units=channels)
        else:
            graph.add(before, "Conv2D", after="input", filters=channels, size=side - sides[0] + 1)
        dropout = graph.add(layer.name, "Dropout", rate=layer.rate)
        outputs.append(graph.add(f"{layer.name}_output", "Flatten") if sides else dropout)
    if len(outputs) > 1:
        graph.add("joined", "Concat", after=tuple(outputs))
    graph.add("read", "Dense", units=classes)
    return graph.architecture("dropout")


# --- the values ---------------------------------------------------------------------------------------------------


def _wrong_values(layer: Layer, factors: np.ndarray) -> str | None:
    """Return what is wrong with the factors of a layer, (epochs, steps, samples, *shape), or None."""
    dropped = np.abs(factors) < 0.5
    of_step = dropped.reshape(*dropped.shape[:2], -1)
    none = ~of_step.any(axis=2)
    if none.any() and (1 - layer.rate) ** of_step.shape[2] < BY_CHANCE:
        epoch, step = np.argwhere(none)[0]
        after = f", after {sum(map(len, PREDICTED[: epoch + 1]))} predictions"
        return f"applies no dropout in training: to {layer.name} in epoch {epoch + 1}, step {step + 1}{after}"
    scales = factors[~dropped] * (1 - layer.rate)
    furthest = float(scales[np.argmax(np.abs(scales - 1))])
    if not abs(furthest - 1) <= SCALE_TOLERANCE:
        scale, due = furthest / (1 - layer.rate), 1 / (1 - layer.rate)
        return f"scales the values that dropout keeps by {scale:.4f} instead of {due:.4f} in {layer.name}"
    return None


# --- the draws ----------------------------------------------------------------------------------------------------

Draws = Sequence[np.ndarray]
"""Arrays of all layers, each (epochs, steps, samples, *shape)."""


def wrong_draws(layers: Sequence[Layer], dropped: Draws, seeds: Sequence[int], workers: int = 1) -> str | None:
    """Return what is wrong with the draws of all layers, as a phrase, or None. dropped: bool.

    Draws at each distance, in each order in which a framework may draw them, must be uncorrelated, also with the draws
    in the opposite order.
    """
    shares = [float(of_layer.mean()) for of_layer in dropped]
    wrong_rates = (
        f"drops {100 * share:.2f} % of the inputs of {layer.name} instead of {100 * layer.rate:g} %"
        for layer, share, of_layer in zip(layers, shares, dropped, strict=True)
        if abs(share - layer.rate) > RATE_DEVIATIONS * np.sqrt(layer.rate * (1 - layer.rate) / of_layer.size)
    )
    if not all(0 < share < 1 for share in shares):
        return next(wrong_rates, None)  # draws of a small rate may all be equal by chance
    draws = [
        (of_layer.astype(np.float32) - np.float32(share)) / np.float32(np.sqrt(share * (1 - share)))
        for of_layer, share in zip(dropped, shares, strict=True)
    ]
    differs = {_by_layer: True, _by_sample: len(draws) > 1, _channels_last: any(one.ndim > 4 for one in draws)}
    for order in filter(differs.get, differs):
        if pairs := _dependent_pairs(order(draws)):
            return _dependence(order, pairs, layers, dropped, draws, seeds, workers)
    for layer, one in zip(layers, draws, strict=True):
        of_samples = one.reshape(-1, prod(layer.shape))
        spread = (of_samples.sum(axis=1) ** 2).mean() / of_samples.shape[1]
        deviation = np.sqrt((2 + (one**4).mean() / of_samples.shape[1]) / len(of_samples))
        if abs(spread - 1) > MOST_DEVIATIONS * deviation:
            return (
                f"does not draw dropout masks independently for {UNITS}, {layer.name}: the numbers of dropped values "
                f"of the samples have {spread:.2f} times the variance of independent draws"
            )
    return next(wrong_rates, None)  # last, because dependent draws deviate further


def _by_layer(draws: Draws) -> np.ndarray:
    """Return all draws in the order of epochs, steps, layers, samples and units."""
    return np.concatenate([one.reshape(*one.shape[:2], -1) for one in draws], axis=2).ravel()


def _by_sample(draws: Draws) -> np.ndarray:
    """Return all draws in the order of epochs, steps, samples, layers and units."""
    return np.concatenate([one.reshape(*one.shape[:3], -1) for one in draws], axis=3).ravel()


def _channels_last(draws: Draws) -> np.ndarray:
    """Return all draws like `_by_layer`, with the channels of maps as the last axis."""
    return _by_layer([np.moveaxis(one, 3, -1) for one in draws])


def _dependent_pairs(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the places of pairs of dependent draws: equally far apart, or mirrored.

    Of the distances at which they are at least half as dependent as at any, that is the shortest.

    draws: with mean 0 and variance 1; the correlations at all distances are computed by FFT.
    """
    count, size = len(draws), 1 << (len(draws) - 1).bit_length()
    transform = np.fft.rfft(draws, size)
    apart = np.abs(np.fft.irfft(np.abs(transform) ** 2, size)[1 : size // 2 + 1] / np.sqrt(count))
    mirrored = np.abs(np.fft.irfft(transform**2, size) / np.sqrt(2 * count))
    rare = MOST_DEVIATIONS**2 / 6 * (draws**2).max() / np.sqrt(count)
    allowed = rare + np.hypot(rare, MOST_DEVIATIONS)
    if max(apart.max(), mirrored.max()) <= allowed:
        return None
    places = np.arange(count)
    others = (
        places + 1 + np.argmax(2 * apart > apart.max()) if apart.max() > allowed else mirrored.argmax() - places
    ) % size
    within = others < count
    pairs = np.sort([places[within], others[within]], axis=0)
    return pairs[0], pairs[1]


def _dependence(
    order: Callable[[Draws], np.ndarray],
    pairs: tuple[np.ndarray, np.ndarray],
    layers: Sequence[Layer],
    dropped: Draws,
    draws: Draws,
    seeds: Sequence[int],
    workers: int,
) -> str:
    """Return the sentence about dependent pairs of draws. Of what they differ in, the first of AXES is named."""
    coordinates = np.stack([order(one) for one in _coordinates(dropped)])
    places, others = pairs
    differing = coordinates[:, places] != coordinates[:, others]
    chosen = _most_dependent(2 ** np.arange(len(AXES))[::-1] @ differing, order(draws), places, others)
    axis = int(np.argmax(differing[:, chosen[0]]))
    places, others = places[chosen], others[chosen]
    first, second = coordinates[axis, places], coordinates[axis, others]
    what = AXES[axis]
    if what in (LAYERS, EPOCHS):  # that of the pairs of layers, or of epochs, which depends most
        chosen = _most_dependent(first * len(draws) * len(seeds) + second, order(draws), places, others)
        places, others, (one, other) = places[chosen], others[chosen], (first[chosen[0]], second[chosen[0]])
        if what == LAYERS:
            what = f"{what} {layers[one].name} and {layers[other].name}"
        else:
            what = f"{what}, with the seeds {seeds[one]} and {seeds[other]}"
    elif what == SAMPLES_OF_BATCH and workers > 1:
        starts = [share_of(dropped[0].shape[2], rank, workers).start for rank in range(workers)]
        apart = {abs(one - other) for one, other in combinations(starts, 2)}
        what = "the parts of a batch" if set(np.abs(first - second)) <= apart else what
    values = order(dropped)
    share, other_share = values[places].mean(), values[others].mean()
    equal, by_chance = (values[places] == values[others]).mean(), share * other_share + (1 - share) * (1 - other_share)
    return (
        f"does not draw dropout masks independently for {what}: {100 * equal:.1f} % of the draws of such pairs are "
        f"equal, {100 * by_chance:.1f} % are expected"
    )


def _most_dependent(kinds: np.ndarray, draws: np.ndarray, places: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the indices of the pairs of the kind whose draws depend most on each other."""
    sums = np.bincount(kinds, draws[places] * draws[others])
    kind = int(np.argmax(np.abs(sums) / np.sqrt(np.maximum(np.bincount(kinds), 1))))
    return np.flatnonzero(kinds == kind)


def _coordinates(dropped: Draws) -> Iterator[Draws]:
    """Yield by AXES the coordinate of each draw, as arrays of the shape of `dropped`."""
    grids = [np.indices((*one.shape[:3], prod(one.shape[3:])), np.int32, sparse=True) for one in dropped]
    yield [np.full(one.shape, layer, np.int32) for layer, one in enumerate(dropped)]
    for axis in range(4):
        yield [
            np.broadcast_to(grid[axis], (*one.shape[:3], prod(one.shape[3:]))).reshape(one.shape)
            for grid, one in zip(grids, dropped, strict=True)
        ]
