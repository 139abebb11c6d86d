"""Ratios that correlate from repeat to repeat, as those of runs on a machine that drifts."""

import numpy as np


def simulated(trials: int, pairs: int, correlation: float) -> np.ndarray:
    """Ratios around 1, (trials, pairs): their logs are a stationary autoregressive process of normal values."""
    rng = np.random.default_rng(pairs)
    logs = rng.normal(size=(trials, pairs))
    for repeat in range(1, pairs):
        logs[:, repeat] = correlation * logs[:, repeat - 1] + np.sqrt(1 - correlation**2) * logs[:, repeat]
    return np.exp(0.05 * logs)
