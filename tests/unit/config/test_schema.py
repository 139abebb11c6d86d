"""config/schema.yaml is the one list of what a config may say: every key with its unit, default and description, every
default right, and every config file that is shipped in keeping with it.
"""

from dataclasses import asdict

import jsonschema
import pytest
import yaml

from trainmark.config.load import REPOSITORY, load_config, read_yaml
from trainmark.datasets.catalogue import known_formats
from trainmark.plan.campaign import Campaign
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import with_devices
from trainmark.recipes.recipe import DEFAULT_CONSTANTS, InputTransform
from trainmark.recipes.schedules import DEFAULT_FACTOR

SCHEMA = read_yaml(REPOSITORY / "config" / "schema.yaml")
EXPERIMENT = SCHEMA["$defs"]["experiment"]["properties"]
FILLED = {key: part["default"] for key, part in EXPERIMENT.items() if key not in ("variants", "grid")}
"""The keys of a loaded experiment; each variant and each cell of a grid is one."""
COMMAND = SCHEMA["$defs"]["command"]["properties"]
ENTRY = SCHEMA["$defs"]["catalogue"]["additionalProperties"]["properties"]


def keys() -> dict[str, dict]:
    """Every key of a config by its path: top level, experiment, input. Those of a dataset's entry have no default."""
    inner = {f"experiments.*.{key}": EXPERIMENT[key] for key in ("input", "optimizer", "learning_rate_schedule")}
    inner["experiments.*.commands.*.metrics"] = COMMAND["metrics"]
    return {
        **SCHEMA["properties"],
        **{f"experiments.*.{key}": part for key, part in EXPERIMENT.items()},
        **{f"experiments.*.commands.*.{key}": part for key, part in COMMAND.items()},
        **{f"{path}.{key}": part for path, outer in inner.items() for key, part in outer["properties"].items()},
    }


def shipped() -> list:
    """The config files in config/ and its examples: those that ask for something (others are schema and catalogues)."""
    files = [*sorted((REPOSITORY / "config").glob("*.yaml")), *sorted((REPOSITORY / "config" / "examples").iterdir())]
    return [file for file in files if {"experiments", "prepare"} & set(yaml.safe_load(file.read_text()) or {})]


def test_every_key_says_what_it_is():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    parts = keys()
    assert [path for path, part in parts.items() if "default" not in part or not part.get("unit", "").strip()] == []
    for path, part in {**parts, **ENTRY}.items():
        assert len(part["description"]) > 15 and part["description"].endswith("."), f"{path}: a sentence"
        assert part.get("allowed", "").strip() or "enum" in part, f"{path}: the choices, or words for them"
    decides = ("runs", "training", "record", "tuned", "report", "nothing")
    assert {part["decides"] for part in EXPERIMENT.values()} <= {*decides}, "another word would change no key"


def test_every_key_of_an_entry_is_of_a_format_and_the_other_way_round():
    """A key that no format allows could never be given; one that the schema lacks would be given unchecked."""
    of_formats = {key for form in known_formats().values() for key in form.allowed}
    assert of_formats == set(ENTRY)


def test_every_default_is_valid():
    for path, part in keys().items():
        validator = jsonschema.Draft202012Validator({**part, "$defs": SCHEMA["$defs"]})
        errors = [error.message for error in validator.iter_errors(part["default"])]
        assert errors == [] or path == "experiments", path


def test_the_defaults_of_input_are_those_of_the_library():
    defaults = {key: part["default"] for key, part in EXPERIMENT["input"]["properties"].items()}
    assert defaults == asdict(InputTransform())


def test_the_rules_and_constants_of_an_optimizer_are_those_of_the_library():
    keys = EXPERIMENT["optimizer"]["properties"]
    assert keys["rule"]["enum"] == list(DEFAULT_CONSTANTS)
    assert set(keys) - {"rule"} == {name for constants in DEFAULT_CONSTANTS.values() for name in constants}
    for constants in DEFAULT_CONSTANTS.values():
        others = {key: value for key, value in constants.items() if key != "learning_rate"}
        assert {key: keys[key]["default"] for key in others} == others
    assert EXPERIMENT["learning_rate_schedule"]["properties"]["factor"]["default"] == DEFAULT_FACTOR


def test_an_experiment_of_defaults_alone_loads():
    """The names in the defaults exist, and the recipe fits the dataset. Two experiments share no list."""
    explicit = {key: part["default"] for key, part in EXPERIMENT.items()}
    config, catalogue = load_config([], {"experiments": {"e": {}, "f": {}, "written-out": explicit}})
    assert all(experiment == FILLED for experiment in config["experiments"].values())
    others = {
        "mirror": None, "offline": False, "rerun_disturbed": False, "rerun_share": 1, "rerun": [], "prices": {},
        "max_runs": 100000, "figures": {}, "claims": [], "prepare": [], "datasets": {}, "only": [], "any_code": False,
        "networks": [],
    }  # fmt: skip
    assert config == others | {"experiments": config["experiments"]}
    assert catalogue == read_yaml(REPOSITORY / "config" / "datasets.yaml")
    config["experiments"]["e"]["epochs"].append(99)
    config["experiments"]["e"]["input"]["scale"] = 2
    assert config["experiments"]["f"] == FILLED
    assert load_config([], {"prepare": ["mnist"]})[0] == others | {"prepare": ["mnist"], "experiments": {}}


@pytest.mark.parametrize("file", shipped(), ids=lambda file: file.name)
def test_every_shipped_config_loads(file):
    """What an input leaves out comes from the recipe, not from the schema."""
    config, catalogue = load_config([file])
    given = yaml.safe_load(file.read_text())
    assert list(config["experiments"]) == list(given.get("experiments", {}))
    assert (config["prepare"], config["datasets"]) == (given.get("prepare", []), given.get("datasets", {}))
    for name, experiment in config["experiments"].items():
        assert set(experiment) == set(FILLED), "every key is filled"
        for key, default in FILLED.items():
            if key != "commands":  # whose own keys are filled, too
                assert experiment[key] == given["experiments"][name].get(key, default)
    campaign = Campaign(make_plan(with_devices(config, gpu_found=True), catalogue))
    assert campaign.shown_of_datasets and len(campaign.records) == len(campaign.order)
