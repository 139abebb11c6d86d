"""Check a config for mistakes that its schema cannot find: what does not fit each other.

Functions that begin with `_` yield key paths inside the experiment, unless they say otherwise.
"""

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, filterfalse, product
from math import prod
from pathlib import Path
from typing import Any

from trainmark.config.schema_check import Finding, raise_findings
from trainmark.config.wording import format_value
from trainmark.datasets.catalogue import SPLITS, kind_of, sample_shape, vocabulary_size
from trainmark.datasets.fetching.addresses import mirror_problem
from trainmark.errors import ConfigError, did_you_mean, in_one_sentence
from trainmark.files.system_files import own_paths
from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import DATASET, FRAMEWORK, problems
from trainmark.recipes.initializers import KERNEL_INITIALIZERS
from trainmark.recipes.own import SHIPPED
from trainmark.recipes.recipe import (
    DEFAULT_CONSTANTS,
    InputTransform,
    Optimizer,
    Recipe,
    configured_batch_size,
    differing_settings,
    effective_settings,
    is_streamed,
    merged_constants,
    merged_input,
    recipe_values,
    seen_shape,
)
from trainmark.recipes.weights_file import initial_weights_file, why_unfit
from trainmark.trainer import DEVICES, STOCK, TUNED, Trainer, trainers_of
from trainmark.variant import cell_name, expanded, levels_of, split_name, variant_name

Findings = Iterator[Finding]

ENVIRONMENTS = Path(__file__).resolve().parents[4] / "envs"

MIRROR_VARIABLE = "TRAINMARK_MIRROR"
"""Environment variable that names the mirror if the config names none."""

RULE_CONSTANTS = {**DEFAULT_CONSTANTS, "adam_algorithm_1": DEFAULT_CONSTANTS["adam"]}
"""The constants of each rule that a recipe can have; experiments can't choose the last one."""

OF_PAIRS = ("experiment", "recipe", "dataset")
"""What a claim on certificates may name."""


Values = Mapping[str, tuple[Callable[[Any], object], str]]
"""What values may be, by name: a function value -> whether it is allowed, and what is, in words."""


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _are_counts(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_count, value))


COUNT = "a whole number, 1 or more"

RECIPE_VALUES: Values = {
    "architecture": (callable, "a function of input shape and classes, such as mlp.mlp_32"),
    "input_shape": (lambda value: value and _are_counts(value), "a tuple such as (1, 28, 28)"),
    "optimizer": (lambda value: isinstance(value, Optimizer), "an Optimizer"),
    "batch_size": (lambda value: value is None or _is_count(value), f"{COUNT}, or None for all samples"),
    "input": (lambda value: isinstance(value, InputTransform | None), "an InputTransform, or None for token ids"),
    "evaluated_splits": (
        lambda value: isinstance(value, tuple) and "test" in value and set(value) <= set(SPLITS),
        '("test",) or ("test", "train")',
    ),
    "published_parameters": (_is_count, COUNT),
    "published_classes": (_is_count, COUNT),
}
"""What the values of a recipe may be. Its initializer and its optimizer have tables of their own."""

INPUT_VALUES: Values = {
    "scale": (lambda value: isinstance(value, int | float), "a number"),
    "crop": (lambda value: value is None or (_are_counts(value) and len(value) == 2), "(height, width), or None"),
    "mean_window": (lambda value: value in ("same", "top-left"), "same or top-left"),
    **dict.fromkeys(
        ("subtract_mean", "random_crop", "random_flip"), (lambda value: type(value) is bool, "True or False")
    ),
}
"""What the values of a recipe's input may be."""


def check_mirror(config: Mapping, documents: Mapping[str, Mapping]) -> None:
    """Raise ConfigError if nothing can be fetched from the mirror of the config or, if it has none, the environment.

    config: merged from `documents`, and already checked against the schema.
    """
    mirror = config.get("mirror")
    if problem := mirror_problem(mirror or os.environ.get(MIRROR_VARIABLE) or "."):
        if mirror is None:
            raise ConfigError(f"{MIRROR_VARIABLE}: {problem}")
        raise_findings([(("mirror",), problem)], documents)


def findings(config: Mapping, catalogue: Mapping, defaults: Mapping[str, Any]) -> Findings:
    """Yield a finding for each mistake in a checked config with defaults; its variants are `expanded`.

    defaults: those of an experiment.
    """
    for name, experiment in config["experiments"].items():
        for path, sentence in _experiment(experiment, catalogue, defaults):
            yield ("experiments", name, *path), sentence
    yield from _figures(config)
    yield from _claims(config)


