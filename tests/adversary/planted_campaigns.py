"""Proves on whole campaigns what is named: plants, each in a copy of the repository, and honest campaigns.

`make plants` prints what names each plant, and whether at the right place; `make honest` prints what is refused in
honest campaigns, which must be nothing. Both call snakemake as a user does. The honest trainers beside a plant are
trained once for all plants with the same ones: a copy of their folder gets the plant as a trainer more, or edited
records.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from harness import AS_ROOT, copy_of_repository, environment
from honest import HONEST
from plants import PLANTS, Plant, hunks_in

from trainmark.files.seal import sealed
from trainmark.records.result import peak_shares, result
from trainmark.tables.frames import rows_of
from trainmark.tables.numbers import read_numbers
from trainmark.trainer import Trainer

KEYS = {"datasets": ["digits"], "devices": ["cpu"], "epochs": [8], "repeats": 4}
"""Of an experiment with a plant, unless the plant has others."""

TABLES = "collect_records"
"""What is made unless all is asked for: figures and report, which say the same, take longer than training."""

OF_COPY = {"PYTHONPATH": ""}
"""Otherwise processes would import the library of the repository, not of its copy."""


def snakemake(folder: Path, cores: int, *targets: str) -> subprocess.CompletedProcess:
    """Call snakemake on the copy in a folder, with locks of its own: it waits for no other campaign."""
    command = ["snakemake", *targets, "--cores", str(cores), "--notemp", "--configfile", "experiment.yaml"]
    here = environment(**AS_ROOT, **OF_COPY, TRAINMARK_LOCK_FOLDER=str(folder.parent / "locks"))
    process = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=False)
    process.printed = process.stdout + process.stderr
    (folder / "printed.txt").write_text(process.printed)
    return process


def verify(folder: Path) -> str:
    """Call verify.py on the results in a folder; what it says is wrong."""
    command = [sys.executable, "workflow/scripts/verify.py", "results"]
    here = environment(**OF_COPY)
    process = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=False)
    return process.stdout + process.stderr if process.returncode else ""


def write_experiment(folder: Path, experiment: Mapping, **config: object) -> None:
    """Write the config of a campaign of one experiment."""
    (folder / "experiment.yaml").write_text(yaml.safe_dump({**config, "experiments": {"victim": dict(experiment)}}))


def refusals(folder: Path) -> list[dict]:
    """The refused comparisons."""
    numbers = read_numbers(folder / "results" / "tables" / "numbers.csv")
    return rows_of(numbers[(numbers["statistic"] == "ratio") & numbers["verdict"].str.startswith("refused")])


# --- plants -----------------------------------------------------------------------------------------------------------


def experiment_of(plant: Plant, *frameworks: str) -> dict:
    """The experiment of a plant with some of its frameworks."""
    return KEYS | plant.keys | {"recipes": [plant.recipe], "frameworks": list(dict.fromkeys(frameworks))}


def finished(plant: Plant, work: Path) -> Path:
    """The folder of the campaign beside a plant: of its partners, and before a forgery of all trainers."""
    experiment = experiment_of(plant, *plant.partners, *([plant.framework] if plant.forge else []))
    folder = work / f"base-{hashlib.sha256(json.dumps([experiment, plant.cores]).encode()).hexdigest()[:8]}"
    if not (folder / "finished").exists():
        shutil.rmtree(folder, ignore_errors=True)
        copy_of_repository(folder)
        write_experiment(folder, experiment)
        process = snakemake(folder, plant.cores)
        assert process.returncode == 0, process.printed[-5000:]
        assert not refusals(folder), refusals(folder)
        (folder / "finished").touch()
    return folder


def planted(plant: Plant, name: str, work: Path) -> Path:
    """A copy of the repository with a plant, and with the finished campaign beside it unless it is in all trainers."""
    folder = work / f"plant-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    if plant.is_in_all:
        copy_of_repository(folder)
    else:
        shutil.copytree(finished(plant, work), folder, symlinks=True)
    hunks_in(folder / "workflow" / "scripts" / "trainmark", plant.hunks)
    write_experiment(folder, experiment_of(plant, *plant.partners, plant.framework))
    if plant.forge:
        forge(folder, plant)
    return folder


def forge(folder: Path, plant: Plant) -> None:
    """Change the records of the plant's framework, with what follows from their curves and their digests."""
    paths = sorted((folder / "results" / "runs").glob(f"*/*/*/{plant.framework}-*/*/*/*/record.json"))
    records = {path: json.loads(path.read_text()) for path in paths}
    plant.forge({record["run"]["repeat"]: record for record in records.values()})
    for path, record in records.items():
        samples = record["dataset"]["samples"]["train"]
        record["result"] = result(record["curves"], record["result"]["first_step_seconds"], samples)
        record["peak"] |= peak_shares(record["curves"], samples, record["peak"])
        path.write_text(json.dumps(sealed(record)))


