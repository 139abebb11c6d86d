"""What the next call plans after results were copied, edited or deleted, or after another call: one table."""

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import (
    copy_of_repository,
    edit,
    experiment_of,
    finish,
    keyed,
    planned,
    record_file,
    run_script,
    snakemake,
    write_config,
)

pytestmark = pytest.mark.slow

EXPERIMENTS = {
    "both": experiment_of(frameworks=["chainer", "keras-jax"], repeats=2),
    "kept": experiment_of(keep_weights=True),
}
GROUP = "mnist-mlp-flux/digits"
RUN = f"both/{GROUP}/chainer-cpu/epochs-1/repeat-1"
DATA = {"download_dataset": 1, "prepare_dataset": 1, "compute_mean_image": 1}
CERTIFICATE = {"trace_training": 2, "certify": 1}
PAGES = {"plot_figures": 2, "report": 1}
TABLES = {"collect_records": 1, **PAGES}
TRAINED_AGAIN = {"train": 1, "evaluate_weights": 1, **TABLES}
BOTH = {"train": 4, **CERTIFICATE, "evaluate_weights": 2}
"""All that is made of the experiment of this name, without its data."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A copy of the repository with a finished campaign in it."""
    folder = copy_of_repository(tmp_path_factory.mktemp("finished"))
    finish(folder, "--cores", "2", "--configfile", write_config(folder, {"experiments": EXPERIMENTS}))
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of it, with all times."""
    return Path(shutil.copytree(finished, tmp_path, symlinks=True, dirs_exist_ok=True))


def configure(folder, **changes):
    """Change the config. changes: keys of the experiment "both"."""
    write_config(folder, {"experiments": EXPERIMENTS | {"both": EXPERIMENTS["both"] | changes}})


# --- copies -----------------------------------------------------------------------------------------------------------

COPIES = {
    "cp -r": "cp -r {0}/. .",
    "cp -rp": "cp -rp {0}/. .",
    "hard links": "cp -al {0}/results .",
    "a link": "ln -s {0}/results results",
    "results alone": "cp -r {0}/results .",
    "results alone, with times": "cp -rp {0}/results .",
    "tar": "tar -C {0} -c . | tar -x",
    "tar, times of unpacking": "tar -C {0} -c results | tar -xm",
    "git": "cp -r {0}/results . && git init -q && git add -f . && git -c user.name=me -c user.email=me commit -qm copy"
    " && rm -r results && git checkout -q .",
    "a drive that leaves out names with a dot": "cp -r {0}/results . && find . -name '.*' -type f -delete",
    "a clock two days behind": "cp -r {0}/. . && find . -exec touch -d '2 days ago' {{}} +",
    "a clock two days ahead": "cp -r {0}/. . && find . -exec touch -d '2 days' {{}} +",
    "no datasets": "cp -rp {0}/. . && rm -r results/datasets",
    "no logs": "cp -rp {0}/. . && rm -r results/logs .snakemake",
}
"""Commands that copy a folder into that in which they run."""


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_as_finished_as_the_original(finished, tmp_path, way):
    subprocess.run(["bash", "-ec", COPIES[way].format(finished)], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "experiment.yaml").write_text((finished / "experiment.yaml").read_text())
    assert planned(tmp_path) == {}


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_times_says_nothing(folder, seed):
    files = sorted(path for path in (folder / "results").rglob("*") if path.is_file())
    random.Random(seed).shuffle(files)
    for seconds, file in enumerate(files, start=1_700_000_000):
        os.utime(file, (seconds, seconds))
    assert planned(folder) == {}


# --- changes ----------------------------------------------------------------------------------------------------------

CHANGES = {
    "a figure deleted": (
        lambda folder: keyed(folder, f"figures/both/{GROUP}/loss.svg").unlink(), {}, PAGES | {"plot_figures": 1},
    ),
    "a table deleted": (lambda folder: keyed(folder, "tables/numbers.csv").unlink(), {}, TABLES),
    "a record deleted": (lambda folder: record_file(folder, RUN).unlink(), {}, TRAINED_AGAIN),
    "a certificate deleted": (
        lambda folder: keyed(folder, f"certificates/both/{GROUP}/*.json").unlink(), {}, CERTIFICATE | TABLES,
    ),
    "a record and the data deleted": (
        lambda folder: [record_file(folder, RUN).unlink(), shutil.rmtree(folder / "results" / "datasets")],
        {}, DATA | TRAINED_AGAIN,
    ),
    "a setting": (None, {"batch_size": 64}, BOTH | TABLES),
    "a setting of tables": (None, {"baseline": "chainer on cpu"}, TABLES),
    "weights no longer kept": (None, {"keep_weights": False}, TABLES),
    "fewer repeats": (None, {"repeats": 1}, TABLES | {"evaluate_weights": 2}),
    "more repeats": (None, {"repeats": 3}, TABLES | {"train": 2, "evaluate_weights": 2}),
    "a framework": (
        None, {"frameworks": ["chainer", "keras-jax", "flax"]},
        {"train": 2, "trace_training": 3, "certify": 1, "evaluate_weights": 2, **TABLES},
    ),
    "a framework without the mean image": (
        lambda folder: [file.unlink() for file in folder.glob("results/datasets/*/*/mean.npy")],
        {"frameworks": ["chainer", "keras-jax", "flax"]},
        {"train": 2, "trace_training": 3, "certify": 1, "evaluate_weights": 2, "compute_mean_image": 1, **TABLES},
    ),
    "a framework without data": (
        lambda folder: shutil.rmtree(folder / "results" / "datasets"),
        {"frameworks": ["chainer", "keras-jax", "flax"]},
        {"train": 2, "trace_training": 3, "certify": 1, "evaluate_weights": 2, **DATA, **TABLES},
    ),
}  # fmt: skip
"""What is done to a finished folder, changes of the experiment "both", and what is planned then."""


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_deleted_or_changed_is_made_and_nothing_else(folder, change):
    act, keys, expected = CHANGES[change]
    if act:
        act(folder)
    configure(folder, **keys)
    assert planned(folder) == expected
    configure(folder)
    assert act or planned(folder) == {}


def test_a_call_with_a_setting_changed_and_changed_back_trains_once(folder):
    """The runs of the other setting are kept, and the line on them says so."""
    configure(folder, repeats=1, batch_size=64)
    printed = finish(folder, "--cores", "2", "--configfile", "experiment.yaml")
    assert "2 of 3 runs to train" in printed
    assert "both on digits: differs from 2 kept runs in: batch size" in printed
    configure(folder)
    assert planned(folder) == TABLES
    finish(folder, "--cores", "2", "--configfile", "experiment.yaml")
    configure(folder, repeats=1, batch_size=64)
    assert planned(folder) == TABLES


# --- calls ------------------------------------------------------------------------------------------------------------

OPTIONS = {
    "--until": (["--until", "certify"], CERTIFICATE),
    "--omit-from": (["--omit-from", "collect_records"], BOTH),
    "--rerun-triggers": (["--rerun-triggers", "mtime"], BOTH | TABLES),
    "--workflow-profile": (["--workflow-profile", "none"], BOTH | TABLES),
    "--forceall": (["--forceall"], BOTH | TABLES),
    "only": (["--config", "only=both/*/keras-*"], {"train": 2}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_plans_its_part(folder, name):
    """Of a changed config; of a finished one, nothing."""
    options, expected = OPTIONS[name]
    assert planned(folder, *options) == {}
    configure(folder, batch_size=64)
    assert planned(folder, *options) == expected


def test_a_paper_is_of_the_results_of_its_config(folder):
    assert planned(folder, "paper") == {"paper": 1}
    configure(folder, batch_size=64)
    assert planned(folder, "paper") == {**BOTH, **TABLES, "paper": 1}


CALLS = {
    "archive": ["--archive", "own.tar"],
    "environments": ["--sdm", "conda", "--conda-create-envs-only"],
    "graph": ["--dag"],
    "lint": ["--lint"],
    "list": ["--list-changes", "params"],
    "metadata": ["--cleanup-metadata", "results/summary.json"],
    "report": ["--report", "own.zip"],
    "summary": ["--detailed-summary"],
    "unlock": ["--unlock"],
    "delete": ["--delete-all-output", "--dry-run"],
    "temporary output": ["--delete-temp-output"],
    "dry run": ["--dry-run", "--forceall", "--rerun-incomplete"],
    "dry run by its executor": ["--executor", "dryrun", "--forceall"],
    "a batch": ["--batch", "collect_records=1/2", "--dry-run"],
    "touch": ["--touch"],
    "touch of all": ["--touch", "--forceall"],
    "touch by its executor": ["--executor", "touch", "--forceall"],
    "until": ["--until", "compute_mean_image", "--forcerun", "compute_mean_image"],
    "until training": ["--until", "train", "--forcerun", "train"],
    "allowed rules": ["--allowed-rules", "compute_mean_image", "--forcerun", "compute_mean_image"],
}
"""Ways of calling snakemake that make no result."""


def test_a_preview_of_submissions_shows_each_kind_of_job(folder):
    shown = run_script("validate", "--profile", "slurm", "experiment.yaml", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "train on cpu:" in shown.stdout and "prepare_dataset:" in shown.stdout


def contents(folder):
    """SHA-256 by path of all results but logs."""
    files = (path for path in folder.rglob("*") if path.is_file() and "logs" not in path.relative_to(folder).parts)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("way", CALLS)
def test_a_call_that_makes_no_result_changes_none(folder, way):
    before = contents(folder / "results")
    snakemake(folder, *CALLS[way], "--cores", "1", "--configfile", "experiment.yaml")
    after = contents(folder / "results")
    assert {name for name in before if after.get(name) != before[name]} <= {"plan.json"}
    assert planned(folder) == {}


# --- code -------------------------------------------------------------------------------------------------------------

LIBRARY = "workflow/scripts/trainmark"
INITIALIZER = 'mlp.mlp_32,\n            initializer="'
ADDED = ("from pathlib import Path\n", "import math\nfrom pathlib import Path\n")
EDITS = {
    "an adapter": (
        [("frameworks/chainer_adapter.py", "return np.concatenate(logits)", "return np.vstack(logits)")],
        {"train": 3, **CERTIFICATE, "evaluate_weights": 2, **TABLES},
    ),
    "a recipe": (
        [("recipes/catalogue.py", *(INITIALIZER + one for one in ("glorot_uniform", "lecun_normal")))],
        {"train": 5, **CERTIFICATE, "evaluate_weights": 2, **TABLES},
    ),
    "a format": (
        [("datasets/formats/digits.py", "import numpy as np", "import math\n\nimport numpy as np")],
        {"train": 5, **DATA, **CERTIFICATE, "evaluate_weights": 2, **TABLES},
    ),
    "the comparison of traces": (
        [("parity/compare.py", '"rounding": 1e-9', '"rounding": 1e-10')], {**CERTIFICATE, **TABLES},
    ),
    "tables": ([("tables/numbers.py", *ADDED)], TABLES),
    "figures": ([("report/figures/save.py", *ADDED)], PAGES),
    "a comment in the report": ([("../report.py", "import argparse\n", "import argparse  # as is\n")], {"report": 1}),
    "what the report prints of a recipe": (
        [("recipes/catalogue.py", 'source="FluxML model-zoo vision/mnist/mlp.jl"', 'source="another"')],
        {"report": 1},
    ),
    "what affects no result": (
        [
            ("frameworks/torch_layers.py", "import torch\n", "import math\n\nimport torch\n"),
            ("training/display.py", "stopped by {signal_name}", "was stopped by {signal_name}"),
            ("recipes/catalogue.py", "batch_size=128", "batch_size=64"),
            ("datasets/formats/idx.py", "from math import prod", "import math\nfrom math import prod"),
        ],
        {},
    ),
}  # fmt: skip
"""Edits of the library, and what is planned then."""


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_makes_again_what_the_code_makes_and_nothing_else(folder, name):
    edits, expected = EDITS[name]
    for file, old, new in edits:
        edit(folder / LIBRARY / file, old, new)
    assert planned(folder) == expected
    if name == "an adapter":
        assert "train" not in planned(folder, "--config", "any_code=true")


# --- an earlier version -----------------------------------------------------------------------------------------------


def test_results_of_an_earlier_version_are_refused_in_one_sentence(folder):
    path = folder / "results" / "plan.json"
    plan = json.loads(path.read_text())
    del plan["records"]
    path.write_text(json.dumps(plan))
    refused = snakemake(folder, "-n", "--configfile", "experiment.yaml")
    assert refused.returncode == 1
    assert re.search("results holds the runs of an earlier version of trainmark", refused.printed.splitlines()[-1])
    assert "Traceback" not in refused.printed
    assert "earlier version" in run_script("verify", folder / "results").stderr