def _experiment(experiment: Mapping, catalogue: Mapping, defaults: Mapping[str, Any]) -> Findings:
    yield from _commands(experiment)
    for i, name in enumerate(experiment["recipes"]):
        if problem := _recipe_problem(RECIPES[name]):
            yield ("recipes", i), f"the recipe {name}: {problem}; correct its entry or its network"
            continue
        yield from _recipe(RECIPES[name], experiment)
        yield from _optimizer(RECIPES[name], experiment)
        for dataset in experiment["datasets"]:
            yield from _dataset(RECIPES[name], i, dataset, experiment, catalogue)
    if experiment["recipes"] and not any(
        _recipe_problem(RECIPES[name]) for name in experiment["recipes"]
    ):  # without, commands alone
        yield from _stream(experiment, catalogue, defaults)
        yield from _trainers(experiment)
        yield from _workers(experiment, catalogue)


def _commands(experiment: Mapping) -> Findings:
    environments = [file.stem for file in own_paths(ENVIRONMENTS, "*.yaml")]
    for name, command in experiment["commands"].items():
        for path, sentence in problems(command):
            yield ("commands", name, *path), sentence
        named = command["environment"]
        if named is None or named in environments or Path(named).is_dir():
            continue
        if not (named.endswith(".yaml") and Path(named).is_file()):
            found = f"found {format_value(named)}, which is not there"
            allowed = f"{', '.join(environments)}, a .yaml file, or the folder of an environment"
            yield ("commands", name, "environment"), f"{found}; allowed: {allowed}"


# --- recipes ------------------------------------------------------------------------------------------------------


@cache
def _recipe_problem(recipe: Recipe) -> str | None:
    """Return what is wrong with a recipe, whatever the experiment; None if nothing is."""
    for part in (recipe, recipe.optimizer, recipe.input):
        if problem := getattr(part, "problem", None):
            return str(problem)
    for key, (holds, allowed) in RECIPE_VALUES.items():
        if not holds(value := getattr(recipe, key)):
            return f"found {key} = {value!r}; allowed: {allowed}"
    if problem := _input_problem(recipe.input) or _optimizer_problem(recipe.optimizer):
        return problem
    if recipe.initializer not in KERNEL_INITIALIZERS:
        return _unknown("initializer", recipe.initializer, KERNEL_INITIALIZERS)
    try:
        count = recipe.architecture(recipe.input_shape, recipe.published_classes).parameter_count()
    except ValueError as error:
        return str(error)
    except Exception as error:  # of the user's function
        *_, where = traceback.extract_tb(error.__traceback__)
        return f"its network can't be built: {in_one_sentence(error)} ({where.filename}, line {where.lineno})"
    if count == recipe.published_parameters:
        return None
    published = f"{recipe.published_parameters:,}"
    return f"its network has {count:,} parameters, and its published_parameters are {published}"


def _unknown(what: str, name: object, known: Iterable[str]) -> str:
    return f"unknown {what} {name!r}; known: {', '.join(known)}{did_you_mean(name, known)}"


def _input_problem(transform: InputTransform | None) -> str | None:
    """Return what is wrong with a recipe's input."""
    for key, (holds, allowed) in INPUT_VALUES.items():
        if transform and not holds(value := getattr(transform, key)):
            return f"found {key} = {value!r} in its input; allowed: {allowed}"
    return None


def _optimizer_problem(optimizer: Optimizer) -> str | None:
    """Return what is wrong with a recipe's optimizer."""
    if optimizer.rule not in RULE_CONSTANTS:
        return _unknown("update rule", optimizer.rule, RULE_CONSTANTS)
    try:
        given = {name: value for name, value in optimizer.as_dict().items() if name != "rule"}
    except (TypeError, ValueError):
        return f'found constants = {optimizer.constants!r}; allowed: pairs, as in (("momentum", 0.9),)'
    needed = RULE_CONSTANTS[optimizer.rule]
    if given.keys() != needed.keys():
        hints = "".join(did_you_mean(name, needed) for name in sorted(given.keys() - needed.keys()))
        has = f"the rule {optimizer.rule} has {', '.join(needed)}"
        return f"{has}, and its optimizer has {', '.join(sorted(given))}{hints}"
    for name, value in given.items():
        if not isinstance(value, int | float):
            return f"found {name} = {value!r} in its optimizer; allowed: a number"
    return None


