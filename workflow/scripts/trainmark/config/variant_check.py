"""Check the variants of a config for mistakes that the schema cannot find. Each is reported in one sentence."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from trainmark.config.schema_check import Finding
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import Recipe, differing_settings, effective_settings, recipe_values
from trainmark.variant import expanded, variant_name


def variant_findings(config: Mapping) -> Iterator[Finding]:
    """Yield a finding for each mistake in variants. config: the checked config, with defaults, not `expanded`."""
    for name, experiment in config["experiments"].items():
        path, variants = ("experiments", name, "variants"), experiment["variants"]
        if not variants:
            continue
        if experiment["commands"]:
            yield path, "has no effect on the commands of the experiment; allowed: commands in another experiment"
        if len(variants) == 1:
            yield path, "found one variant; allowed: two or more, or its settings in the experiment itself"
        for first, second in combinations(variants, 2):
            if (variants[first] or variants[second]) and (recipe := _recipe_of_equals(name, experiment, first, second)):
                yield (
                    (*path, second),
                    f"is the same training as {first} with the recipe {recipe}; allowed: other settings. To see how "
                    "two equal trainings differ, leave the settings of both empty ({})",
                )


def _recipe_of_equals(name: str, experiment: Mapping, *variants: str) -> str | None:
    """Return a recipe that two variants train in the same way; None if there is none."""
    settings = expanded({name: experiment})
    for recipe in experiment["recipes"]:
        first, second = (_meant(RECIPES[recipe], settings[variant_name(name, variant)]) for variant in variants)
        if not differing_settings(first, second):
            return str(recipe)
    return None


def _meant(recipe: Recipe, settings: Mapping) -> dict:
    """Return the settings of a variant, with the recipe's rates of dropout if it sets none."""
    meant = effective_settings(recipe_values(recipe), settings)
    return meant | {"dropout": recipe.dropout_rates if meant["dropout"] is None else [meant["dropout"]]}
