"""Check that the recipes and datasets of a config fit each other. Each misfit is reported in one sentence."""

from collections.abc import Iterator, Mapping

from trainmark.config.schema_check import Finding, raise_findings
from trainmark.config.wording import format_value
from trainmark.datasets.catalogue import kind_of, sample_shape, vocabulary_size
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import InputTransform, Recipe, merged_input, resolve_batch_size


def check_fit(config: Mapping, documents: Mapping[str, Mapping], catalogue: Mapping) -> None:
    """Raise ConfigError with one line for each recipe that does not fit a dataset.

    config: the checked config, with defaults.
    """
    raise_findings(_fit_findings(config, catalogue), config, documents)


def _fit_findings(config: Mapping, catalogue: Mapping) -> Iterator[Finding]:
    for name, experiment in config["experiments"].items():
        if not experiment["recipes"]:  # it has commands instead
            continue
        yield from _image_file_findings(name, experiment, catalogue)
        for i, recipe_name in enumerate(experiment["recipes"]):
            recipe = RECIPES[recipe_name]
            if recipe.input is None and experiment["input"]:
                yield (
                    ("experiments", name, "input"),
                    f"found {format_value(experiment['input'])}, and the recipe {recipe_name} takes token ids as "
                    "they are stored; allowed: no input, or a recipe for images",
                )
            yield from _misfit_findings(name, experiment, i, catalogue)
            yield from _batch_size_findings(name, experiment, i, catalogue)


def _image_file_findings(name: str, experiment: Mapping, catalogue: Mapping) -> Iterator[Finding]:
    recipe = RECIPES[experiment["recipes"][0]]
    transform = merged_input(recipe, experiment["input"])
    for i, dataset in enumerate(experiment["datasets"]):
        if not _in_arrays(dataset, catalogue):
            ways = _datasets_that_fit(recipe, transform, catalogue) or ["a dataset of arrays"]
            yield (
                ("experiments", name, "datasets", i),
                f"found {format_value(dataset)}, which consists of image files: they can be prepared "
                f"(prepare: [{dataset}]), but not trained on yet; allowed for the recipe "
                f"{recipe.name}: {' or '.join(ways)}",
            )


def _batch_size_findings(name: str, experiment: Mapping, i: int, catalogue: Mapping) -> Iterator[Finding]:
    recipe, batch_size = RECIPES[experiment["recipes"][i]], experiment["batch_size"]
    size = resolve_batch_size(recipe, batch_size) or 0
    for dataset in experiment["datasets"]:
        samples = catalogue[dataset].get("samples", {"train": size})["train"]
        if size > samples:
            whose = "" if isinstance(batch_size, int) else f", the batch size of the recipe {recipe.name}"
            yield (
                ("experiments", name, "batch_size"),
                f"found {size}{whose}, but the dataset {dataset} has {samples} training samples; allowed: full, or a "
                f"whole number, 1 to {samples}",
            )


def _in_arrays(dataset: str, catalogue: Mapping) -> bool:
    """Return whether a dataset consists of arrays. Only arrays can be trained on, not image files."""
    return kind_of(dataset, catalogue) != "image_lists"


def _misfit_findings(name: str, experiment: Mapping, i: int, catalogue: Mapping) -> Iterator[Finding]:
    recipe = RECIPES[experiment["recipes"][i]]
    transform = merged_input(recipe, experiment["input"])
    for dataset in experiment["datasets"]:
        can_crop = recipe.fits_cropped(sample_shape(dataset, catalogue))
        key = ("input", "crop") if experiment["input"].get("crop") and can_crop else ("recipes", i)
        misfit = _misfit(recipe, transform, dataset, catalogue)
        if misfit and _in_arrays(dataset, catalogue):
            ways = [*_datasets_that_fit(recipe, transform, catalogue), "another recipe"]
            ways += ["another input.crop"] if can_crop else []
            yield (
                ("experiments", name, *key),
                f"the recipe {recipe.name} does not fit the dataset {dataset}: it {misfit}; "
                f"allowed: {', '.join(ways[:-1])}{', or ' if len(ways) > 1 else ''}{ways[-1]}",
            )


def _misfit(recipe: Recipe, transform: InputTransform | None, dataset: str, catalogue: Mapping) -> str | None:
    return recipe.misfit(sample_shape(dataset, catalogue), transform, vocabulary_size(dataset, catalogue))


def _datasets_that_fit(recipe: Recipe, transform: InputTransform | None, catalogue: Mapping) -> list[str]:
    """Return the datasets of the catalogue that fit the recipe or, if none does, a description of one that would."""
    arrays = [name for name in catalogue if _in_arrays(name, catalogue)]
    fitting = [name for name in arrays if not _misfit(recipe, transform, name, catalogue)]
    if fitting:
        return [f"a dataset that fits ({', '.join(fitting)})"]
    if recipe.misfit(recipe.input_shape, transform):
        return []  # no dataset can fit this crop
    if transform is None:
        return [
            f"a dataset of your own of format reviews, with sequence_length {recipe.input_shape[0]} and at most "
            f"{recipe.vocabulary_size} as vocabulary_size"
        ]
    images = f"{' x '.join(map(str, recipe.input_shape))}{' or larger' if transform.crop else ''}"
    formats = ["npy", "npz", *(["idx"] if recipe.input_shape[0] == 1 else [])]  # IDX has no colour axis
    return [f"a dataset of your own of format {', '.join(formats)} or synthetic, with images of {images}"]
