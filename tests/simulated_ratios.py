"""Ratios of the times of two trainers that are equally fast, repeat by repeat: (trials, pairs)."""

import numpy as np


def of_a_machine(machine: str, trials: int, pairs: int) -> np.ndarray:
    """Two runs in each repeat, in an order drawn at random, as the workflow trains them.

    machine: "quiet"; "heavy tails", where some runs take far longer; "drifting", which slows down by a fifth; or
        "wandering", whose speed is a random walk.
    """
    rng = np.random.default_rng(pairs)
    shape = (trials, 2 * pairs)
    logs = 0.01 * (rng.standard_t(2, shape) if machine == "heavy tails" else rng.normal(size=shape))
    if machine == "drifting":
        logs += np.linspace(0, 0.2, 2 * pairs)
    if machine == "wandering":
        logs += np.cumsum(rng.normal(0, 0.02, shape), axis=1)
    in_order = np.diff(logs.reshape(trials, pairs, 2), axis=2)[:, :, 0]
    return np.exp(in_order * rng.choice([-1, 1], (trials, pairs)))


def correlated(trials: int, pairs: int, correlation: float) -> np.ndarray:
    """Ratios whose logarithms are a stationary autoregressive process of normal values."""
    rng = np.random.default_rng(pairs)
    logs = rng.normal(size=(trials, pairs))
    for repeat in range(1, pairs):
        logs[:, repeat] = correlation * logs[:, repeat - 1] + np.sqrt(1 - correlation**2) * logs[:, repeat]
    return np.exp(0.05 * logs)
