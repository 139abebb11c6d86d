"""Digests of the code that a job runs, by which a result knows whether this clone would make it again.

A digest is that of the bytes of the files that are declared here for a kind of job, so an edited comment counts too.
"""

import hashlib
from functools import cache
from pathlib import Path

from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of
from trainmark.files.system_files import own_paths
from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.own import SHIPPED
from trainmark.recipes.recipe import Recipe
from trainmark.trainer import Trainer

SCRIPTS = Path(__file__).parents[2]
"""The folder of the project's own modules: the scripts and the library."""

HEX_DIGITS = 16
"""Length of a digest in characters: 64 bits of SHA-256."""

FILES = "trainmark/files/*.py", "trainmark/__init__.py"
REVIEWS = ("trainmark/datasets/formats/reviews.py",)  # another format reads its files
DATASETS = [f"trainmark/datasets/{name}.py" for name in ("catalogue", "prepared", "tokens")]
IMAGES = *FILES, *DATASETS, "trainmark/datasets/images/*.py"
OF_RUNS = *FILES, "trainmark/trainer.py", "trainmark/plan/run.py", "trainmark/records/*.py", "trainmark/recipes/*.py"
NETWORKS = *OF_RUNS, "trainmark/networks/*.py"
TRACED = [f"trainmark/parity/{name}.py" for name in ("certified_*", "*_check", "sketches", "trace", "whole_epochs")]
CHECKED = *NETWORKS, "trainmark/parity/*.py"
BESIDE_TABLES = [f"trainmark/{name}" for name in ("variant.py", "config/references.*", "plan/matrix.py")]
TABLES = *CHECKED, *BESIDE_TABLES, "trainmark/checks/*.py", "trainmark/tables/*.py"
FIGURES = *TABLES, "trainmark/report/*.py", "trainmark/report/figures/*.py", "trainmark/plan/figures.py"
TRAINED = *NETWORKS, *TRACED, *IMAGES, "trainmark/training/*.py", "trainmark/loading/*.py", "trainmark/machine/*.py"
SHARED = [f"trainmark/frameworks/{name}.py" for name in ("adapter", "layouts", "registry", "sharing", "tuning")]
OF_COMMANDS = [f"trainmark/training/{name}.py" for name in ("arguments", "job", "phases")]

DECLARED = {
    "train": ("train.py", "trace_training.py", "time_tuning.py", "evaluate.py", *TRAINED, *SHARED),
    "run_command": ("run_command.py", "trainmark/commands/*.py", "trainmark/machine/*.py", *OF_COMMANDS, *OF_RUNS),
    "prepare": ("prepare.py", "trainmark/datasets/*.py", "trainmark/datasets/formats/_*.py", *REVIEWS, *IMAGES),
    "mean_image": ("mean_image.py", *IMAGES),
    "pack": ("pack.py", *IMAGES),
    "certify": ("certify.py", *CHECKED),
    "collect": ("collect.py", "trainmark/report/*.py", "trainmark/report/*.j2", *DATASETS, *TABLES),
    "check_claims": ("check_claims.py", *TABLES),
    "plot": ("plot.py", *FIGURES),
    "paper": ("paper.py", "trainmark/paper/*", *FIGURES),
    "report": ("report.py", "trainmark/report/*", "trainmark/networks/zoo/*.py", *DATASETS, *FIGURES),
}
"""Files that make the results of a kind of job, as patterns from SCRIPTS. All that a trainer does is of one kind."""

WITHOUT_EFFECT = {
    "trainmark/recipes/catalogue.py": "it holds all recipes, and a job lists the values of its own",
    "trainmark/training/display.py": "progress of a run on the terminal",
    "trainmark/training/process_exit.py": "how the process ends once its record is complete",
    "trainmark/records/sentences.py": "how a run ended, in words",
    "trainmark/records/consistency.py": "checks when a record is read",
    "trainmark/records/clock.py": "checks when a record is read",
    "trainmark/checks/campaign.py": "checks when records are compared with each other",
    "trainmark/checks/separate_runs.py": "checks when records are compared with each other",
    "trainmark/checks/variants.py": "checks when records are compared with each other",
}
"""Files that match a pattern and affect no result, and why."""

ALSO_OF = {"flax": ("jax_*.py",), "keras": ("jax_*.py", "torch_platform.py")}
"""Files of `frameworks` that an adapter uses besides those that begin with its own name."""

_sha256_of = cache(sha256_of)  # each file is of many jobs


def declared_files(kind: str, *further: str, scripts: Path = SCRIPTS) -> dict[str, Path]:
    """Return the files of a kind of job by their path from `scripts`. further: patterns of more, of this job alone."""
    found = [path for pattern in (*DECLARED[kind], *further) for path in own_paths(scripts, pattern) if path.is_file()]
    files = {path.relative_to(scripts).as_posix(): path for path in found}
    return {name: files[name] for name in sorted(files.keys() - WITHOUT_EFFECT.keys())}


@cache
def digest(kind: str, *further: str, scripts: Path = SCRIPTS) -> str:
    """Return the digest of the `declared_files` of a job."""
    files = declared_files(kind, *further, scripts=scripts)
    lines = [f"{name} {_sha256_of(path)}\n" for name, path in files.items()]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:HEX_DIGITS]


def code_of_kind(kind: str, *further: str, scripts: Path = SCRIPTS) -> dict[str, str]:
    """Return the digests of a job's code as results store them. shared: of what is the same for every trainer."""
    return {"sha256": digest(kind, *further, scripts=scripts), "shared": digest(kind, scripts=scripts)}


def training_code(recipe: Recipe, trainer: Trainer, scripts: Path = SCRIPTS) -> dict[str, str]:
    """Return the digests of the code with which a trainer trains a recipe, is traced, tuned, and evaluates.

    It holds the adapter with both loops and its workers, and the recipe's network.
    """
    family = known_frameworks()[trainer.framework].module.removesuffix("_adapter")
    adapter = [f"trainmark/frameworks/{pattern}" for pattern in (f"{family}_*.py", *ALSO_OF.get(family, ()))]
    # The graph of a user's own recipe is among the inputs of the run (`deciding_values`).
    network = [recipe.architecture.__module__.replace(".", "/") + ".py"] if recipe.name in SHIPPED else []
    return code_of_kind("train", *adapter, *network, scripts=scripts)


def run_code(recipe: str, trainer: Trainer) -> dict[str, str]:
    """Return the digests of the code of a run: of a command, or of the training of a recipe by its name."""
    return code_of_kind("run_command") if trainer.framework == FRAMEWORK else training_code(RECIPES[recipe], trainer)


def preparing_digest(dataset_format: str, scripts: Path = SCRIPTS) -> str:
    """Return the digest of the code that prepares a dataset of a format."""
    return digest("prepare", f"trainmark/datasets/formats/{dataset_format}.py", scripts=scripts)


def dataset_code(dataset_format: str) -> list[str]:
    """Return the digests of the code that makes what is kept of a dataset of a format."""
    return [preparing_digest(dataset_format), digest("mean_image"), digest("pack")]


def refuse_other_code(now: object, planned: object) -> None:
    """Raise DataError if the code was edited since the plan was made, which the paths of results tell.

    now, planned: digests of a job's code, in the same form.
    """
    if now != planned:
        raise DataError(
            "the code of trainmark has changed since this call of snakemake began; call it again, and it goes on with "
            "the code as it is now"
        )
