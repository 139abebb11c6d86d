"""Check that the recipes and datasets of a config fit each other. Each misfit is reported in one sentence."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

from trainmark.config.optimizer_check import optimizer_findings
from trainmark.config.schema_check import Finding
from trainmark.config.wording import format_value
from trainmark.datasets.catalogue import kind_of, sample_shape, vocabulary_size
from trainmark.frameworks.registry import Framework, known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.initializers import KERNEL_INITIALIZERS
from trainmark.recipes.recipe import (
    DEFAULT_CONSTANTS,
    InputTransform,
    Recipe,
    configured_batch_size,
    is_streamed,
    merged_input,
    seen_shape,
)
from trainmark.recipes.weights_file import initial_weights_file, why_unfit
from trainmark.trainer import DEVICES, STOCK, TUNED, Trainer, trainers_of

STREAM_KEYS = ("loader", "evaluation_batch_size")
"""Settings of an experiment that concern only streamed images."""

RULE_CONSTANTS = {**DEFAULT_CONSTANTS, "adam_algorithm_1": DEFAULT_CONSTANTS["adam"]}
"""The constants of each update rule that a recipe can have; experiments can't choose the last one."""


def fit_findings(config: Mapping, catalogue: Mapping, defaults: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding for each recipe that does not fit a dataset, and for each setting that does not fit.

    config: the checked config, with defaults.
    defaults: those of an experiment.
    """
    for name, experiment in config["experiments"].items():
        if not experiment["recipes"]:  # it has commands instead
            continue
        for i, recipe_name in enumerate(experiment["recipes"]):
            yield from _recipe_findings(name, experiment, i)
            yield from _input_findings(name, experiment, i)
            yield from optimizer_findings(name, experiment, RECIPES[recipe_name])
            yield from _dropout_findings(name, experiment, i)
            yield from _misfit_findings(name, experiment, i, catalogue)
            yield from _batch_size_findings(name, experiment, i, catalogue)
            yield from _initial_weights_findings(name, experiment, i, catalogue)
        yield from _stream_findings(name, experiment, catalogue, defaults)
        yield from _baseline_findings(name, experiment)
        yield from _loop_findings(name, experiment)
        yield from _worker_findings(name, experiment, catalogue)
    yield from _figure_findings(config)


def _figure_findings(config: Mapping) -> Iterator[Finding]:
    """Of the trainers that figures draw, which experiments may have; on this machine there may be no GPU."""
    known: dict[str, None] = {}
    for experiment in config["experiments"].values():
        commands = [Trainer(FRAMEWORK, device) for device in _devices(experiment) if experiment["commands"]]
        known |= dict.fromkeys(map(str, [*_trainers(experiment), *commands]))
    for i, trainer in enumerate(config["figures"].get("trainers") or ()):
        if trainer not in known:
            yield ("figures", "trainers", i), f"found {format_value(trainer)}; allowed: {', '.join(known)}"


def _devices(experiment: Mapping) -> Sequence[str]:
    """The devices that an experiment may have."""
    return DEVICES if experiment["devices"] == "auto" else experiment["devices"]


def _trainers(experiment: Mapping) -> list[Trainer]:
    return trainers_of({**experiment, "devices": _devices(experiment)})


def _baseline_findings(name: str, experiment: Mapping) -> Iterator[Finding]:
    trainers = [trainer.name for trainer in _trainers(experiment)]
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


def _worker_findings(name: str, experiment: Mapping, catalogue: Mapping) -> Iterator[Finding]:
    """Yield why trainers of the experiment can't have several workers."""
    for i, workers in enumerate(experiment["workers"]):
        if workers == 1:
            continue
        path, found = ("experiments", name, "workers", i), f"found {workers}, but"
        if TUNED in experiment["loops"]:
            yield path, f"{found} several workers train only in the loop {STOCK}; allowed: 1, or loops: [{STOCK}]"
        for framework in map(known_frameworks().__getitem__, experiment["frameworks"]):
            yield from ((path, f"{found} {why}") for why in _why_no_workers(framework, experiment))
        for recipe, dataset in product(experiment["recipes"], experiment["datasets"]):
            if why := _why_too_many(recipe, dataset, workers, experiment, catalogue):
                yield path, f"{found} {why}"


def _why_no_workers(framework: Framework, experiment: Mapping) -> Iterator[str]:
    """Yield why a framework can't train the recipes of an experiment with several workers."""
    engines = {other.name: other.engine for other in known_frameworks().values() if other.engine}
    if framework.engine is None:
        yield f"{framework.name} has no engine for several workers; allowed: 1, or the frameworks {', '.join(engines)}"
        return
    for recipe in experiment["recipes"]:
        for op in sorted(_ops(recipe).intersection(framework.engine.lacks)):
            yield (
                f"{framework.engine.name}, the engine of {framework.name}, computes {op} of {recipe} over the samples "
                "of all workers, and other engines over those of each; allowed: 1, another recipe, or the frameworks "
                f"{', '.join(name for name, engine in engines.items() if op not in engine.lacks)}"
            )


@cache
def _ops(name: str) -> frozenset[str]:
    """Return the layer types of a recipe's network."""
    recipe = RECIPES[name]
    return frozenset(node.op for node in recipe.architecture(recipe.input_shape, recipe.published_classes).nodes)


def _why_too_many(recipe: str, dataset: str, workers: int, experiment: Mapping, catalogue: Mapping) -> str | None:
    """Return why a batch can't be shared among so many workers; None if each gets a sample of all."""
    samples = catalogue[dataset].get("samples", {}).get("train")
    size = configured_batch_size(RECIPES[recipe].batch_size, experiment["batch_size"]) or samples
    if size is None:
        return None
    last = (samples or 0) % size or size
    if last >= workers:
        return None
    which = "batches have" if last == size else "last batch has"
    return f"the {which} {last} samples ({recipe} on {dataset}); allowed: at most {last}, or another batch_size"


@cache
def _recipe_problem(name: str) -> str | None:
    """Return what is wrong with a recipe, whatever the experiment; None if nothing is."""
    recipe, optimizer = RECIPES[name], RECIPES[name].optimizer
    if recipe.initializer not in KERNEL_INITIALIZERS:
        return f"unknown initializer {recipe.initializer!r}; known: {', '.join(KERNEL_INITIALIZERS)}"
    if optimizer.rule not in RULE_CONSTANTS:
        return f"unknown update rule {optimizer.rule!r}; known: {', '.join(RULE_CONSTANTS)}"
    needed, given = list(RULE_CONSTANTS[optimizer.rule]), list(optimizer.as_dict())[1:]
    if sorted(given) != sorted(needed):
        return f"the rule {optimizer.rule} has {', '.join(needed)}, and its optimizer has {', '.join(given)}"
    try:
        count = recipe.architecture(recipe.input_shape, recipe.published_classes).parameter_count()
    except ValueError as error:
        return str(error)
    if count == recipe.published_parameters:
        return None
    return (
        f"its network has {count:,} parameters with {recipe.published_classes} classes, and its published_parameters "
        f"are {recipe.published_parameters:,}"
    )


def _recipe_findings(name: str, experiment: Mapping, i: int) -> Iterator[Finding]:
    recipe = experiment["recipes"][i]
    if problem := _recipe_problem(recipe):
        yield (
            ("experiments", name, "recipes", i),
            f"the recipe {recipe}: {problem}; correct its entry in the catalogue, or the function of its network",
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


def _dropout_findings(name: str, experiment: Mapping, i: int) -> Iterator[Finding]:
    recipe = RECIPES[experiment["recipes"][i]]
    if experiment["dropout"] is not None and not _recipe_problem(recipe.name) and not recipe.dropout_rates:
        yield (
            ("experiments", name, "dropout"),
            f"found {format_value(experiment['dropout'])}, and the recipe {recipe.name} has no dropout layers; "
            "allowed: null, or a recipe with dropout",
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
    formats = ["npy", "npz", *(["idx", "digits"] if recipe.input_shape[0] == 1 else [])]  # these have no colours
    return [f"a dataset of your own of format {', '.join(formats)} or synthetic, whose image_shape is {images}"]