def _recipe(recipe: Recipe, experiment: Mapping) -> Findings:
    """Find settings that have no effect on a recipe."""
    changes, dropout = experiment["input"], experiment["dropout"]
    transform = merged_input(recipe.input, changes)
    if transform is None and changes:
        found = f"found {format_value(changes)}, and the recipe {recipe.name} takes token ids"
        yield ("input",), f"{found}; allowed: no input, or a recipe for images"
    elif transform and changes.get("random_crop") and not transform.crop:
        found = f"found true, and the recipe {recipe.name} takes whole images"
        yield ("input", "random_crop"), f"{found}; allowed: false, or an input.crop"
    if dropout is not None and not recipe.dropout_rates:
        found = f"found {format_value(dropout)}, and the recipe {recipe.name} has no dropout layers"
        yield ("dropout",), f"{found}; allowed: null, or a recipe with dropout"


def _optimizer(recipe: Recipe, experiment: Mapping) -> Findings:
    """Find constants, schedules and restarts that have no effect, or that are impossible."""
    chosen = experiment["optimizer"]
    schedule = experiment["learning_rate_schedule"]
    chosen_rule = {"rule": chosen["rule"]} if "rule" in chosen else {}
    constants = merged_constants(recipe.optimizer.as_dict(), chosen_rule)
    rule = constants.pop("rule")
    whose = "" if "rule" in chosen else f" of the recipe {recipe.name}"
    for key in chosen.keys() - {"rule", *constants}:
        found = f"found {format_value(chosen[key])}, but the rule {rule}{whose} has no {key}"
        yield ("optimizer", key), f"{found}; allowed: {', '.join(constants)}, or another rule"
    path = ("learning_rate_schedule",)
    if schedule and rule == "rmsprop_warmup":
        allowed = "no learning_rate_schedule, or another rule"
        yield path, f"the rule rmsprop_warmup has a schedule of its own; allowed: {allowed}"
    if "factor" in schedule and not schedule.get("milestones"):
        yield (*path, "factor"), "has no effect without milestones; allowed: milestones with it"
    if schedule.get("warmup_epochs") and not schedule.get("scale_with_batch"):
        allowed = "scale_with_batch: true with it"
        yield (*path, "warmup_epochs"), f"has no effect on an unscaled rate; allowed: {allowed}"
    restarts = experiment["optimizer_restarts"]
    parts = restarts + 1
    if wrong := [epochs for epochs in experiment["epochs"] if epochs % parts]:
        found = f"found {restarts}, but {wrong[0]} epochs have no {parts} equal parts"
        yield ("optimizer_restarts",), f"{found}; allowed: epochs divisible by {parts}"


# --- datasets -----------------------------------------------------------------------------------------------------


def _dataset(recipe: Recipe, i: int, dataset: str, experiment: Mapping, catalogue: Mapping) -> Findings:
    """Find why a recipe does not fit a dataset, and what does not fit both."""
    transform = merged_input(recipe.input, experiment["input"])
    shape = sample_shape(dataset, catalogue)
    if misfit := _misfit(recipe, transform, dataset, catalogue):
        can_crop = recipe.fits_cropped(shape)
        path = ("input", "crop") if "crop" in experiment["input"] and can_crop else ("recipes", i)
        found = f"the recipe {recipe.name} does not fit the dataset {dataset}: it {misfit}"
        fitting = [name for name in catalogue if not _misfit(recipe, transform, name, catalogue)]
        ways = ["another recipe"]
        if fitting:
            ways.insert(0, f"a dataset that fits ({', '.join(fitting)})")
        if can_crop:
            ways.append("another input.crop")
        yield path, f"{found}; allowed: {', or '.join(ways)}"
    elif recipe.name not in SHIPPED and "classes" not in catalogue[dataset]:
        found = f"the recipe {recipe.name} of your own needs the number of classes of {dataset} before it is prepared"
        yield ("recipes", i), f"{found}; allowed: a dataset with the key classes"
    else:
        seen = seen_shape(transform, shape)
        yield from _initial_weights(recipe, seen, dataset, experiment, catalogue)
    size = configured_batch_size(recipe.batch_size, experiment["batch_size"]) or 0
    samples = catalogue[dataset].get("samples", {"train": size})["train"]
    if size > samples:
        whose = "" if size == experiment["batch_size"] else f" of the recipe {recipe.name}"
        found = f"found {size}{whose}, but the dataset {dataset} has {samples} training samples"
        yield ("batch_size",), f"{found}; allowed: full, or a whole number, 1 to {samples}"


def _misfit(recipe: Recipe, transform: InputTransform | None, dataset: str, catalogue: Mapping) -> str | None:
    words = vocabulary_size(dataset, catalogue)
    misfit = recipe.misfit(sample_shape(dataset, catalogue), transform, words)
    takes_whole_images = transform is not None and not transform.crop
    if not misfit and takes_whole_images and kind_of(dataset, catalogue) == "image_lists":
        return "takes whole images, and image files are trained on with an input.crop"
    return misfit


