"""config/schema.yaml is the one list of what a config may say: every key with its unit, default and description, every
default right, and every config file that is shipped in keeping with it.
"""

from dataclasses import asdict
from datetime import date
from functools import reduce

import jsonschema
import pytest
import yaml

from trainmark.config.load import REPOSITORY, load_config, merge, plain, read_yaml, with_defaults
from trainmark.datasets.catalogue import known_formats
from trainmark.errors import ConfigError
from trainmark.recipes.recipe import DEFAULT_CONSTANTS, InputTransform
from trainmark.recipes.schedules import DEFAULT_FACTOR

SCHEMA = read_yaml(REPOSITORY / "config" / "schema.yaml")
EXPERIMENT = SCHEMA["$defs"]["experiment"]["properties"]
COMMAND = SCHEMA["$defs"]["command"]["properties"]
ENTRY = SCHEMA["$defs"]["catalogue"]["additionalProperties"]["properties"]


def keys() -> dict[str, dict]:
    """Every key of a config by its path: top level, experiment, input. Those of a dataset's entry have no default."""
    return {
        **SCHEMA["properties"],
        **{f"experiments.*.{key}": part for key, part in EXPERIMENT.items()},
        **{
            f"experiments.*.{key}.{inner}": part
            for key in ("input", "optimizer", "learning_rate_schedule")
            for inner, part in EXPERIMENT[key]["properties"].items()
        },
        **{f"experiments.*.commands.*.{key}": part for key, part in COMMAND.items()},
        **{f"experiments.*.commands.*.metrics.{key}": part for key, part in COMMAND["metrics"]["properties"].items()},
    }


def shipped() -> list:
    """The config files in config/ and its examples: those that ask for something (others are schema and catalogues)."""
    files = [*sorted((REPOSITORY / "config").glob("*.yaml")), *sorted((REPOSITORY / "config" / "examples").iterdir())]
    return [file for file in files if {"experiments", "prepare"} & set(yaml.safe_load(file.read_text()) or {})]


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", keys())
def test_every_key_says_what_it_is(path):
    part = keys()[path]
    for word in ("description", "unit", "allowed"):
        if word == "allowed" and "enum" in part:
            continue  # the choices say it
        assert isinstance(part.get(word), str) and part[word].strip(), f"{path} lacks {word}"
    assert "default" in part, f"{path} lacks default"
    assert len(part["description"]) > 20 and part["description"].endswith("."), "a sentence"


@pytest.mark.parametrize("key", EXPERIMENT)
def test_every_key_of_an_experiment_says_what_it_decides(key):
    """Another word would make no run stale."""
    assert EXPERIMENT[key]["decides"] in ("runs", "training", "record", "tuned", "report", "nothing")


@pytest.mark.parametrize("key", ENTRY)
def test_every_key_of_an_entry_says_what_it_is(key):
    for word in ("description", "allowed"):
        assert isinstance(ENTRY[key].get(word), str) and ENTRY[key][word].strip(), f"{key} lacks {word}"
    assert ENTRY[key]["description"].endswith("."), "a sentence"


def test_every_key_of_an_entry_is_of_a_format_and_the_other_way_round():
    """A key that no format allows could never be given; one that the schema lacks would be given unchecked."""
    of_formats = {key for form in known_formats().values() for key in form.allowed}
    assert of_formats == set(ENTRY)


@pytest.mark.parametrize("path", [path for path in keys() if path != "experiments"])
def test_every_default_is_valid(path):
    part = keys()[path]
    validator = jsonschema.Draft202012Validator({**part, "$defs": SCHEMA["$defs"]})
    assert [error.message for error in validator.iter_errors(part["default"])] == []


def refusal(path: str) -> list[str]:
    """What is said of a date under a key path; a dataset's key is given beside a format that has it."""
    *outer, key = path.split(".")
    of_key = [name for name, form in known_formats().items() if key in form.allowed]
    config = {"prepare": ["mnist"], "datasets": {"mine": {"format": of_key[0]}}} if outer[:1] == ["datasets"] else {}
    wrong = reduce(lambda inner, part: {part: inner}, reversed([*outer, key]), date(2017, 1, 31))
    with pytest.raises(ConfigError) as caught:
        load_config([], merge(config, wrong))
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("path", "part"),
    [*keys().items(), *((f"datasets.mine.{key}", part) for key, part in ENTRY.items() if key != "format")],
)
def test_what_is_refused_is_told_what_is_allowed(path, part):
    """The words are the schema's own; the tables of broken configs leave them out."""
    path = path.replace("*", "e")
    allowed = part.get("allowed") or ", ".join(part["enum"])
    assert f"--config: {path}: found 2017-01-31 (a date); allowed: {allowed}" in refusal(path)


def test_unknown_keys_are_refused_at_every_level():
    entry = SCHEMA["$defs"]["catalogue"]["additionalProperties"]
    parts = [entry, ENTRY["samples"], ENTRY["lists"], ENTRY["files"]["items"]]
    for part in (SCHEMA, SCHEMA["$defs"]["experiment"], EXPERIMENT["input"], *parts):
        assert part["additionalProperties"] is False


