"""What does the workflow around the training cost in a large matrix, beside a bare Snakefile of as many jobs?

Run: make bench-matrices. It compares `snakemake -n` for 10,000 runs with a Snakefile that has a rule all, and one rule
with a shell command and an output at the same path; then again with all records there (empty files). Both have the
options of the default profile; they alternate, and the medians count. Peak memory is the largest resident set of the
process.
"""

import json
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from harness import REPOSITORY, snakemake_command, write_config
from measuring import Usage, in_turn, parser_of, usage_of

from trainmark.config.load import load_config
from trainmark.plan.campaign import Campaign
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import with_devices
from trainmark.plan.products import RECORD, RESULTS

RECIPES = ("mnist-mlp-flux", "mnist-mlp-chainer")
FRAMEWORKS = ("chainer", "keras-jax")
EPOCHS = (1, 2, 5, 10, 20)
BARE = f"""
import json

rule all:
    input:
        json.load(open("records.json"))

rule train:
    output:
        "{RESULTS}/{RECORD}",
    shell:
        "touch {{output}}"
"""
PROFILE = str(REPOSITORY / "profiles" / "default")


def config(runs: int) -> dict:
    """A config with this many runs."""
    experiment = {"recipes": [*RECIPES], "frameworks": [*FRAMEWORKS], "devices": ["cpu"], "epochs": [*EPOCHS]}
    repeats = runs // (len(RECIPES) * len(FRAMEWORKS) * len(EPOCHS))
    return {"experiments": {"many": experiment | {"repeats": repeats, "keep_weights": False}}}


def dry_run(folder: Path, *command: str) -> tuple[Usage, int]:
    """(what a dry run takes, the number of its jobs). Exits if it fails."""
    usage = usage_of(folder, *command)
    if usage.status:
        sys.exit(usage.printed[-3000:])
    (jobs,) = {int(total) for total in re.findall(r"^total +(\d+)$", usage.printed, re.MULTILINE)} or {0}
    return usage, jobs


def write_bare(folder: Path, asked: dict, jobs: int) -> None:
    """Write the bare Snakefile, with as many jobs as this project plans for a config."""
    checked, catalogue = load_config([], asked)
    records = Campaign(make_plan(with_devices(checked, gpu_found=False), catalogue)).records
    others = [
        f"{records[0].rpartition('/repeat-')[0]}/repeat-{10**6 + number}/0-0/record.json" for number in range(jobs)
    ]
    (folder / "records.json").write_text(json.dumps([*records, *others][: jobs - 1]))
    (folder / "bare.smk").write_text(BARE)


def main() -> None:
    """Print a line for each of both: before any run, and with all of them there."""
    arguments = parser_of(__doc__, runs=10_000, rounds=3).parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, asked = Path(temporary), config(arguments.runs)
        own = partial(dry_run, folder, *snakemake_command(folder, "-n", "--configfile", write_config(folder, asked)))
        bare = partial(dry_run, folder, "snakemake", "-s", "bare.smk", "-n", "--workflow-profile", PROFILE)
        write_bare(folder, asked, own()[1])
        found = in_turn({"trainmark": own, "bare Snakefile": bare}, arguments.rounds)
        print_ratios("no run is there", found)
        for record in map(folder.joinpath, json.loads((folder / "records.json").read_text())):
            record.parent.mkdir(parents=True)
            record.touch()
        print_ratios("all are there", in_turn({"trainmark": own, "bare Snakefile": bare}, arguments.rounds))


def print_ratios(what: str, found: Mapping[str, Sequence[tuple[Usage, int]]]) -> None:
    """Print what each takes, and the ratio to the bare Snakefile."""
    taken, counts = {}, {}
    for name, rounds in found.items():
        usages, (counts[name], *_) = zip(*rounds, strict=True)
        seconds, cpu_seconds = (statistics.median(getattr(one, key) for one in usages) for key in Usage._fields[:2])
        taken[name] = seconds, cpu_seconds, max(one.mib for one in usages)
    for name, figures in taken.items():
        ratios = [f"({one / other:.2f} x)" for one, other in zip(figures, taken["bare Snakefile"], strict=True)]
        print(
            f"{what}: dry run of {counts[name]:,} jobs, {name}: {figures[0]:.1f} s {ratios[0]}, CPU {figures[1]:.1f} s "
            f"{ratios[1]}, peak {figures[2]:.0f} MiB {ratios[2]}"
        )


if __name__ == "__main__":
    main()
