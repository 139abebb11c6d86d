"""Which code a job's results depend on: where `code_digests` starts to look."""

from collections.abc import Iterable
from dataclasses import asdict

from trainmark.frameworks.registry import known_frameworks
from trainmark.plan import code_digests
from trainmark.recipes.recipe import Recipe


def training_code(recipe: Recipe, framework: str) -> tuple[str, ...]:
    """Of a run: the training, the framework's adapter, and the module of the recipe's network."""
    adapter = f"trainmark.frameworks.{known_frameworks()[framework].module}"
    return ("train", adapter, recipe.architecture.__module__)


def tracing_code(recipe: Recipe, framework: str) -> tuple[str, ...]:
    """Of a trace: as of a run, with the certified steps in place of the training."""
    return ("trace_training", *training_code(recipe, framework)[1:])


def evaluating_code(recipe: Recipe, framework: str) -> tuple[str, ...]:
    """Of a cross-evaluation: as of a run, with the evaluating in place of the training."""
    return ("evaluate", *training_code(recipe, framework)[1:])


def preparing_code(dataset_format: str) -> tuple[str, ...]:
    """Of a prepared dataset: the preparing, and the module of its format."""
    return ("prepare", f"trainmark.datasets.formats.{dataset_format}")


def report_code(recipes: Iterable[Recipe]) -> tuple[str, ...]:
    """Of a report on runs of these recipes: its own, and the modules of the networks that it draws."""
    return ("report", *sorted({recipe.architecture.__module__ for recipe in recipes}))


def recipe_values(recipe: Recipe) -> dict:
    """What a recipe decides of a run, as plain JSON values: what it says of its source, or checks, decides nothing."""
    return {
        "architecture": recipe.architecture.__qualname__,
        "initializer": recipe.initializer,
        "optimizer": recipe.optimizer.as_dict(),
        "batch_size": recipe.batch_size,
        "input": recipe.input and asdict(recipe.input),
        "evaluated_splits": recipe.evaluated_splits,
    }


def certified_recipe_values(recipe: Recipe) -> dict:
    """What a recipe decides of a certificate: how large its images are, too."""
    return recipe_values(recipe) | {"certified_side": recipe.certified_side}


def code_record(starts: tuple[str, ...]) -> dict:
    """The code of a run as its record keeps it: one digest, and each module's."""
    return {"sha256": code_digests.digest(*starts), "modules": code_digests.digests(*starts)}
