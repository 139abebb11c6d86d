"""Variants: named sets of settings of one experiment. Each is trained like an experiment of its own.

How a variant is written in paths, tables and texts is decided here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

SEPARATOR = "."
"""Between the names of an experiment and a variant. Neither name contains it."""


Group = tuple[str, str, str]
"""Experiment, recipe and dataset."""


def variant_name(experiment: str, variant: str) -> str:
    """The name under which a variant is trained: "optimizers.adam"."""
    return f"{experiment}{SEPARATOR}{variant}"


def split_name(name: str) -> tuple[str, str]:
    """(experiment, variant) of the name of an experiment; the variant of one without variants is ""."""
    experiment, _, variant = name.partition(SEPARATOR)
    return experiment, variant


def expanded(experiments: Mapping[str, Mapping]) -> dict[str, dict]:
    """Return the experiments with each variant as an experiment of its own; its settings replace the experiment's."""
    found: dict[str, dict] = {}
    for name, experiment in experiments.items():
        common = {key: value for key, value in experiment.items() if key != "variants"}
        variants = experiment.get("variants") or {"": {}}
        found |= {variant_name(name, variant) if variant else name: common | own for variant, own in variants.items()}
    return found


def collapsed(experiments: Mapping[str, Mapping]) -> dict[str, dict]:
    """Return experiments as a config writes them, from `expanded` ones: what their variants share, and `variants`."""
    found: dict[str, dict] = {}
    for name, variants in _by_experiment(experiments).items():
        first, *others = variants.values()
        varied = [key for key in first if any(other[key] != first[key] for other in others)]
        found[name] = {key: value for key, value in first.items() if key not in varied}
        if "" not in variants:
            own = {variant: {key: settings[key] for key in varied} for variant, settings in variants.items()}
            found[name]["variants"] = own
    return found


def _by_experiment(experiments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values of `expanded` experiments by experiment and variant."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in experiments.items():
        experiment, variant = split_name(name)
        found.setdefault(experiment, {})[variant] = value
    return found


def drawn_groups(groups: Iterable[Group]) -> set[Group]:
    """Return the groups that have figures: these, and that of each experiment whose variants are among them."""
    known = set(groups)
    return known | {(split_name(experiment)[0], recipe, dataset) for experiment, recipe, dataset in known}


def written_path(path: tuple, experiments: Mapping[str, Mapping]) -> tuple:
    """Return the key path of a setting of an `expanded` experiment, in the config as it was written."""
    if path[:1] != ("experiments",) or len(path) < 2:
        return path
    experiment, variant = split_name(path[1])
    own = experiments[experiment].get("variants", {}).get(variant, {})
    return ("experiments", experiment, *(("variants", variant) if path[2:] and path[2] in own else ()), *path[2:])
