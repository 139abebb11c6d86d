"""How often do the intervals of the ratio hold, and how many reports on equal trainers contain a false verdict?

Run: make bench-intervals. The ratios are simulated (tests/simulated_ratios.py).
"""

import numpy as np
import pandas as pd
from records_for_tests import compared
from simulated_ratios import beside_load, correlated, of_a_machine, simulated_runs

from trainmark.tables.bounds import LEAST
from trainmark.tables.paired import LEVEL, PairedRatios, holm, paired_ratios

TRIALS = 4000
REPORTS, IN_REPORT = 400, 50
PAIRS = (6, 7, 8, 9, 10, 12, 15, 20, 30)
MACHINES = {
    "quiet": "normal noise",
    "heavy tails": "noise of Student's t with 2 degrees of freedom",
    "drifting": "slows down by a fifth",
    "wandering": "its speed is a random walk",
}


def share_held(tests: list[PairedRatios]) -> str:
    """The share of 95 % intervals that contain 1."""
    intervals = np.array([one.interval() for one in tests])
    return f"{np.mean((intervals[:, 0] <= 1) & (intervals[:, 1] >= 1)):.1%}"


def false_reports(pairs: int) -> int:
    """How many of REPORTS reports on IN_REPORT pairs of equally fast trainers contain a verdict that one is faster."""
    samples = of_a_machine("heavy tails", REPORTS * IN_REPORT, pairs)
    p_values = np.reshape([paired_ratios(ratios).p_value for ratios in samples], (REPORTS, IN_REPORT))
    return sum(min(holm(of_report)) <= LEVEL for of_report in p_values)


def main() -> None:
    """Print a line for each kind of ratios, and one for each number of pairs in reports."""
    print(f"95 % intervals that hold, of {TRIALS} trials with {', '.join(map(str, PAIRS))} pairs:")
    for machine, words in MACHINES.items():
        held = [share_held([paired_ratios(ratios) for ratios in of_a_machine(machine, TRIALS, n)]) for n in PAIRS]
        print(f"{machine} ({words}):", *held, flush=True)
    samples = {n: correlated(TRIALS, n, 0.5) for n in PAIRS}
    ours = [share_held([paired_ratios(ratios) for ratios in samples[n]]) for n in PAIRS]
    ranked = [share_held([PairedRatios(np.log(ratios), 0.0) for ratios in samples[n]]) for n in PAIRS]
    print("ratios with an autocorrelation of 0.5:", *ours, "| the signed-rank test alone:", *ranked, flush=True)
    print(f"reports with a false verdict, of {REPORTS} on {IN_REPORT} pairs of equal trainers with heavy tails:")
    for n in (6, 8, 12, 20):
        print(f"{n} repeats: {false_reports(n)}", flush=True)
    verdicts()
    verdicts_beside_load()


def verdicts(experiments: int = 1000) -> None:
    """Print how often intervals and verdicts of the tables hold on a machine that drifts and has slow moments."""
    print(f"verdicts of {experiments} experiments of two trainers:")
    for repeats in (6, 8, 10, 20):
        for factor in (1.0, 1.02, 1.1):
            rows = compared(simulated_runs(experiments, repeats, factor), "training_seconds")
            covered = np.mean([row["low"] <= factor <= row["high"] for row in rows])
            told = np.mean([row["verdict"] != "not distinguishable" for row in rows])
            print(
                f"{repeats} repeats, {factor} times as slow: covered {covered:.1%}, told apart {told:.1%}", flush=True
            )


def verdicts_beside_load(experiments: int = 200) -> None:
    """Print how often verdicts are right and false beside other work, with and without bounds of disturbed times."""
    print(f"verdicts of {experiments} experiments with 8 repeats on 2 CPUs: without bounds, with bounds")
    cases = [(1.0, "alike"), (1.0, "of the second"), *((factor, "alike") for factor in (1.05, 1.2, 1.5, 2.0))]
    for share in (0.0, 0.05, 0.1, 0.3):
        for factor, delays in cases:
            loaded, shares = beside_load(simulated_runs(experiments, 8, factor), share, delays), []
            for runs in (loaded.assign(**dict.fromkeys(LEAST.values(), np.nan)), loaded):
                told = told_of(runs)
                slower, faster = (told.count(word) / experiments for word in ("slower", "faster"))
                shares.append(
                    f"{slower:.1%} right {faster:.1%} false" if factor > 1 else f"{slower + faster:.1%} false"
                )
            print(f"other work {share:.0%}, delays {delays}, {factor:g} times as slow:", *shares, flush=True)


def told_of(runs: pd.DataFrame) -> list[str]:
    """The verdicts on the training times of these runs."""
    return [row["verdict"] for row in compared(runs, "training_seconds")]


if __name__ == "__main__":
    main()
