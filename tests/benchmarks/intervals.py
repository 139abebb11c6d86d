"""How often do the intervals of the median ratio hold, where ratios correlate from repeat to repeat and where not?

Run: make bench-intervals. Simulated are logarithms of ratios as a stationary autoregressive process of normal values.
"""

import numpy as np
from simulated_ratios import simulated

from trainmark.tables.serial import ratio_interval
from trainmark.tables.statistics import median_interval

TRIALS = 2000


def shown(pairs: int, correlation: float) -> str:
    """How often each interval holds, and how much wider ours is in the mean."""
    samples = simulated(TRIALS, pairs, correlation)
    exact = np.array([median_interval(ratios) for ratios in samples])
    ours = np.array([ratio_interval(ratios)[0] for ratios in samples])
    held = [np.mean((found[:, 0] <= 1) & (found[:, 1] >= 1)) for found in (exact, ours)]
    widths = [np.mean(np.log(found[:, 1] / found[:, 0])) for found in (exact, ours)]
    return f"{held[0]:.1%} -> {held[1]:.1%}, {widths[1] / widths[0]:.2f} times as wide"


def main() -> None:
    """Print a line for each number of pairs."""
    print("pairs: exact interval -> ours, at autocorrelations of 0 and 0.5")
    for pairs in (6, 7, 8, 9, 10, 12, 15, 20, 25, 30):
        print(f"{pairs}: {shown(pairs, 0.0)} | {shown(pairs, 0.5)}", flush=True)


if __name__ == "__main__":
    main()
