"""Check that the recipes and datasets of a config fit each other. Each misfit is reported in one sentence."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from trainmark.config.optimizer_check import optimizer_findings
from trainmark.config.schema_check import Finding, raise_findings
from trainmark.config.wording import format_value
from trainmark.datasets.catalogue import kind_of, sample_shape, vocabulary_size
from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import (
    InputTransform,
    Recipe,
    configured_batch_size,
    is_streamed,
    merged_input,
    seen_shape,
)
from trainmark.recipes.weights_file import initial_weights_file, why_unfit
from trainmark.trainer import DEVICES, trainers_of

STREAM_KEYS = ("loader", "evaluation_batch_size")
"""Settings of an experiment that concern only streamed images."""


def check_fit(
    config: Mapping, documents: Mapping[str, Mapping], catalogue: Mapping, defaults: Mapping[str, Any]
) -> None:
    """Raise ConfigError with one line for each recipe that does not fit a dataset.

    config: the checked config, with defaults.
    defaults: those of an experiment.
    """
    raise_findings(_fit_findings(config, catalogue, defaults), config, documents)


def _fit_findings(config: Mapping, catalogue: Mapping, defaults: Mapping[str, Any]) -> Iterator[Finding]:
    for name, experiment in config["experiments"].items():
        if not experiment["recipes"]:  # it has commands instead
            continue
        for i, recipe_name in enumerate(experiment["recipes"]):
            yield from _input_findings(name, experiment, i)
            yield from optimizer_findings(name, experiment, RECIPES[recipe_name])
            yield from _misfit_findings(name, experiment, i, catalogue)
            yield from _batch_size_findings(name, experiment, i, catalogue)
            yield from _initial_weights_findings(name, experiment, i, catalogue)
        yield from _stream_findings(name, experiment, catalogue, defaults)
        yield from _baseline_findings(name, experiment)
        yield from _loop_findings(name, experiment)


def _baseline_findings(name: str, experiment: Mapping) -> Iterator[Finding]:
    devices = DEVICES if experiment["devices"] == "auto" else experiment["devices"]
    trainers = [trainer.name for trainer in trainers_of({**experiment, "devices": devices})]
    if experiment["baseline"] not in (None, *trainers):
        yield (
            ("experiments", name, "baseline"),
            f"found {format_value(experiment['baseline'])}; allowed: null, {', '.join(trainers)}",
        )


def _loop_findings(name: str, experiment: Mapping) -> Iterator[Finding]:
    frameworks = known_frameworks()
    for i, loop in enumerate(experiment["loops"]):
        lacking = [framework for framework in experiment["frameworks"] if loop not in frameworks[framework].loops]
        if lacking:
            having = ", ".join(framework.name for framework in frameworks.values() if loop in framework.loops)
            without = " and ".join(lacking)
            yield (
                ("experiments", name, "loops", i),
                f"found {format_value(loop)}, but there is no {loop} loop for {without}; allowed: stock, or only "
                f"frameworks with a {loop} loop ({having}); move {without} to another experiment",
            )


def _input_findings(name: str, experiment: Mapping, i: int) -> Iterator[Finding]:
    recipe, changes = RECIPES[experiment["recipes"][i]], experiment["input"]
    transform = merged_input(recipe.input, changes)
    if transform is None and changes:
        yield (
            ("experiments", name, "input"),
            f"found {format_value(changes)}, and the recipe {recipe.name} takes token ids as they are stored; allowed: "
            "no input, or a recipe for images",
        )
    elif transform and changes.get("random_crop") and not transform.crop:
        yield (
            ("experiments", name, "input", "random_crop"),
            f"found true, and the recipe {recipe.name} takes whole images; allowed: false, or an input.crop",
        )


def _stream_findings(
    name: str, experiment: Mapping, catalogue: Mapping, defaults: Mapping[str, Any]
) -> Iterator[Finding]:
    """Find settings of streamed images in an experiment that streams none: they would have no effect."""
    transforms = [merged_input(RECIPES[recipe].input, experiment["input"]) for recipe in experiment["recipes"]]
    kinds = [kind_of(dataset, catalogue) for dataset in experiment["datasets"]]
    if any(is_streamed(transform, kind) for transform, kind in product(transforms, kinds)):
        return
    for key in STREAM_KEYS:
        found, default = experiment[key], defaults[key]
        if found == default:
            continue
        if isinstance(found, Mapping):
            found = {part: value for part, value in found.items() if value != default[part]}
        yield (
            ("experiments", name, key),
            f"found {format_value(found)}, which has no effect, since the experiment streams no images; "
            f"allowed: no {key}, a dataset of image files, or an input with random_crop or random_flip",
        )


def _batch_size_findings(name: str, experiment: Mapping, i: int, catalogue: Mapping) -> Iterator[Finding]:
    recipe, batch_size = RECIPES[experiment["recipes"][i]], experiment["batch_size"]
    size = configured_batch_size(recipe.batch_size, batch_size) or 0
    for dataset in experiment["datasets"]:
        samples = catalogue[dataset].get("samples", {"train": size})["train"]
        if size > samples:
            whose = "" if isinstance(batch_size, int) else f", the batch size of the recipe {recipe.name}"
            yield (
                ("experiments", name, "batch_size"),
                f"found {size}{whose}, but the dataset {dataset} has {samples} training samples; allowed: full, or a "
                f"whole number, 1 to {samples}",
            )


def _initial_weights_findings(name: str, experiment: Mapping, i: int, catalogue: Mapping) -> Iterator[Finding]:
    """Yield why runs can't start from the file of initial weights; none for a misfit that is reported elsewhere."""
    recipe, file = RECIPES[experiment["recipes"][i]], initial_weights_file(experiment)
    transform = merged_input(recipe.input, experiment["input"])
    for dataset in experiment["datasets"]:
        if file is None or _misfit(recipe, transform, dataset, catalogue):
            continue
        classes = catalogue[dataset].get("classes")  # None: a folder's classes are counted when it is prepared
        shape = seen_shape(transform, sample_shape(dataset, catalogue))
        if why := why_unfit(file, recipe.architecture(shape, classes) if classes else None):
            yield (
                ("experiments", name, "initial_weights"),
                f"found {format_value(experiment['initial_weights'])}, a file that {why}; allowed: weights.npz of a "
                f"run of {recipe.name} with {classes or 'as many'} classes, in any framework, or null",
            )


