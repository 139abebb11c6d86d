"""What the settings of a run and its recipe mean together, computed from its record. A command has none of it."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from trainmark.recipes.recipe import InputTransform, merged_constants, merged_input, resolved_batch_size


def batch_size_of(record: Mapping) -> int:
    """Samples of a step; the last step of an epoch may have fewer."""
    of_recipe, setting = record["inputs"]["recipe"]["batch_size"], record["settings"]["batch_size"]
    return resolved_batch_size(of_recipe, setting, record["dataset"]["samples"]["train"])


def epoch_steps_of(record: Mapping) -> int:
    """Number of steps of a whole epoch."""
    samples: int = record["dataset"]["samples"]["train"]
    return ceil(samples / batch_size_of(record))


def optimizer_of(record: Mapping) -> dict[str, Any]:
    """The update rule with its constants by name."""
    return merged_constants(record["inputs"]["recipe"]["optimizer"], record["settings"].get("optimizer", {}))


def input_of(record: Mapping) -> InputTransform | None:
    """The transform of stored images; None for token ids."""
    of_recipe = record["inputs"]["recipe"]["input"]
    return merged_input(of_recipe and InputTransform(**of_recipe), record["settings"]["input"])