def judged(plant: Plant, name: str, work: Path, plain: bool) -> dict[str, str]:
    """What names a plant, and whether at the right place: its trainer alone, by the words that it asks for.

    plain: whether figures and report are made, too, and verified; of forgeries they are.
    """
    folder, plain = planted(plant, name, work), plain or bool(plant.forge)
    process = snakemake(folder, plant.cores, *([] if plain else [TABLES]))
    rows = [] if process.returncode else refusals(folder)
    said = [line for line in process.printed.splitlines() if process.returncode and re.search("rror|failed", line)]
    said += dict.fromkeys(row["reason"] for row in rows)
    by_verify = verify(folder) if plain else ""
    words = "\n".join([*said, by_verify]).strip()
    pairs = {(row["compared_with"], Trainer.of(row).name) for row in rows}
    is_alone = all(any(trainer.startswith(plant.framework) for trainer in pair) for pair in pairs)
    is_known = plant.framework in words or len(pairs) == len(plant.partners) > 1  # of one pair both could be wrong
    is_placed = bool(re.search(plant.where, words)) and (plant.is_in_all or (is_alone and is_known))
    if words and is_placed:
        shutil.rmtree(folder)
    return {
        "snakemake": "error" if process.returncode else "refused" if rows else "-",
        "verify": "named" if by_verify else "-" if plain else "",
        "place": "yes" if words and is_placed else "no",
        "said": words.replace("\n", " | ")[:300] or "-",
    }


def judge_plants(names: list[str], work: Path, plain: bool) -> int:
    """Print a line for each plant, and how many of them were named."""
    table = {}
    for name in names or PLANTS:
        start = time.monotonic()
        table[name] = row = judged(PLANTS[name], name, work, plain)
        about = f"{name:34} {PLANTS[name].kind:10} {row['snakemake']:9} {row['verify']:6}"
        print(f"{about} {row['place']:4} {time.monotonic() - start:4.0f} s  {row['said']}", flush=True)
    for what, some in {"of the issue": [name for name in table if PLANTS[name].issue], "all": [*table]}.items():
        named, placed = (
            sum(table[name][key] != value for name in some) for key, value in (("said", "-"), ("place", "no"))
        )
        print(f"plants, {what}: named {named} of {len(some)}, at the right place {placed} of {len(some)}")
    return any(row["place"] == "no" for row in table.values())


# --- honest campaigns -------------------------------------------------------------------------------------------------


@contextmanager
def busy_process(is_asked: bool) -> Iterator[None]:
    """A process beside a campaign that takes a CPU, if it is asked for."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if is_asked else None
    try:
        yield
    finally:
        if process:
            process.kill()
            process.wait()


def judge_honest(names: list[str], work: Path, plain: bool) -> int:
    """Print a line for each campaign: ok, or what was refused."""
    refused = {}
    for name in names or HONEST:
        start, folder = time.monotonic(), work / f"honest-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        copy_of_repository(folder)
        campaign = HONEST[name](folder)
        write_experiment(folder, campaign.experiment, **campaign.config)
        with busy_process(campaign.busy):
            process = snakemake(folder, campaign.cores, *([] if plain else [TABLES]))
        failed = process.returncode != 0
        said = [process.printed[-600:]] if failed else [*dict.fromkeys(row["reason"] for row in refusals(folder))]
        refused[name] = said + (verify(folder).splitlines()[:1] if plain and not failed else [])
        print(f"{name:34} {'REFUSED' if refused[name] else 'ok':8} {time.monotonic() - start:4.0f} s", flush=True)
        print(*(f"  {sentence}\n" for sentence in refused[name]), sep="", end="", flush=True)
        if not refused[name]:
            shutil.rmtree(folder)
    count = sum(map(bool, refused.values()))
    print(f"honest campaigns: {count} of {len(refused)} refused")
    return bool(count)


def main() -> int:
    """Judge what the command line asks for. The exit code is 0 if every plant was named or nothing honest refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plants", "honest"])
    parser.add_argument("names", nargs="*", help="names of plants or campaigns; default: all")
    parser.add_argument("--work", type=Path, required=True, help="a folder for the copies; those with an error stay")
    parser.add_argument("--plain", action="store_true", help="make figures and report, too, and verify them")
    parsed = parser.parse_args()
    parsed.work.mkdir(parents=True, exist_ok=True)
    judge = {"plants": judge_plants, "honest": judge_honest}[parsed.what]
    return judge(parsed.names, parsed.work.resolve(), parsed.plain)


if __name__ == "__main__":
    sys.exit(main())
