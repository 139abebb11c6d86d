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
import pytest
from harness import REPOSITORY, environment, snakemake, snakemake_command, write_config
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
RUNS = "results/runs/victim/mnist-mlp-flux/digits"
ONE, OTHER = (f"{RUNS}/chainer-cpu/epochs-2/repeat-{repeat}/record.json" for repeat in (1, 2))
CERTIFICATE = "results/certificates/victim/mnist-mlp-flux/digits.json"
ALL_BUT_DATA = {
    "train": 4, "trace_training": 2, "certify": 1, "evaluate_weights": 2, "collect_records": 1, "plot_figures": 1,
    "report": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small experiment, finished."""
    folder = tmp_path_factory.mktemp("finished")
    process = call(folder, "--cores", "2", config={})
    assert process.returncode == 0, process.printed[-5000:]
    return folder


@pytest.fixture
def folder(finished, tmp_path_factory):
    """A copy of it, metadata and times of files included; as deep as it, since the path of scripts is a parameter."""
    return Path(shutil.copytree(finished, tmp_path_factory.mktemp("copy"), dirs_exist_ok=True))


def call(folder, *arguments, config=None):
    """Call snakemake; config: changes of the experiment."""
    if config is not None:
        write_config(folder, {"experiments": {"victim": EXPERIMENT | config}})
    return snakemake(folder, *arguments, "--configfile", "experiment.yaml")


def planned(folder, *arguments, config=None):
    """The jobs that snakemake would run, by rule, but for `all`."""
    process = call(folder, *arguments, "-n", "--workflow-profile", "none", config=config)
    assert process.returncode == 0, process.printed[-3000:]
    counts = dict(re.findall(r"^(\w+) +(\d+)$", process.stdout, re.MULTILINE))
    return {rule: int(count) for rule, count in counts.items() if rule not in ("all", "total")}


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
    tables_alone = {"collect_records": 1, "plot_figures": 1, "report": 1}
    assert planned(folder, config={"keep_weights": "needed"}) == {}, "no run is trained again for its weights"
    assert planned(folder, config={"keep_weights": False}) == tables_alone, "which hold no cross-evaluations then"


# --- what was deleted or changed is made again --------------------------------------------------------------------


def test_a_deleted_record_is_trained_again(folder):
    before = json.loads((folder / ONE).read_text())
    (folder / ONE).unlink()
    process = call(folder, "--cores", "2")
    assert process.returncode == 0, process.printed[-3000:]
    assert len(re.findall(r"^run \d+ of \d+: ", process.printed, re.MULTILINE)) == 1
    after = json.loads((folder / ONE).read_text())
    assert after["result"]["test_loss"] == before["result"]["test_loss"]
    assert after["sha256"] != before["sha256"], "other times"
    assert planned(folder) == {}
    assert verify(folder).returncode == 0


AFTER_RECORDS = {"collect_records": 1, "plot_figures": 1, "report": 1}


def test_what_is_deleted_is_made_again(folder):
    (folder / "results/tables/summary.csv").unlink()
    assert planned(folder) == AFTER_RECORDS
    (folder / CERTIFICATE).unlink()
    assert planned(without_metadata(folder)) == {"trace_training": 2, "certify": 1, **AFTER_RECORDS}


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


@pytest.mark.parametrize("change", [{"batch_size": 64}, {"input": {"subtract_mean": True}}])
def test_a_changed_setting_is_noticed_without_metadata(folder, change):
    assert planned(without_metadata(folder), config=change) == ALL_BUT_DATA


def test_a_changed_seed_is_noticed_whatever_is_asked_of_snakemake(folder):
    without_metadata(folder)
    assert planned(folder, "--rerun-triggers", "mtime", config={"seed": 7}) == ALL_BUT_DATA, "they can't be it"
    assert planned(folder, "--until", "certify") == {"trace_training": 2, "certify": 1}
    assert planned(folder, ONE, "--rerun-triggers", "params") == {"train": 1}, "of an explicit target no other run"


def test_fewer_repeats_are_noticed_without_metadata(folder):
    assert planned(without_metadata(folder), config={"repeats": 1}) == AFTER_RECORDS


def test_results_in_another_clone_with_another_seed_are_not_mixed(folder, tmp_path):
    """They name one seed in the end, the new one."""
    clone = tmp_path / "clone"
    shutil.copytree(folder / "results", clone / "results")
    process = call(clone, "--cores", "2", config={"seed": 7})
    assert process.returncode == 0, process.printed[-3000:]
    assert "4 finished runs of victim on digits are trained again (changed: settings)" in process.printed
    assert "1 outdated result is made again (changed: settings)" in process.printed
    records = [json.loads(path.read_text()) for path in (clone / "results/runs").rglob("record.json")]
    assert Counter(one["settings"]["seed"] for one in records) == {7: 4}
    assert verify(clone, "--data").returncode == 0
    assert planned(clone) == {}


def test_records_of_other_code_are_noticed_without_metadata_and_kept_on_request(folder):
    without_metadata(folder)
    edit(folder / ONE, {"provenance.code.sha256": "0" * 16}, same_time=True)
    assert planned(folder)["train"] == 1
    assert "train" not in planned(folder, "--rerun-triggers", "mtime")


def test_one_record_over_all_others_makes_no_verdict(folder):
    for path in (folder / RUNS).rglob("record.json"):
        if path != folder / ONE:
            shutil.copy(folder / ONE, path)
    assert planned(folder)["train"] == 3


def test_records_of_unknown_runs_are_trained_again(folder):
    paths = sorted((folder / RUNS).rglob("record.json"))
    for path, key in zip(paths, ("recipe", "framework", "experiment", "dataset"), strict=True):
        edit(path, {f"run.{key}": "nothing", "run.id": "nothing"})
    assert planned(folder)["train"] == 4
    assert "record: 4 checked, 4 wrong" in verify(folder).stdout


def test_records_that_are_none_are_trained_again(folder):
    paths = sorted((folder / RUNS).rglob("record.json"))
    for path, text in zip(paths, ("", "[]", '{"run": 1}', "[" * 100_000), strict=True):
        path.write_text(text)
    assert planned(folder)["train"] == 4
    found = verify(folder)
    assert (found.returncode, found.stderr) == (1, "")


def test_edited_tables_are_named_and_made_again(folder):
    for name in ("summary.csv", "comparisons.csv"):
        path = folder / "results" / "tables" / name
        before = path.stat()
        path.write_bytes(path.read_bytes().replace(b"mnist", b"tsinm"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert f"{path} is not what this clone makes of the records" in verify(folder).stdout
    assert planned(folder) == AFTER_RECORDS


# --- what was edited is refused -----------------------------------------------------------------------------------

EDITS = {
    "accuracy in the curves too": (
        {"result.test_accuracy": 0.99, "curves.1.evaluations.test.accuracy": 0.99},
        "the accuracy on the test split is not a whole number of samples",
    ),
    "phases": ({"phases_seconds.steady": 0.0, "phases_seconds.import": 0.0}, "contradicts itself: its phases sum to"),
}


def refused(folder, sentence):
    """Call snakemake, which fails with this sentence, in one line and without a traceback."""
    process = call(folder, "--cores", "2")
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
    edit(folder / ONE, changes)
    refused(folder, says)


def test_an_edited_record_is_refused_by_its_digest_whatever_its_time(folder):
    edit(folder / ONE, {"memory.peak_host_mib": 1.0}, renewed=False, same_time=True)
    refused(folder, "record.json was changed after it was written")


def test_a_forger_who_renews_every_digest_and_keeps_all_sums_is_not_found(folder):
    """A limit (docs/comparing.md): nothing in the file contradicts it."""
    edit(folder / ONE, {"memory.peak_host_mib": 1.0})
    assert call(folder, "--cores", "2").returncode == 0
    assert verify(folder).returncode == 0


@pytest.mark.parametrize("renewed", [False, True])
def test_an_edited_certificate_is_refused(folder, renewed):
    worse = {f"pairs.0.stages.{stage}.gradients": 0.5 for stage in ("network", "steps")}
    edit(folder / CERTIFICATE, worse, renewed=renewed)
    refused(folder, "contradicts itself: chainer on cpu" if renewed else "digits.json was changed after it was written")


def test_swapped_weights_are_named(folder):
    shutil.copy((folder / ONE).with_name("weights.npz"), (folder / OTHER).with_name("weights.npz"))
    found = verify(folder)
    assert found.returncode == 1
    assert "repeat-2/weights.npz was changed, or is of another run" in found.stdout


def test_edited_arrays_are_not_trained_on(folder):
    """With their SHA-256 in the manifest: not with the content's, which each record names."""
    prepared = folder / "results" / "datasets" / "digits" / "prepared"
    images = np.load(prepared / "train_images.npy")
    np.save(prepared / "train_images.npy", 255 - images)
    manifest = json.loads((prepared / "manifest.json").read_text())
    manifest["arrays"]["train_images"]["sha256"] = sha256_of(prepared / "train_images.npy")
    (prepared / "manifest.json").write_text(json.dumps(sealed(manifest)))
    (folder / ONE).unlink()
    process = call(folder, ONE, "--cores", "2", "--rerun-triggers", "mtime")
    assert process.returncode != 0
    assert "the content_sha256 of the manifest is not that of the arrays; delete " in process.printed
    assert "content_sha256" in verify(folder, "--data").stdout
