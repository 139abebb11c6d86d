"""For each kind of job, the modules from which its code digest is computed (the starts of `code_digests`)."""

from collections.abc import Iterable

from trainmark.frameworks.registry import known_frameworks
from trainmark.plan import code_digests
from trainmark.recipes.recipe import Recipe
from trainmark.trainer import Trainer


def training_code(recipe: Recipe, trainer: Trainer, script: str = "train") -> tuple[str, ...]:
    """Starts for a job that trains or evaluates: its script, the adapter's modules, and that of the recipe's network.

    script: for a run, train; for a trace, trace_training; for a timed tuning, time_tuning; or evaluate.
    """
    adapter = [
        f"trainmark.frameworks.{module}" for module in known_frameworks()[trainer.framework].modules(trainer.loop)
    ]
    return (script, *adapter, recipe.architecture.__module__)


def command_code() -> tuple[str, ...]:
    """Starts for a run of a command: its script, and the programs that this starts."""
    return ("run_command", *(f"trainmark.commands.{name}" for name in ("events", "guard", "probe")))


def preparing_code(dataset_format: str) -> tuple[str, ...]:
    """Starts for a prepared dataset: the preparing script and the module of its format."""
    return ("prepare", f"trainmark.datasets.formats.{dataset_format}")


def report_code(recipes: Iterable[Recipe]) -> tuple[str, ...]:
    """Starts for a report on runs of these recipes: the report script and the modules of the networks it draws."""
    return ("report", *sorted({recipe.architecture.__module__ for recipe in recipes}))


def code_record(starts: tuple[str, ...]) -> dict:
    """Return the code of a job as results store it: one digest, and the digest of each module."""
    return {"sha256": code_digests.digest(*starts), "modules": code_digests.digests(*starts)}