def _initial_weights(
    recipe: Recipe, shape: tuple[int, ...], dataset: str, experiment: Mapping, catalogue: Mapping
) -> Findings:
    file = initial_weights_file(experiment)
    # A folder's classes are counted when it is prepared.
    classes = catalogue[dataset].get("classes")
    network = recipe.architecture(shape, classes) if classes else None
    if file and (why := why_unfit(file, network)):
        found = f"found {format_value(experiment['initial_weights'])}, a file that {why}"
        whose = f"a run of {recipe.name} with {classes or 'as many'} classes, in any framework"
        yield ("initial_weights",), f"{found}; allowed: weights.npz of {whose}, or null"


def _stream(experiment: Mapping, catalogue: Mapping, defaults: Mapping[str, Any]) -> Findings:
    """Find settings of streamed images in an experiment that streams none."""
    for recipe, dataset in product(experiment["recipes"], experiment["datasets"]):
        transform = merged_input(RECIPES[recipe].input, experiment["input"])
        if is_streamed(transform, kind_of(dataset, catalogue)):
            return
    for key in ("loader", "evaluation_batch_size"):
        if experiment[key] != defaults[key]:
            found = "has no effect, since the experiment streams no images"
            yield (key,), f"{found}; allowed: image files, or an input with random_crop or random_flip"


# --- trainers -----------------------------------------------------------------------------------------------------


def _possible_devices(experiment: Mapping) -> Sequence[str]:
    """Return the devices that an experiment may have; on this machine there may be no GPU."""
    return DEVICES if experiment["devices"] == "auto" else experiment["devices"]


def _possible_trainers(experiment: Mapping) -> list[Trainer]:
    return trainers_of({**experiment, "devices": _possible_devices(experiment)})


def _trainers(experiment: Mapping) -> Findings:
    """Find a baseline that the experiment lacks, and loops that its frameworks lack."""
    trainers = [trainer.name for trainer in _possible_trainers(experiment)]
    baseline = experiment["baseline"]
    if baseline not in (None, *trainers):
        yield ("baseline",), f"found {format_value(baseline)}; allowed: null, {', '.join(trainers)}"
    frameworks = known_frameworks()
    for i, loop in enumerate(experiment["loops"]):
        having = [name for name, framework in frameworks.items() if loop in framework.loops]
        lacking = [name for name in experiment["frameworks"] if name not in having]
        if lacking:
            found = f"there is no {loop} loop for {' and '.join(lacking)}"
            allowed = f"stock, or only frameworks with a {loop} loop ({', '.join(having)})"
            yield ("loops", i), f"{found}; allowed: {allowed}"


def _workers(experiment: Mapping, catalogue: Mapping) -> Findings:
    """Find why trainers of the experiment can't have several workers."""
    for i, workers in enumerate(experiment["workers"]):
        if workers > 1:
            for why in _why_not(workers, experiment, catalogue):
                yield ("workers", i), f"found {workers}, but {why}"


def _why_not(workers: int, experiment: Mapping, catalogue: Mapping) -> Iterator[str]:
    if TUNED in experiment["loops"]:
        yield f"several workers train only in the loop {STOCK}; allowed: 1, or loops: [{STOCK}]"
    engines = {name: one.engine for name, one in known_frameworks().items() if one.engine}
    for framework in experiment["frameworks"]:
        if framework not in engines:
            allowed = f"1, or the frameworks {', '.join(engines)}"
            yield f"{framework} has no engine for several workers; allowed: {allowed}"
            continue
        for recipe, op in product(experiment["recipes"], sorted(engines[framework].lacks)):
            if op in RECIPES[recipe].ops:
                having = [name for name, engine in engines.items() if op not in engine.lacks]
                yield (
                    f"{engines[framework].name}, the engine of {framework}, computes {op} of {recipe} "
                    "over the samples of all workers, and other engines over those of each; "
                    f"allowed: 1, or the frameworks {', '.join(having)}"
                )
    for recipe, dataset in product(experiment["recipes"], experiment["datasets"]):
        samples = catalogue[dataset].get("samples", {}).get("train")
        size = configured_batch_size(RECIPES[recipe].batch_size, experiment["batch_size"])
        size = size or samples
        last = size and ((samples or 0) % size or size)
        if last is not None and last < workers:
            which = f"the last batch has {last} samples ({recipe} on {dataset})"
            yield f"{which}; allowed: at most {last}, or another batch_size"


# --- the whole config ---------------------------------------------------------------------------------------------


