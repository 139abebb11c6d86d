"""Do the phases of a run sum to its wall time? Measured from outside, over a whole experiment of real runs.

Run: make bench-phases. Fifty runs go through the workflow as a user's do, with more cores asked for than there are, so
that runs wait for each other. A stand-in before `python` on the PATH notes when each training's process was started and
when it had ended; nothing of it reaches into the process. Exit status 1 where a run's phases miss its wall time by more
than 2 %, or a phase is negative.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from harness import path_with_stand_in, snakemake, write_config

from trainmark.records.record import read_record

ALLOWED_SHARE = 0.02

STAND_IN = """#!{python}
import json, os, subprocess, sys, time

arguments = sys.argv[1:]
os.environ["PATH"] = os.environ["PATH"].partition(os.pathsep)[2]
if not arguments or not arguments[0].endswith("train.py"):
    os.execvp("python", ["python", *arguments])
begin = time.monotonic()
status = subprocess.call(["python", *arguments])
seconds = time.monotonic() - begin
with open({log!r}, "a") as log:
    log.write(json.dumps([arguments[arguments.index("--out") + 1], seconds]) + "\\n")
sys.exit(status)
"""

ENDED_EARLY = {
    "recipes": ["mnist-mlp-flux"],
    "frameworks": ["keras-tensorflow"],
    "devices": ["cpu"],
    "epochs": [2],
    "repeats": 1,
}


def config(recipes: list[str], repeats: int, epochs: list[int]) -> dict:
    """Recipes in three frameworks; and one run that diverges and one that exceeds its memory limit."""
    return {
        "experiments": {
            "runs": {
                "recipes": recipes,
                "frameworks": ["chainer", "keras-tensorflow", "keras-jax"],
                "devices": ["cpu"],
                "epochs": epochs,
                "repeats": repeats,
            },
            "diverging": ENDED_EARLY | {"input": {"scale": 1e36}},
            "out-of-memory": ENDED_EARLY | {"memory_limit_mib": 300},  # less than the framework alone
        }
    }


def measured(folder: Path, asked: dict) -> list[tuple[dict, float]]:
    """(record, seconds from outside) of every run of a config."""
    log = folder / "outside.jsonl"
    path = path_with_stand_in(folder, STAND_IN.format(python=sys.executable, log=str(log)))
    name = write_config(folder, asked)
    extra = {"PATH": path, "PYTHONPATH": "", "TRAINMARK_CHECKPOINT_SECONDS": "0.5"}  # so that there are checkpoints too
    process = snakemake(folder, "--cores", "8", "--configfile", name, **extra)
    if process.returncode:
        sys.exit(process.printed[-5000:])
    return [(read_record(folder / out), seconds) for out, seconds in map(json.loads, log.read_text().splitlines())]


def main() -> None:
    """Run the experiment and print how far phases and wall time part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", nargs="+", default=["mnist-mlp-flux", "mnist-mlp-chainer"])
    parser.add_argument("--repeats", type=int, default=4, help="each 12 runs, with two recipes and two epochs")
    parser.add_argument("--epochs", type=int, nargs="+", default=[40, 80])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = measured(Path(folder), config(arguments.recipes, arguments.repeats, arguments.epochs))
    missed = [(1 - sum(record["phases_seconds"].values()) / seconds, seconds, record) for record, seconds in runs]
    lowest = min(min(record["phases_seconds"].values()) for record, _ in runs)
    waited = [record["phases_seconds"]["device_wait"] for record, _ in runs]
    print(f"runs: {len(runs)}, of them {sum(record['status'] != 'ok' for record, _ in runs)} censored")
    print(f"wall time from outside: {min(s for _, s in runs):.2f} to {max(s for _, s in runs):.2f} s")
    print(f"waited for the CPUs: {statistics.median(waited):.2f} s in the median, {max(waited):.2f} s at most")
    for framework in dict.fromkeys(record["run"]["framework"] for record, _ in runs):
        shares = [share for share, _, record in missed if record["run"]["framework"] == framework]
        median, low, high = (100 * figure(shares) for figure in (statistics.median, min, max))
        print(f"not in any phase, {framework}: {median:.2f} % of the wall time ({low:.2f} to {high:.2f})")
    worst = max(abs(share) for share, *_ in missed)
    print(f"largest difference of any run: {100 * worst:.2f} % (allowed: {100 * ALLOWED_SHARE:g} %)")
    print(f"smallest phase of any run: {lowest:g} s")
    sys.exit(worst > ALLOWED_SHARE or lowest < 0)


if __name__ == "__main__":
    main()
