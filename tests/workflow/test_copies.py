"""Copies of a results folder, whose file times are those of copying: what the next call plans."""

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from shlex import quote

import pytest
from harness import finish

pytestmark = pytest.mark.faults


def planned(folder: Path) -> set[str]:
    """The rules of which a dry run plans jobs."""
    printed = finish(folder, "-n", "--configfile", "experiment.yaml")
    return set(re.findall(r"^([a-z_]+) +[0-9]+$", printed, re.MULTILINE)) - {"all", "total"}


def set_times(folder: Path, seed: int) -> None:
    """Give all files times in an arbitrary order, as if they had been copied in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    random.Random(seed).shuffle(files)
    for seconds, file in enumerate(files, start=1_700_000_000):
        os.utime(file, (seconds, seconds))


MEANS = {
    "cp, in any order": "cp -r {results} .",
    "tar, times of unpacking": "tar -C {folder} -c results | tar -xm",
    "git": "cp -r {results} {clone} && git -C {clone} init -q && git -C {clone} add -f results &&"
    " git -C {clone} -c user.name=me -c user.email=me commit -qm copy && git clone -q {clone} . ",
    "cloud drive": "cp -r {results} . && find . -name '.*' -type f -delete",
}
"""Commands that copy a results folder, in the folder of the copy. Some cloud drives leave out names with a dot."""


@pytest.mark.parametrize("means", MEANS)
def test_a_copy_is_as_finished_as_the_original(means, tiny, tmp_path):
    folder, clone = tmp_path / "copy", tmp_path / "clone"
    folder.mkdir()
    clone.mkdir()
    places = {"folder": tiny.folder, "results": tiny.folder / "results", "clone": clone}
    command = MEANS[means].format_map({name: quote(str(path)) for name, path in places.items()})
    subprocess.run(["bash", "-ec", command], cwd=folder, check=True, capture_output=True)
    shutil.copy(tiny.folder / "experiment.yaml", folder)
    if means in ("cp, in any order", "cloud drive"):
        set_times(folder / "results", seed=1)
    assert planned(folder) == set()


@pytest.fixture
def copy(tiny, tmp_path):
    """A copy of the finished experiment without Snakemake's metadata."""
    shutil.copytree(tiny.folder, tmp_path / "copy", ignore=shutil.ignore_patterns(".snakemake"))
    return tmp_path / "copy"


def test_records_alone_are_kept(copy):
    for other in (copy / "results").iterdir():
        if other.name != "runs":
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    assert "prepare_dataset" in planned(copy) and "train" not in planned(copy)


@pytest.mark.parametrize("file", ["mean.npy", "prepared/manifest.json"])
def test_records_of_other_inputs_are_not_kept(copy, file):
    path = copy / "results/datasets/digits" / file
    if path.suffix == ".npy":
        path.write_bytes(path.read_bytes()[:-4] + b"....")
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"content_sha256": "0" * 64}))
    assert "train" in planned(copy)
