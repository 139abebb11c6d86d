"""What does the workflow around the training cost in a large matrix? `make bench-matrices` prints it.

Two tables. The first compares `snakemake -n` for 10,000 runs with a bare Snakefile of as many jobs: a rule all, and one
rule with a shell command and an output at the same path. Both have the options of the default profile; they alternate,
and the median counts. The second is a `snakemake` with nothing to do, after synthetic runs and with Snakemake's
metadata. Peak memory is the largest resident set of the process.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from harness import REPOSITORY, Wildcards, environment, snakemake_command, write_config

from trainmark.config.load import load_config
from trainmark.files.seal import digest_of
from trainmark.plan.campaign import Campaign
from trainmark.plan.matrix import with_devices
from trainmark.plan.products import MANIFEST, RECORD_FILE, TABLE_FILES

RECIPES = ("mnist-mlp-flux", "mnist-mlp-chainer")
EPOCHS = (1, 2, 5, 10, 20)
BARE = f"""
import json

rule all:
    input:
        json.load(open("records.json"))

rule train:
    output:
        "{RECORD_FILE}",
    shell:
        "touch {{output}}"
"""
PROFILE = str(REPOSITORY / "profiles" / "default")
PROJECT = "trainmark"
TOUCH = (
    "from snakemake.executors import touch; touch.Executor.SLEEPING_TIME = 0; from snakemake.cli import main; main()"
)


def config(runs: int, frameworks: list[str]) -> dict:
    """A config with this many runs."""
    experiment = {"recipes": [*RECIPES], "frameworks": frameworks, "devices": ["cpu"], "epochs": [*EPOCHS]}
    repeats = runs // (len(RECIPES) * len(frameworks) * len(EPOCHS))
    return {"experiments": {"many": experiment | {"repeats": repeats, "keep_weights": False}}}


def campaign_of(asked: dict) -> Campaign:
    """The campaign of a config."""
    checked, catalogue = load_config([], asked)
    return Campaign(with_devices(checked, gpu_found=False), catalogue)


def timed(folder: Path, *command: str) -> tuple[float, float, float, str]:
    """Run a command in a folder; return its seconds, its CPU seconds, its peak memory in MiB and what it printed."""
    with tempfile.TemporaryFile() as printed:
        begin = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=printed, stderr=printed)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read().decode()
    if process.returncode:
        sys.exit(text[-3000:])
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def summary(figures: list[list[float]]) -> dict:
    """The medians of the seconds of all rounds, and the largest memory."""
    seconds, cpu_seconds, mib = zip(*figures, strict=True)
    return {"seconds": statistics.median(seconds), "cpu_seconds": statistics.median(cpu_seconds), "mib": max(mib)}


def dry_runs(folder: Path, runs: int, rounds: int) -> list[dict]:
    """Time the dry runs of this project and of the bare Snakefile in turn; return a row for each."""
    asked = config(runs, ["chainer", "keras-jax"])
    name = write_config(folder, asked)
    commands = {
        PROJECT: snakemake_command(folder, "-n", "--configfile", name),
        "bare Snakefile": ["snakemake", "-s", "bare.smk", "-n", "--workflow-profile", PROFILE],
    }
    *_, printed = timed(folder, *commands[PROJECT])
    (jobs,) = {int(total) for total in re.findall(r"^total +(\d+)$", printed, re.MULTILINE)}
    records = campaign_of(asked).records
    others = [f"{records[0].rpartition('/repeat-')[0]}/repeat-{10**6 + number}/record.json" for number in range(jobs)]
    (folder / "records.json").write_text(json.dumps([*records, *others][: jobs - 1]))
    (folder / "bare.smk").write_text(BARE)
    found: dict[str, list] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            *figures, printed = timed(folder, *command)
            assert re.search(rf"^total +{jobs}$", printed, re.MULTILINE), printed[-2000:]
            found[name].append(figures)
    rows = [{"dry run": name, "jobs": jobs, **summary(figures)} for name, figures in found.items()]
    for row in rows:
        row["ratios"] = {key: row[key] / rows[-1][key] for key in ("seconds", "cpu_seconds", "mib")}
    return rows


def finish(folder: Path, runs: int) -> None:
    """Write what a campaign of finished runs leaves. They are of one framework, so that nothing is certified."""
    from records_for_tests import record  # pandas, whose memory would count into that of the next process

    asked = config(runs, ["chainer"])
    name, campaign = write_config(folder, asked), campaign_of(asked)
    for run, file in zip(campaign.runs, campaign.records, strict=True):
        wildcards = Wildcards(vars(run))
        made = record(
            run.trainer.framework, run.repeat, run.trainer.device, run.epochs,
            experiment=run.experiment, recipe=run.recipe,
            changes={
                "settings": json.loads(campaign.settings(wildcards)),
                "inputs.recipe": json.loads(campaign.recipe(wildcards)),
                "inputs.mean_sha256": hashlib.sha256(b"").hexdigest(),  # of the empty file below
                "provenance.code.sha256": campaign.training_code(wildcards),
            },
        )  # fmt: skip
        write(folder / file, json.dumps(made, indent=1))
    write(folder / "results/datasets/digits/prepared/manifest.json", json.dumps({"content_sha256": "0" * 64}))
    for path in ("sources.json", "mean.npy", "mean.png"):
        write(folder / "results/datasets/digits" / path)
    write_tables(folder, campaign)
    touch = [sys.executable, "-c", TOUCH, *snakemake_command(folder, "--touch", "--forceall", "--cores", "4000")[1:]]
    timed(folder, *touch, "--configfile", name)
    write_tables(folder, campaign)  # removed at the start of a call that would make them


def write_tables(folder: Path, campaign: Campaign) -> None:
    """Write a manifest that fits the records; the tables, figures and the report are empty."""
    made_of = {Path(file).relative_to("results").as_posix(): folder / file for file in campaign.records}
    digests = {name: digest_of(json.loads(path.read_text())) for name, path in made_of.items()}
    for file in [*TABLE_FILES, *campaign.figures, "results/report/index.html", "results/summary.json"]:
        write(folder / file)
        if Path(file).name == MANIFEST:
            manifest = {"order": campaign.order, "made_of": digests, "tables": {}}
            write(folder / file, json.dumps(manifest, indent=1))


def write(path: Path, text: str = "") -> None:
    """Write a file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def nothing_to_do(folder: Path, runs: int, rounds: int) -> dict:
    """Time a call that finds every run finished; return a row."""
    folder.mkdir()
    maker = multiprocessing.get_context("spawn").Process(target=finish, args=(folder, runs))
    maker.start()
    maker.join()
    command = snakemake_command(folder, "--cores", "2", "--configfile", "experiment.yaml")
    figures = []
    for _ in range(rounds):
        *of_round, printed = timed(folder, *command)
        assert "Nothing to be done" in printed, printed[-3000:]
        figures.append(of_round)
    return {"nothing to do": runs, **summary(figures)}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000, help="of the dry run")
    parser.add_argument("--finished", type=int, nargs="*", default=[1000], help="numbers of finished runs")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    say = partial(print, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        rows = dry_runs(Path(temporary), arguments.runs, arguments.rounds) if arguments.runs else []
        for row in rows:
            times = [f"{row[key]:.1f} s ({row['ratios'][key]:.2f} x)" for key in ("seconds", "cpu_seconds")]
            memory = f"{row['mib']:.0f} MiB ({row['ratios']['mib']:.2f} x)"
            print(
                f"dry run of {row['jobs']:,} jobs, {row['dry run']}: {times[0]}, CPU {times[1]}, peak {memory}",
                flush=True,
            )
        for runs in arguments.finished:
            row = nothing_to_do(Path(temporary) / str(runs), runs, arguments.rounds)
            times = f"{row['seconds']:.1f} s, CPU {row['cpu_seconds']:.1f} s"
            say(f"nothing to do for {runs:,} runs: {times}, peak {row['mib']:.0f} MiB")


if __name__ == "__main__":
    main()