def test_the_defaults_of_input_are_those_of_the_library():
    defaults = {key: part["default"] for key, part in EXPERIMENT["input"]["properties"].items()}
    assert defaults == asdict(InputTransform())


def test_the_rules_and_constants_of_an_optimizer_are_those_of_the_library():
    keys = EXPERIMENT["optimizer"]["properties"]
    assert keys["rule"]["enum"] == list(DEFAULT_CONSTANTS)
    assert set(keys) - {"rule"} == {name for constants in DEFAULT_CONSTANTS.values() for name in constants}
    for constants in DEFAULT_CONSTANTS.values():
        assert {key: keys[key]["default"] for key in constants if key != "learning_rate"} == {
            key: value for key, value in constants.items() if key != "learning_rate"
        }
    assert EXPERIMENT["learning_rate_schedule"]["properties"]["factor"]["default"] == DEFAULT_FACTOR


def test_an_experiment_of_defaults_alone_loads(tmp_path):
    """The names in the defaults exist, and the recipe fits the dataset."""
    config, catalogue = load_config([], {"experiments": {"e": {}}})
    assert config["experiments"]["e"] == {key: part["default"] for key, part in EXPERIMENT.items()}
    others = {
        "mirror": None,
        "offline": False,
        "rerun_disturbed": False,
        "prices": {},
        "max_runs": 100000,
        "prepare": [],
        "datasets": {},
    }
    assert config == others | {"experiments": config["experiments"]}
    assert catalogue == read_yaml(REPOSITORY / "config" / "datasets.yaml")
    explicit = {key: part["default"] for key, part in EXPERIMENT.items()}
    assert load_config([], {"experiments": {"e": explicit}})[0] == config, "the defaults written out are the same"


def test_there_are_shipped_configs():
    assert {"config.yaml", "paper.yaml", "mnist.yaml", "imagenette.yaml"} <= {file.name for file in shipped()}


@pytest.mark.parametrize("file", shipped(), ids=lambda file: file.name)
def test_every_shipped_config_loads(file):
    config, _ = load_config([file])
    given = yaml.safe_load(file.read_text())
    assert list(config["experiments"]) == list(given.get("experiments", {}))
    assert (config["prepare"], config["datasets"]) == (given.get("prepare", []), given.get("datasets", {}))
    for name, experiment in config["experiments"].items():
        assert set(experiment) == set(EXPERIMENT), "every key is filled"
        for key, part in EXPERIMENT.items():
            if key != "commands":  # whose own keys are filled, too
                assert experiment[key] == given["experiments"][name].get(key, part["default"])


def test_input_stays_as_it_was_given():
    """What an input leaves out comes from the recipe, not from the schema."""
    config, _ = load_config([], {"experiments": {"e": {"input": {"subtract_mean": True}}, "f": {}}})
    assert config["experiments"]["e"]["input"] == {"subtract_mean": True}
    assert config["experiments"]["f"]["input"] == {}


def test_defaults_are_copies():
    """Two experiments must not share one list."""
    config, _ = load_config([], {"experiments": {"e": {}, "f": {}}})
    config["experiments"]["e"]["epochs"].append(99)
    config["experiments"]["e"]["input"]["scale"] = 2
    assert config["experiments"]["f"]["epochs"] == EXPERIMENT["epochs"]["default"] == [10]
    assert config["experiments"]["f"]["input"] == EXPERIMENT["input"]["default"] == {}


def test_loading_changes_nothing_that_it_was_given():
    overrides = {"experiments": {"e": {"epochs": [2]}}}
    load_config([], overrides)
    assert overrides == {"experiments": {"e": {"epochs": [2]}}}


def test_merge_replaces_lists_and_goes_into_mappings():
    base = {"a": {"x": [1, 2], "y": 1}, "b": 1}
    assert merge(base, {"a": {"x": [3]}, "b": {"z": 1}, "c": None}) == {
        "a": {"x": [3], "y": 1}, "b": {"z": 1}, "c": None,
    }  # fmt: skip
    assert base == {"a": {"x": [1, 2], "y": 1}, "b": 1}
    assert merge({"a": {"x": 1}}, {"a": None}) == {"a": None}


def test_plain_turns_other_mappings_and_tuples_into_dicts_and_lists():
    from collections import OrderedDict

    found = plain(OrderedDict(a=(1, OrderedDict(b=2)), c="text"))
    assert found == {"a": [1, {"b": 2}], "c": "text"}
    assert [type(found), type(found["a"]), type(found["a"][1]), type(found["c"])] == [dict, list, dict, str]


def test_with_defaults_keeps_a_mirror():
    filled = with_defaults({"mirror": "/data", "experiments": {"e": {"epochs": [3]}}}, SCHEMA)
    assert filled["mirror"] == "/data"
    assert filled["experiments"]["e"]["epochs"] == [3]


def test_a_config_that_only_prepares_has_no_experiments():
    config, _ = load_config([], {"prepare": ["mnist"]})
    assert config == {
        "mirror": None,
        "offline": False,
        "rerun_disturbed": False,
        "prices": {},
        "max_runs": 100000,
        "prepare": ["mnist"],
        "datasets": {},
        "experiments": {},
    }
