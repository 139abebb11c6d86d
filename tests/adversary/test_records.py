"""Attacks on the results of a whole workflow: each is made good at the next call, refused in a sentence, or named."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from subprocess import PIPE, STDOUT

import numpy as np
import pandas as pd
import pytest
from harness import (
    REPOSITORY,
    environment,
    keyed,
    planned,
    record_file,
    snakemake,
    snakemake_command,
    write_config,
)
from records_for_tests import changed

from trainmark.files.checksums import sha256_of
from trainmark.files.seal import sealed

pytestmark = pytest.mark.adversary

EXPERIMENT = {
    "keep_weights": True,  # the default removes them once they are evaluated
    "recipes": ["mnist-mlp-flux"],
    "frameworks": ["chainer", "keras-jax"],
    "devices": ["cpu"],
    "epochs": [2],
    "repeats": 2,
}
GROUP = "victim/mnist-mlp-flux/digits"
AFTER_RECORDS = {"collect_records": 1, "plot_figures": 1, "report": 1}
ONE, OTHER = (f"{GROUP}/chainer-cpu/epochs-2/repeat-{repeat}" for repeat in (1, 2))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small experiment, finished."""
    folder = tmp_path_factory.mktemp("finished")
    configure(folder)
    process = call(folder)
    assert process.returncode == 0, process.printed[-5000:]
    return folder


@pytest.fixture
def folder(finished, tmp_path_factory):
    """A copy of it, metadata and times of files included; as deep as it, since the path of scripts is a parameter."""
    return Path(shutil.copytree(finished, tmp_path_factory.mktemp("copy"), dirs_exist_ok=True))


def configure(folder, **changes):
    """Write the config with changes of the experiment."""
    write_config(folder, {"experiments": {"victim": EXPERIMENT | changes}})


def call(folder):
    """Call snakemake."""
    return snakemake(folder, "--cores", "2", "--configfile", "experiment.yaml")


def without_metadata(folder):
    """What `make clean` leaves, and what is there where results were copied into another clone."""
    shutil.rmtree(folder / ".snakemake")
    return folder


def edit(path, changes, *, renewed=True, same_time=False):
    """Edit a record or a certificate. renewed: with its digests; same_time: with the file's old time."""
    before, document = path.stat(), json.loads(path.read_text())
    digest = document["sha256"]
    document = changed(document, changes)
    path.write_text(json.dumps(document if renewed else document | {"sha256": digest}))
    if same_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def verify(folder, *arguments):
    script = REPOSITORY / "workflow" / "scripts" / "verify.py"
    command = [sys.executable, str(script), str(folder / "results"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment())


# --- an honest campaign -------------------------------------------------------------------------------------------


def test_an_honest_campaign_is_verified_and_nothing_is_to_be_done(finished, folder):
    assert planned(finished) == {}
    found = verify(finished, "--data")
    assert (found.returncode, found.stderr) == (0, "")
    assert "4 records of experiment victim (" in found.stdout and "by the code of this clone" in found.stdout
    assert planned(without_metadata(folder)) == {}, "without Snakemake's metadata neither"
    configure(folder, keep_weights="needed")
    assert planned(folder) == {}, "no run is trained again for its weights"
    configure(folder, keep_weights=False)
    assert planned(folder) == AFTER_RECORDS, "which hold no cross-evaluations then"


# --- what was deleted or changed is made again --------------------------------------------------------------------


def test_a_deleted_record_is_trained_again(folder):
    file = record_file(folder, ONE)
    before = json.loads(file.read_text())
    file.unlink()
    process = call(folder)
    assert process.returncode == 0, process.printed[-3000:]
    assert len(re.findall(r"^run \d+ of \d+: ", process.printed, re.MULTILINE)) == 1
    after = json.loads(file.read_text())
    assert after["result"]["test_loss"] == before["result"]["test_loss"]
    assert after["sha256"] != before["sha256"], "other times"
    assert planned(folder) == {}
    assert verify(folder).returncode == 0


def test_a_deleted_figure_is_made_again_and_nobody_need_read_what_is_printed(folder):
    """As with `| head`."""
    figure = next((folder / "results/figures").glob("*/*/*/loss.svg"))
    figure.unlink()
    command = snakemake_command(folder, "--cores", "2", "--configfile", "experiment.yaml")
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=PIPE, stderr=STDOUT) as process:
        process.stdout.readline()
        process.stdout.close()
    assert process.returncode == 0
    assert figure.exists() and planned(folder) == {}


def test_results_in_another_clone_with_another_seed_are_not_mixed(folder, tmp_path):
    """They name one seed in the end, the new one."""
    clone = tmp_path / "clone"
    shutil.copytree(folder / "results", clone / "results")
    configure(clone, seed=7)
    process = call(clone)
    assert process.returncode == 0, process.printed[-3000:]
    assert "victim on digits: differs from 4 kept runs in: seed" in process.printed
    records = [json.loads(path.read_text()) for path in (clone / "results/runs").rglob("record.json")]
    assert Counter(one["settings"]["seed"] for one in records) == {1: 4, 7: 4}
    runs = pd.read_parquet(clone / "results/tables/runs.parquet")
    assert sorted(runs["id"]) == sorted(one["run"]["id"] for one in records if one["settings"]["seed"] == 7)
    assert verify(clone, "--data").returncode == 0
    assert planned(clone) == {}


