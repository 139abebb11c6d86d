"""How much of the time of an experiment do its own processes take? `make bench-workflow` prints it.

It runs an experiment with `snakemake --cores 2`, by default that of the README. A stand-in before `python` on the PATH
notes when each process of a job started and ended; nothing of it reaches into the process. The first ratio is the wall
time of the whole call over the sum of its processes' wall times. The second one, for the runs of the largest number of
epochs, is a process's wall time over its training (the phases warm_up and steady). Both are without the time for which
runs waited for their device.

For runs of 20 epochs on MNIST: --mnist <a mirror with its files> in place of --configfile.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness import REPOSITORY, path_with_stand_in, snakemake, write_config

from trainmark.records.record import read_record

STAND_IN = """#!{python}
import json, os, subprocess, sys, time

arguments = sys.argv[1:]
os.environ["PATH"] = os.environ["PATH"].partition(os.pathsep)[2]
begin = time.monotonic()
status = subprocess.call(["python", *arguments])
end = time.monotonic()
if arguments[0].endswith(".py"):
    out = arguments[arguments.index("--out") + 1] if "--out" in arguments else None
    with open({log!r}, "a") as log:
        log.write(json.dumps([os.path.basename(arguments[0]), out, begin, end]) + "\\n")
sys.exit(status)
"""


def mnist(mirror: str) -> dict:
    """A config of runs of 20 epochs on MNIST."""
    experiment = {"recipes": ["mnist-mlp-chainer"], "datasets": ["mnist"], "frameworks": ["chainer", "keras-jax"]}
    experiment |= {"devices": ["cpu"], "epochs": [20], "repeats": 1, "input": {"subtract_mean": True}}
    return {"mirror": mirror, "experiments": {"mnist": experiment}}


def call(folder: Path, configfile: str) -> tuple[float, list[dict]]:
    """Run an experiment; return the seconds of the whole call, and its processes."""
    log = folder / "processes.jsonl"
    path = path_with_stand_in(folder, STAND_IN.format(python=sys.executable, log=str(log)))
    begin = time.monotonic()
    done = snakemake(folder, "--cores", "2", "--configfile", configfile, PATH=path, PYTHONPATH="")
    seconds = time.monotonic() - begin
    if done.returncode:
        sys.exit(done.printed[-5000:])
    return seconds, [process_of(folder, *json.loads(line)) for line in log.read_text().splitlines()]


def process_of(folder: Path, script: str, out: str | None, begin: float, end: float) -> dict:
    """What is known of a process: its script, its framework, its record if it trained, its seconds without waiting."""
    record = read_record(folder / out) if script == "train.py" and out else None
    waited = record["phases_seconds"]["device_wait"] if record else 0.0
    name = f"{script} {record['run']['framework']}" if record else script
    return {
        "name": name,
        "record": record,
        "begin": begin,
        "end": end,
        "seconds": end - begin - waited,
        "waited": waited,
    }


def table(processes: list[dict]) -> list[dict]:
    """A row for each script and framework; the ratio is of the runs of the largest number of epochs."""
    rows = []
    for name in dict.fromkeys(process["name"] for process in processes):
        those = [process for process in processes if process["name"] == name]
        rows.append({"process": name, "count": len(those), "seconds": sum(one["seconds"] for one in those)})
        rows[-1] |= {"waited": sum(one["waited"] for one in those)}
        runs = [one for one in those if one["record"]]
        if runs:
            epochs = max(one["record"]["run"]["epochs"] for one in runs)
            ratios = [one["seconds"] / trained(one) for one in runs if one["record"]["run"]["epochs"] == epochs]
            rows[-1] |= {"epochs": epochs, "over_training": statistics.median(ratios)}
    return rows


def without_any(processes: list[dict], seconds: float) -> float:
    """The seconds of a call in which none of its processes ran."""
    end = 0.0
    for process in sorted(processes, key=lambda process: process["begin"]):
        seconds -= max(0.0, process["end"] - max(end, process["begin"]))
        end = max(end, process["end"])
    return seconds


def trained(process: dict) -> float:
    """The seconds of the training itself."""
    phases = process["record"]["phases_seconds"]
    return float(phases["warm_up"] + phases["steady"])


def main() -> None:
    """Run the experiment, and print both ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--configfile", type=Path, default=REPOSITORY / "config" / "config.yaml")
    what.add_argument("--mnist", help="mirror with MNIST's files: its address or folder", metavar="MIRROR")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        name = write_config(folder, mnist(arguments.mnist)) if arguments.mnist else str(arguments.configfile.resolve())
        seconds, processes = call(folder, name)
    rows, own = table(processes), sum(process["seconds"] for process in processes)
    for row in rows:
        over = f", {row['over_training']:.2f} x their training of {row['epochs']} epochs" if "epochs" in row else ""
        print(f"{row['process']}: {row['count']} processes, {row['seconds']:.1f} s, waited {row['waited']:.1f} s{over}")
    idle = without_any(processes, seconds)
    print(f"the whole call: {seconds:.1f} s, {seconds / own:.3f} x the {own:.1f} s of its processes")
    print(f"no process ran for {idle:.1f} s of it ({100 * idle / seconds:.1f} %)")


if __name__ == "__main__":
    main()