def _figures(config: Mapping) -> Findings:
    """Find trainers of figures that no experiment may have."""
    known: dict[str, None] = {}
    for experiment in config["experiments"].values():
        trainers = _possible_trainers(experiment)
        if experiment["commands"]:
            trainers += [Trainer(FRAMEWORK, device) for device in _possible_devices(experiment)]
        known |= dict.fromkeys(map(str, trainers))
    for i, trainer in enumerate(config["figures"].get("trainers") or ()):
        if trainer not in known:
            found = f"found {format_value(trainer)}"
            yield ("figures", "trainers", i), f"{found}; allowed: {', '.join(known)}"


def _claims(config: Mapping) -> Findings:
    """Find mistakes in the claims, with whole key paths."""
    known = _known_values(config)
    for i, claim in enumerate(config["claims"]):
        path = ("claims", i)
        where = claim.get("where", {})
        has_bound = "at_least" in claim or "at_most" in claim
        if ("verdict" in claim) + ("pairs" in claim) + has_bound != 1:
            yield path, "allowed: at_least, at_most or both; or verdict; or pairs"
        if "pairs" not in claim and not where:
            yield path, "where is missing; allowed: values that only one row of numbers.csv has"
        if "pairs" in claim:
            for key in set(where).difference(OF_PAIRS):
                allowed = ", ".join(OF_PAIRS)
                yield (*path, "where", key), f"has no effect on pairs; allowed: {allowed}"
        if claim.get("at_least", 0) > claim.get("at_most", claim.get("at_least", 0)):
            yield (*path, "at_least"), f"found {claim['at_least']}, which is more than at_most"
        for key, values in known.items():
            if key in where and (value := where[key]) not in values:
                allowed = f"{', '.join(map(str, filter(None, values))) or 'nothing'}{did_you_mean(value, values)}"
                yield (*path, "where", key), f"found {format_value(value)}; allowed: {allowed}"


def _known_values(config: Mapping) -> dict[str, list]:
    """Return the values that the experiments have, by column."""
    known: dict[str, list] = {key: [] for key in (*OF_PAIRS, "framework", "epochs", "workers", "variant")}
    for name, experiment in config["experiments"].items():
        commands = list(experiment["commands"])
        base, variant = split_name(name)
        known["experiment"] += [name, base]
        known["variant"] += [variant, *(cell_name({factor: level}) for factor, level in levels_of(variant).items())]
        known["recipe"] += [*experiment["recipes"], *commands]
        known["dataset"] += [*experiment["datasets"], *([DATASET] if commands else [])]
        known["framework"] += [*experiment["frameworks"], *([FRAMEWORK] if commands else [])]
        known["epochs"] += experiment["epochs"]
        known["workers"] += experiment["workers"]
    return {key: list(dict.fromkeys(values)) for key, values in known.items()}


# --- variants -----------------------------------------------------------------------------------------------------


def variant_findings(config: Mapping) -> Findings:
    """Yield a finding for each mistake in variants.

    config: the checked config, with defaults, not `expanded`.
    """
    for name, experiment in config["experiments"].items():
        grid, variants = experiment["grid"], experiment["variants"]
        path = ("experiments", name, "grid" if grid else "variants")
        if not variants:
            continue
        if experiment["commands"]:
            yield path, "has no effect on commands; allowed: commands in another experiment"
        if grid and len(variants) > prod(map(len, grid.values())):
            yield path, "found grid and variants; allowed: one of them, or each in an experiment of its own"
            continue
        if len(variants) == 1:
            yield path, "found one variant; allowed: two or more, or its settings in the experiment"
        settings = expanded({name: experiment})
        for first, second in combinations(variants, 2):
            pair = [settings[variant_name(name, variant)] for variant in (first, second)]
            for recipe in filterfalse(lambda name: _recipe_problem(RECIPES[name]), experiment["recipes"]):
                one, other = (_meant(RECIPES[recipe], variant) for variant in pair)
                if (variants[first] or variants[second]) and not differing_settings(one, other):
                    cell = f"{second} " if grid else ""
                    found = f"{cell}is the same training as {first} with the recipe {recipe}"
                    equal = "" if grid else ", or two variants without any ({}), to see how equal ones differ"
                    yield path if grid else (*path, second), f"{found}; allowed: other settings{equal}"


def _meant(recipe: Recipe, settings: Mapping) -> dict:
    """Return the settings of a variant, with the recipe's rates of dropout if it sets none."""
    meant = effective_settings(recipe_values(recipe), settings)
    rate = meant["dropout"]
    return meant | {"dropout": recipe.dropout_rates if rate is None else [rate]}
