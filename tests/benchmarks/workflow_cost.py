"""How much of the time of an experiment do its own processes take, and how much of a run's time is in no phase?

Run: make bench-workflow. It runs an experiment with `snakemake --cores 2`, by default that of the README. A stand-in
before `python` on the PATH notes when each process of a job started and ended; nothing of it reaches into the process.
The first ratio is the wall time of the whole call over the sum of its processes' wall times. The second one, for the
runs of the largest number of epochs, is a process's wall time over its training (the phases warm_up and steady). Both
are without the time for which runs waited for their device.

For runs of 20 epochs on MNIST: --mnist <a mirror with its files> in place of --configfile.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness import REPOSITORY, on_path, write_config
from measuring import parser_of, run_workflow

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


def process_of(folder: Path, script: str, out: str | None, begin: float, end: float) -> dict:
    """What is known of a process: its script, its framework, its record if it trained, its seconds without waiting."""
    process = {"name": script, "record": None, "begin": begin, "end": end, "waited": 0.0}
    if script == "train.py" and out:
        record = read_record(folder / out)
        process |= {"name": f"{script} {record['run']['framework']}", "record": record}
        process["waited"] = record["phases_seconds"]["device_wait"]
        process["in no phase"] = 1 - sum(record["phases_seconds"].values()) / (end - begin)
    return process | {"seconds": end - begin - process["waited"]}


def over_training(process: dict) -> float:
    """A process's wall time over its training."""
    phases = process["record"]["phases_seconds"]
    return process["seconds"] / (phases["warm_up"] + phases["steady"])


def print_processes(name: str, processes: list[dict]) -> None:
    """Print the time of the processes of a script and framework."""
    seconds, waited = (sum(one[key] for one in processes) for key in ("seconds", "waited"))
    line = f"{name}: {len(processes)} processes, {seconds:.1f} s, waited {waited:.1f} s"
    if runs := [one for one in processes if one["record"]]:
        epochs = max(one["record"]["run"]["epochs"] for one in runs)
        ratios = [over_training(one) for one in runs if one["record"]["run"]["epochs"] == epochs]
        shares = [100 * one["in no phase"] for one in runs]
        line += f", {statistics.median(ratios):.2f} x their training of {epochs} epochs; in no phase: "
        line += f"{statistics.median(shares):.2f} % of the wall time ({min(shares):.2f} to {max(shares):.2f})"
    print(line)


def without_any(processes: list[dict], seconds: float) -> float:
    """The seconds of a call in which none of its processes ran."""
    end = 0.0
    for process in sorted(processes, key=lambda process: process["begin"]):
        seconds -= max(0.0, process["end"] - max(end, process["begin"]))
        end = max(end, process["end"])
    return seconds


def main() -> None:
    """Run the experiment, and print both ratios."""
    parser = parser_of(__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--configfile", type=Path, default=REPOSITORY / "config" / "config.yaml")
    what.add_argument("--mnist", help="mirror with MNIST's files: its address or folder", metavar="MIRROR")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, log = Path(temporary), Path(temporary, "processes.jsonl")
        name = write_config(folder, mnist(arguments.mnist)) if arguments.mnist else str(arguments.configfile.resolve())
        path = on_path(folder, STAND_IN.format(python=sys.executable, log=str(log)))
        begin = time.monotonic()
        run_workflow(folder, name, PATH=path, PYTHONPATH="")
        seconds = time.monotonic() - begin
        processes = [process_of(folder, *json.loads(line)) for line in log.read_text().splitlines()]
    for name in dict.fromkeys(process["name"] for process in processes):
        print_processes(name, [process for process in processes if process["name"] == name])
    own, idle = sum(process["seconds"] for process in processes), without_any(processes, seconds)
    print(f"the whole call: {seconds:.1f} s, {seconds / own:.3f} x the {own:.1f} s of its processes")
    print(f"no process ran for {idle:.1f} s of it ({100 * idle / seconds:.1f} %)")


if __name__ == "__main__":
    main()