def _misfit_findings(name: str, experiment: Mapping, i: int, catalogue: Mapping) -> Iterator[Finding]:
    recipe = RECIPES[experiment["recipes"][i]]
    transform = merged_input(recipe.input, experiment["input"])
    for dataset in experiment["datasets"]:
        can_crop = recipe.fits_cropped(sample_shape(dataset, catalogue))
        key = ("input", "crop") if "crop" in experiment["input"] and can_crop else ("recipes", i)
        if misfit := _misfit(recipe, transform, dataset, catalogue):
            ways = [*_datasets_that_fit(recipe, transform, catalogue), "another recipe"]
            ways += ["another input.crop"] if can_crop else []
            yield (
                ("experiments", name, *key),
                f"the recipe {recipe.name} does not fit the dataset {dataset}: it {misfit}; "
                f"allowed: {', '.join(ways[:-1])}{', or ' if len(ways) > 1 else ''}{ways[-1]}",
            )


def _misfit(recipe: Recipe, transform: InputTransform | None, dataset: str, catalogue: Mapping) -> str | None:
    misfit = recipe.misfit(sample_shape(dataset, catalogue), transform, vocabulary_size(dataset, catalogue))
    if not misfit and transform and not transform.crop and kind_of(dataset, catalogue) == "image_lists":
        return "takes whole images, and image files are trained on with an input.crop"
    return misfit


def _datasets_that_fit(recipe: Recipe, transform: InputTransform | None, catalogue: Mapping) -> list[str]:
    """Return the datasets of the catalogue that fit the recipe or, if none does, a description of one that would."""
    fitting = [name for name in catalogue if not _misfit(recipe, transform, name, catalogue)]
    if fitting:
        return [f"a dataset that fits ({', '.join(fitting)})"]
    if transform is None:
        return [
            f"a dataset of your own of format reviews, with sequence_length {recipe.input_shape[0]} and at most "
            f"{recipe.vocabulary_size} as vocabulary_size"
        ]
    needed = transform.output_shape(recipe.smallest_input)
    if recipe.misfit(needed, transform):
        return []  # no dataset can fit this crop
    images = " x ".join(map(str, needed)) + (" or larger" if transform.crop or recipe.certified_side else "")
    formats = ["npy", "npz", *(["idx"] if recipe.input_shape[0] == 1 else [])]  # IDX has no colour axis
    return [f"a dataset of your own of format {', '.join(formats)} or synthetic, with images of {images}"]
