"""A small campaign, and wildcards of its files."""

from collections.abc import Mapping
from copy import deepcopy

from harness import Wildcards

from trainmark.config.load import load_config
from trainmark.plan.campaign import Campaign
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import with_devices

ASKED = {
    "experiments": {
        "small": {
            "recipes": ["mnist-mlp-flux"],
            "frameworks": ["keras-jax", "chainer"],
            "devices": "auto",
            "epochs": [2, 4],
            "repeats": 2,
        }
    },
    "prepare": ["mnist"],
}

GROUP = {"experiment": "small", "recipe": "mnist-mlp-flux", "dataset": "digits"}
TRAINER = {"trainer": "chainer-cpu"}


def config_of(**changes) -> tuple[dict, dict]:
    """ASKED as a config, with other settings of its experiment, and the catalogue."""
    asked = deepcopy(ASKED)
    asked["experiments"]["small"] |= changes
    return load_config([], asked | {"mirror": "/", "offline": True})


def campaign_of(gpu_found: bool = False, planned: Mapping | None = None, **changes) -> Campaign:
    """The campaign of ASKED, with other settings of its experiment. planned: options of `make_plan`."""
    config, catalogue = config_of(**changes)
    return Campaign(make_plan(with_devices(config, gpu_found), catalogue, **planned or {}))


def wildcards(**others) -> Wildcards:
    """Those of a run."""
    return Wildcards(GROUP | TRAINER | {"epochs": "2", "repeat": "1"} | others)
