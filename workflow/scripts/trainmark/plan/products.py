"""Paths of the files that the workflow makes.

The path of a result holds its key, a digest of all that decides it (`plan.jobs`). Paths are relative to the results
folder, apart from those that begin with RESULTS.
"""

from collections.abc import Mapping
from pathlib import Path

from trainmark.datasets.catalogue import SPLITS, store_file
from trainmark.plan.run import OF_TRAINER, RUN_FOLDER

RESULTS = "results"
PLAN_FILE = f"{RESULTS}/plan.json"

KEY = "[0-9a-f]{8}-[0-9a-f]{8}"
"""What a key looks like: digests of what is made and of the code that makes it."""
ATTEMPT = r"(\.[0-9]+)?"
"""What follows the key of a run that was trained again, from its second attempt on."""

RECORD = f"runs/{RUN_FOLDER}/{{key}}/record.json"
CERTIFICATE = "certificates/{experiment}/{recipe}/{dataset}/{key}.json"
TRACE = "traces/{experiment}/{recipe}/{dataset}/{key}/{trainer}.npz"
"""Path of a trace. key: that of its certificate."""
TUNING = f"tuning/{OF_TRAINER}/{{key}}.json"
"""Path of a timed tuning. trainer: the tuned one."""
EVALUATION = f"evaluations/{OF_TRAINER}/{{key}}.json"
"""Path of a cross-evaluation. trainer: the one that evaluates."""
DATASET = "datasets/{dataset}/{key}"
"""Folder of what is made from the files of a dataset."""
COMMAND = "commands/{experiment}/{recipe}/{key}"
"""Folder of the files that are fetched for a command."""
FIGURES = "figures/{experiment}/{recipe}/{dataset}"
GPU_CHECK_FILE = f"{RESULTS}/gpu_checks/" + "{framework}/{device}.json"

TRAINING_RULES = ("train", "run_command")
"""Rules whose jobs make records."""

SUBMITTED_RULES = (
    "certify", "check_gpu", "compute_mean_image", "evaluate_weights", "pack_images", "paper", "plot_figures",
    "prepare_dataset", "report", "run_command", "time_tuning", "trace_training", "train",
)  # fmt: skip
"""Rules whose jobs a cluster profile submits; those of the others run where snakemake does."""

MADE_LAST = {"prepared": "prepared/manifest.json", "mean.npy": "mean.png", "train.npy": "test.npy"}
"""What is made last, and whole, of several files or of a folder, by the name of the first."""

MANIFEST = "manifest.json"
"""File that lists a prepared dataset's content or, beside tables, their SHA-256 and the files they are made from."""
TABLES = f"{RESULTS}/tables"
TABLE_FILES = [
    f"{TABLES}/{name}"
    for name in ("runs.parquet", "curves.parquet", "numbers.csv", "parity.csv", "summary.txt", MANIFEST)
]
"""The outputs of collect_records."""

REPORT_FILES = [f"{RESULTS}/report/index.html", f"{RESULTS}/summary.json"]

CHECKED_CLAIMS = f"{RESULTS}/claims_hold"
"""Empty file that is there once no claim fails."""

PAPER_FOLDER = f"{RESULTS}/paper"
PAPER_FILES = "files.json"
"""File in the folder of the paper kit that lists what is made, and what the next call removes or makes again."""


def last_of(file: str) -> str:
    """Return the file that is there once a result is whole."""
    folder, _, name = file.rpartition("/")
    return f"{folder}/{MADE_LAST[name]}" if name in MADE_LAST else file


def raw_folder(name: str) -> str:
    """Return the folder of the files that are fetched for a dataset. Its keys share it."""
    return f"datasets/{name}/raw"


def prepared_in(folder: str) -> str:
    """Return the folder of the prepared form of a dataset, by the folder of its key."""
    return f"{folder}/prepared"


def mean_in(folder: str) -> list[str]:
    """Return the mean image of a dataset, and its picture."""
    return [f"{folder}/mean.npy", f"{folder}/mean.png"]


def packed_in(folder: str) -> list[str]:
    """Return the packed images of a dataset, training images first."""
    return [str(store_file(Path(folder, "packed"), split)) for split in SPLITS]


def described(manifest: Mapping, folder: str) -> str:
    """Describe a prepared dataset in one line, for the end of the workflow."""
    samples, unreadable = manifest["samples"], len(manifest.get("unreadable", []))
    left_out = f", {unreadable} left out as unreadable" if unreadable else ""
    return (
        f"{manifest['dataset']}: {samples['train']} training and {samples['test']} test samples in "
        f"{manifest['classes']} classes{left_out}: {folder}"
    )
