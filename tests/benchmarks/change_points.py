"""How often does history.py report a change that there is none of, and how often does it find one?

Run: make bench-history. The medians of campaigns are simulated. Their noise is 1 %.
"""

from collections.abc import Callable

import numpy as np
from simulated_ratios import autoregressive

from trainmark.campaigns.change_points import change_points, fewest

TRIALS = 1000
CALLS, IN_CALL = 250, 8
FINDS = 100
CAMPAIGNS = (8, 10, 12, 15, 20, 30)
NOISE, CHANGE = 0.01, 0.05


KINDS: dict[str, Callable] = {
    "quiet (normal noise)": lambda random, shape: random.normal(size=shape),
    "heavy tails (Student's t with 2 degrees of freedom)": lambda random, shape: random.standard_t(2, size=shape),
    "wandering (an autocorrelation of 0.5)": autoregressive,
}


def logs(kind: str, series: int, campaigns: int) -> np.ndarray:
    """The logarithms of the medians of campaigns without a change: an array of shape (series, campaigns)."""
    return NOISE * np.asarray(KINDS[kind](np.random.default_rng(campaigns), (series, campaigns)))


def false_alarms(kind: str, campaigns: int, calls: int, series: int) -> float:
    """The share of calls on so many series without a change in which a change point is found."""
    samples = logs(kind, calls * series, campaigns).reshape(calls, series, campaigns)
    return float(np.mean([any(change_points(list(one))) for one in samples]))


def found(kind: str, campaigns: int, after: int, calls: int, series: int) -> tuple[float, float]:
    """(share of calls in which the change of one series is found, share in which only it is, and at its place).

    after: number of campaigns after the change. Nothing changes in the other series of a call.
    """
    samples = logs(kind, calls * series, campaigns).reshape(calls, series, campaigns)
    samples[:, 0, campaigns - after :] += np.log(1 + CHANGE)
    results = [change_points(list(one)) for one in samples]
    nothing: list[dict] = [{}] * (series - 1)
    exact = [[*one[0]] == [campaigns - after] and one[1:] == nothing for one in results]
    return float(np.mean([bool(one[0]) for one in results])), float(np.mean(exact))


def main() -> None:
    """Print a line for each kind of series."""
    print(f"fewest campaigns: {fewest()} for 1 series, {fewest(IN_CALL)} for {IN_CALL}, {fewest(100)} for 100")
    several = f"{CALLS} on {IN_CALL} series"
    print(f"false alarms with {', '.join(map(str, CAMPAIGNS))} campaigns, of {TRIALS} calls on 1 series | {several}:")
    for kind in KINDS:
        alone = [f"{false_alarms(kind, n, TRIALS, 1):.1%}" for n in CAMPAIGNS]
        together = [f"{false_alarms(kind, n, CALLS, IN_CALL):.1%}" for n in CAMPAIGNS]
        print(f"{kind}:", *alone, "|", *together, flush=True)
    print(f"a change of {CHANGE:.0%} found, in brackets at its place and no other, of {FINDS} calls on 1 | {IN_CALL}:")
    for kind in list(KINDS)[:2]:
        for what, after in (("half of them", None), ("the last 4", 4), ("the last 3", 3), ("the last 2", 2)):
            shares = [[found(kind, n, after or n // 2, FINDS, series) for n in CAMPAIGNS] for series in (1, IN_CALL)]
            texts = [" ".join(f"{share:.0%} ({exact:.0%})" for share, exact in one) for one in shares]
            print(f"{kind}, {what}:", " | ".join(texts), flush=True)


if __name__ == "__main__":
    main()
