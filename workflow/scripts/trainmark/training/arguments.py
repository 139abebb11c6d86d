"""The arguments that train.py and trace_training.py have in common: what is trained, on which data, with what."""

import argparse
import json
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from trainmark.errors import ConfigError
from trainmark.frameworks.registry import known_frameworks
from trainmark.machine import gpus
from trainmark.recipes.catalogue import RECIPES


class Settings(dict):
    """The settings of an experiment. Raises ConfigError for a missing key, which the config check would fill in."""

    def __missing__(self, key: str) -> NoReturn:
        raise ConfigError(f"--settings lacks the key {key}: give it as config/schema.yaml describes it")


def settings_of(text: str) -> Settings:
    """The settings in an argument. Raises argparse.ArgumentTypeError where it is no JSON object."""
    with suppress(ValueError):
        if isinstance(found := json.loads(text), dict):
            return Settings(found)
    raise argparse.ArgumentTypeError(f'found {text}; allowed: a JSON object such as {{"seed": 1, "batch_size": 32}}')


def parse_with_trainer(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Add these arguments to a script's own; parse them all, and check."""
    parser.add_argument("--recipe", required=True, choices=RECIPES, help="what is trained")
    parser.add_argument("--dataset-folder", required=True, type=Path, help="the prepared dataset")
    parser.add_argument("--mean", type=Path, help="mean.npy of the dataset; needed for images, which alone have one")
    parser.add_argument("--framework", required=True, choices=known_frameworks(), help="the library that trains")
    parser.add_argument("--device", required=True, choices=gpus.DEVICES)
    parser.add_argument(
        "--settings", required=True, type=settings_of, help="JSON: the experiment's settings (config/schema.yaml)"
    )
    parser.add_argument("--threads", type=int, default=1, help="CPUs and threads to train with")
    parser.add_argument("--log", type=Path, help="file for everything that the framework prints")
    arguments = parser.parse_args()
    if RECIPES[arguments.recipe].input and not arguments.mean:
        parser.error(f"--mean is needed: the recipe {arguments.recipe} trains on images")
    return arguments