def test_edited_tables_are_named(folder):
    for name in ("numbers.csv", "parity.csv"):
        path = folder / "results" / "tables" / name
        before = path.stat()
        path.write_bytes(path.read_bytes().replace(b"mnist", b"tsinm"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert f"{path} is not what this clone makes of the records; delete it" in verify(folder).stdout


def test_records_in_the_place_of_others_are_named_and_refused(folder):
    paths = [path for path in (folder / "results" / "runs").rglob("record.json") if path != record_file(folder, ONE)]
    for path in paths:
        shutil.copy(record_file(folder, ONE), path)
    assert "record: 4 checked, 3 wrong" in verify(folder).stdout
    refused(folder, "is the record of another run")


@pytest.mark.parametrize("key", ["recipe", "framework", "experiment", "dataset"])
def test_a_record_of_an_unknown_run_is_named_and_refused(folder, key):
    edit(record_file(folder, ONE), {f"run.{key}": "nothing", "run.id": "nothing"})
    refused(folder, "record.json")


@pytest.mark.parametrize("text", ["", "[]", '{"run": 1}', "[" * 100_000], ids=["empty", "list", "other", "deep"])
def test_a_record_that_is_none_is_named_and_refused(folder, text):
    record_file(folder, ONE).write_text(text)
    refused(folder, "record.json")


# --- what was edited is refused -----------------------------------------------------------------------------------

EDITS = {
    "accuracy in the curves too": (
        {"result.test_accuracy": 0.99, "curves.1.evaluations.test.accuracy": 0.99},
        "the accuracy on the test split is not a whole number of samples",
    ),
    "phases": ({"phases_seconds.steady": 0.0, "phases_seconds.import": 0.0}, "contradicts itself: its phases sum to"),
}


def refused(folder, sentence):
    """Make the tables again, which fails with this sentence, in one line and without a traceback. Of tables that are
    there, verify alone reads the records once more.
    """
    keyed(folder, "tables/numbers.csv").unlink()
    process = call(folder)
    assert process.returncode != 0
    lines = [line for line in process.printed.splitlines() if sentence in line]
    assert lines, process.printed[-3000:]
    assert "Traceback" not in process.printed
    assert re.search(r"; delete it(,| and run) (and )?snakemake ", lines[0])
    found = verify(folder)
    assert (found.returncode, found.stderr) == (1, "")
    assert sentence in found.stdout


@pytest.mark.parametrize("attack", EDITS)
def test_an_edited_record_is_refused(folder, attack):
    changes, says = EDITS[attack]
    edit(record_file(folder, ONE), changes)
    refused(folder, says)


def test_an_edited_record_is_refused_by_its_digest_whatever_its_time(folder):
    edit(record_file(folder, ONE), {"memory.peak_host_mib": 1.0}, renewed=False, same_time=True)
    refused(folder, "record.json was changed after it was written")


def test_a_forger_who_renews_every_digest_and_keeps_all_sums_is_not_found(folder):
    """A limit (docs/comparing.md): nothing in the file contradicts it."""
    edit(record_file(folder, ONE), {"memory.peak_host_mib": 1.0})
    keyed(folder, "tables/numbers.csv").unlink()
    assert call(folder).returncode == 0
    assert verify(folder).returncode == 0


@pytest.mark.parametrize("renewed", [False, True])
def test_an_edited_certificate_is_refused(folder, renewed):
    worse = {f"pairs.0.stages.{stage}.gradients": 0.5 for stage in ("network", "steps")}
    edit(keyed(folder, f"certificates/{GROUP}/*.json"), worse, renewed=renewed)
    refused(folder, "contradicts itself: chainer on cpu" if renewed else ".json was changed after it was written")


def test_swapped_weights_are_named(folder):
    one, other = (record_file(folder, run).with_name("weights.npz") for run in (ONE, OTHER))
    shutil.copy(one, other)
    found = verify(folder)
    assert found.returncode == 1
    assert f"{other} was changed, or is of another run" in found.stdout


def test_edited_arrays_are_not_trained_on(folder):
    """With their SHA-256 in the manifest: not with the content's, which each record names."""
    prepared = keyed(folder, "datasets/digits/*/prepared")
    images = np.load(prepared / "train_images.npy")
    np.save(prepared / "train_images.npy", 255 - images)
    manifest = json.loads((prepared / "manifest.json").read_text())
    manifest["arrays"]["train_images"]["sha256"] = sha256_of(prepared / "train_images.npy")
    (prepared / "manifest.json").write_text(json.dumps(sealed(manifest)))
    record_file(folder, ONE).unlink()
    process = call(folder)
    assert process.returncode != 0
    assert "the content_sha256 of the manifest is not that of the arrays; delete " in process.printed
    assert "content_sha256" in verify(folder, "--data").stdout
