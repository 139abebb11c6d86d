"""What a person reads when a config is wrong: for each mistake the whole message, word for word.

A message is one line a finding: file, key path, what was found, what is allowed and, where there is one, the nearest
spelling. Nothing that is wrong may load, and nothing may end in a traceback.
"""

import copy
from pathlib import Path

import pytest

from trainmark.config import REPOSITORY, load_config, read_yaml
from trainmark.config_check import check_catalogue
from trainmark.errors import ConfigError

TOP_KEYS = "mirror, experiments"
EXPERIMENT_KEYS = (
    "description, recipes, datasets, frameworks, devices, epochs, repeats, seed, batch_size, step_losses, input"
)
INPUT_KEYS = "scale, subtract_mean, crop, mean_window"
RECIPES = "mnist-mlp-chainer, mnist-mlp-keras, mnist-mlp-flux"
DATASETS = "digits, mnist"
FRAMEWORKS = "chainer, keras-tensorflow, keras-jax, keras-torch"
NAME = "lower-case letters, digits and hyphens, 40 at most"
NAMED_EXPERIMENTS = "at least one experiment, under a name of lower-case letters, digits and hyphens (40 at most)"
EPOCHS = "a list of whole numbers, 1 or more"
FROM_1 = "a whole number, 1 or more"
FROM_0 = "a whole number, 0 or more"
BATCH_SIZE = "recipe, full, or a whole number, 1 or more"
DEVICES = "auto, or a list of cpu and gpu"
CROP = "a list of height and width, or null"
A_MAPPING_OF_INPUT = "a mapping of scale, subtract_mean, crop and mean_window"


def experiment(keys: str) -> str:
    """A config with one experiment, e, of these keys (flow style)."""
    return f"experiments:\n  e: {{{keys}}}\n"


def in_e(path: str, sentence: str) -> str:
    return f"broken.yaml: experiments.e.{path}: {sentence}"


# (name of the case, text of the file, the whole message)
MESSAGES = [
    # --- unknown keys
    (
        "unknown top-level key, nearest",
        "experiment: {}\nexperiments: {e: {}}\n",
        f"broken.yaml: experiment: unknown key; allowed: {TOP_KEYS}; did you mean experiments?",
    ),
    (
        "unknown top-level key, nothing near",
        "zebra: 1\nexperiments: {e: {}}\n",
        f"broken.yaml: zebra: unknown key; allowed: {TOP_KEYS}",
    ),
    (
        "yte templating",
        "__use_yte__: true\nexperiments: {e: {}}\n",
        f"broken.yaml: __use_yte__: unknown key; allowed: {TOP_KEYS}",
    ),
    (
        "unknown experiment key, nearest",
        experiment("epoch: [1]"),
        in_e("epoch", f"unknown key; allowed: {EXPERIMENT_KEYS}; did you mean epochs?"),
    ),
    (
        "unknown experiment key, nothing near",
        experiment("zzz: [1]"),
        in_e("zzz", f"unknown key; allowed: {EXPERIMENT_KEYS}"),
    ),
    (
        "unknown input key",
        experiment("input: {sclae: 1}"),
        in_e("input.sclae", f"unknown key; allowed: {INPUT_KEYS}; did you mean scale?"),
    ),
    # --- the wrong type
    (
        "number for text at the top",
        "mirror: 5\nexperiments: {e: {}}\n",
        "broken.yaml: mirror: found 5 (a whole number); allowed: a folder, a file:// or http(s):// address, or null",
    ),
    (
        "empty mirror",
        "mirror: ''\nexperiments: {e: {}}\n",
        "broken.yaml: mirror: found '' (text); allowed: a folder, a file:// or http(s):// address, or null",
    ),
    ("text for list", experiment("epochs: ten"), in_e("epochs", f"found 'ten' (text); allowed: {EPOCHS}")),
    ("number for list", experiment("epochs: 10"), in_e("epochs", f"found 10 (a whole number); allowed: {EPOCHS}")),
    ("text for integer", experiment("repeats: three"), in_e("repeats", f"found 'three' (text); allowed: {FROM_1}")),
    ("integer in quotes", experiment("repeats: '3'"), in_e("repeats", f"found '3' (text); allowed: {FROM_1}")),
    ("float for integer", experiment("repeats: 2.5"), in_e("repeats", f"found 2.5 (a number); allowed: {FROM_1}")),
    ("float epochs", experiment("epochs: [1.5]"), in_e("epochs[0]", f"found 1.5 (a number); allowed: {FROM_1}")),
    (
        "exponent that YAML 1.1 reads as text",
        experiment("epochs: [1e1]"),
        in_e("epochs[0]", f"found '1e1' (text); allowed: {FROM_1}"),
    ),
    (
        "boolean for integer",
        experiment("repeats: true"),
        in_e("repeats", f"found True (true or false); allowed: {FROM_1}"),
    ),
    (
        "boolean in a list of integers",
        experiment("epochs: [yes]"),
        in_e("epochs[0]", f"found True (true or false); allowed: {FROM_1}"),
    ),
    ("list for text", experiment("description: [a]"), in_e("description", "found ['a'] (a list); allowed: text")),
    (
        "number for text",
        experiment("description: 2017"),
        in_e("description", "found 2017 (a whole number); allowed: text"),
    ),
    (
        "list for mapping",
        experiment("input: [1]"),
        in_e("input", f"found [1] (a list); allowed: {A_MAPPING_OF_INPUT}"),
    ),
    (
        "text for mapping",
        experiment("input: whole"),
        in_e("input", f"found 'whole' (text); allowed: {A_MAPPING_OF_INPUT}"),
    ),
    (
        "text for boolean",
        experiment("input: {subtract_mean: 'yes'}"),
        in_e("input.subtract_mean", "found 'yes' (text); allowed: true or false"),
    ),
    (
        "integer for boolean",
        experiment("input: {subtract_mean: 1}"),
        in_e("input.subtract_mean", "found 1 (a whole number); allowed: true or false"),
    ),
    (
        "boolean for number",
        experiment("input: {scale: true}"),
        in_e("input.scale", "found True (true or false); allowed: a number above 0"),
    ),
    (
        "fraction for number",
        experiment("input: {scale: 1/255}"),
        in_e("input.scale", "found '1/255' (text); allowed: a number above 0"),
    ),
    ("null for integer", experiment("seed: null"), in_e("seed", f"found nothing (null); allowed: {FROM_0}")),
    # --- unknown names
    (
        "unknown framework, nearest",
        experiment("frameworks: [chainer, keras-tensorfow]"),
        in_e("frameworks[1]", f"found 'keras-tensorfow' (text); allowed: {FRAMEWORKS}; did you mean keras-tensorflow?"),
    ),
    (
        "framework in capitals",
        experiment("frameworks: [Chainer]"),
        in_e("frameworks[0]", f"found 'Chainer' (text); allowed: {FRAMEWORKS}; did you mean chainer?"),
    ),
    (
        "unknown framework, nothing near",
        experiment("frameworks: [xyz]"),
        in_e("frameworks[0]", f"found 'xyz' (text); allowed: {FRAMEWORKS}"),
    ),
    (
        "unknown recipe, nearest",
        experiment("recipes: [mnist-mlp-kera]"),
        in_e("recipes[0]", f"found 'mnist-mlp-kera' (text); allowed: {RECIPES}; did you mean mnist-mlp-keras?"),
    ),
    (
        "unknown recipe, nothing near",
        experiment("recipes: [foo]"),
        in_e("recipes[0]", f"found 'foo' (text); allowed: {RECIPES}"),
    ),
    (
        "unknown dataset, nearest",
        experiment("datasets: [digit]"),
        in_e("datasets[0]", f"found 'digit' (text); allowed: {DATASETS}; did you mean digits?"),
    ),
    (
        "unknown dataset, nothing near",
        experiment("datasets: [imagenet]"),
        in_e("datasets[0]", f"found 'imagenet' (text); allowed: {DATASETS}"),
    ),
    # --- numbers out of range
    (
        "negative epoch",
        experiment("epochs: [10, -1]"),
        in_e("epochs[1]", f"found -1 (a whole number); allowed: {FROM_1}"),
    ),
    ("zero epochs", experiment("epochs: [0]"), in_e("epochs[0]", f"found 0 (a whole number); allowed: {FROM_1}")),
    ("zero repeats", experiment("repeats: 0"), in_e("repeats", f"found 0 (a whole number); allowed: {FROM_1}")),
    ("negative seed", experiment("seed: -1"), in_e("seed", f"found -1 (a whole number); allowed: {FROM_0}")),
    (
        "negative step_losses",
        experiment("step_losses: -5"),
        in_e("step_losses", f"found -5 (a whole number); allowed: {FROM_0}"),
    ),
    (
        "scale 0",
        experiment("input: {scale: 0}"),
        in_e("input.scale", "found 0 (a whole number); allowed: a number above 0"),
    ),
    (
        "batch_size 0",
        experiment("batch_size: 0"),
        in_e("batch_size", f"found 0 (a whole number); allowed: {BATCH_SIZE}"),
    ),
    (
        "batch_size misspelt",
        experiment("batch_size: ful"),
        in_e("batch_size", f"found 'ful' (text); allowed: {BATCH_SIZE}; did you mean full?"),
    ),
    (
        "batch_size 12.5",
        experiment("batch_size: 12.5"),
        in_e("batch_size", f"found 12.5 (a number); allowed: {BATCH_SIZE}"),
    ),
    (
        "batch_size in a list",
        experiment("batch_size: [128]"),
        in_e("batch_size", f"found [128] (a list); allowed: {BATCH_SIZE}"),
    ),
    # --- lists: twice, and none
    (
        "epochs twice",
        experiment("epochs: [10, 10]"),
        in_e("epochs", "found 10 (a whole number) twice; allowed: each value once"),
    ),
    (
        "framework twice",
        experiment("frameworks: [chainer, chainer]"),
        in_e("frameworks", "found 'chainer' (text) twice; allowed: each value once"),
    ),
    (
        "device twice",
        experiment("devices: [cpu, cpu]"),
        in_e("devices", "found 'cpu' (text) twice; allowed: each value once"),
    ),
    ("no epochs", experiment("epochs: []"), in_e("epochs", f"found an empty list; allowed: {EPOCHS}")),
    ("no devices", experiment("devices: []"), in_e("devices", f"found an empty list; allowed: {DEVICES}")),
    # --- devices
    (
        "unknown device",
        experiment("devices: [cpu, tpu]"),
        in_e("devices[1]", "found 'tpu' (text); allowed: cpu, gpu; did you mean gpu?"),
    ),
    (
        "auto in a list",
        experiment("devices: [auto]"),
        in_e("devices[0]", "found 'auto' (text); allowed: cpu, gpu"),
    ),
    (
        "auto misspelt",
        experiment("devices: atuo"),
        in_e("devices", f"found 'atuo' (text); allowed: {DEVICES}; did you mean auto?"),
    ),
    ("a bare device", experiment("devices: cpu"), in_e("devices", f"found 'cpu' (text); allowed: {DEVICES}")),
    # --- the input transform
    (
        "crop that makes the recipe unfit",
        experiment("recipes: [mnist-mlp-keras], datasets: [digits], input: {crop: [24, 24]}"),
        in_e(
            "recipes[0]",
            "the recipe mnist-mlp-keras does not fit the dataset digits: it takes inputs of 1 x 28 x 28 "
            "(channels x height x width), and gets 1 x 24 x 24; allowed: a dataset that fits (none with this input), "
            "another recipe, or another input.crop",
        ),
    ),
    (
        "crop larger than the image",
        experiment("recipes: [mnist-mlp-flux, mnist-mlp-keras], datasets: [mnist], input: {crop: [32, 28]}"),
        "\n".join(
            in_e(
                f"recipes[{i}]",
                f"the recipe {recipe} does not fit the dataset mnist: it crops 32 x 28 out of images of 28 x 28; "
                "allowed: a dataset that fits (none with this input), another recipe, or another input.crop",
            )
            for i, recipe in enumerate(["mnist-mlp-flux", "mnist-mlp-keras"])
        ),
    ),
    (
        "crop of one side",
        experiment("input: {crop: [28]}"),
        in_e("input.crop", f"found [28] (a list); allowed: {CROP}"),
    ),
    (
        "crop of three sides",
        experiment("input: {crop: [28, 28, 1]}"),
        in_e("input.crop", f"found [28, 28, 1] (a list); allowed: {CROP}"),
    ),
    (
        "crop of nothing",
        experiment("input: {crop: [0, 28]}"),
        in_e("input.crop[0]", f"found 0 (a whole number); allowed: {FROM_1}"),
    ),
    (
        "mean_window misspelt",
        experiment("input: {mean_window: top_left}"),
        in_e("input.mean_window", "found 'top_left' (text); allowed: same, top-left; did you mean top-left?"),
    ),
    (
        "mean_window unknown",
        experiment("input: {mean_window: middle}"),
        in_e("input.mean_window", "found 'middle' (text); allowed: same, top-left"),
    ),
    # --- experiments
    (
        "experiment name with capitals and a space",
        "experiments:\n  My Run: {}\n",
        f"broken.yaml: experiments: found the name 'My Run' (text); allowed: {NAME}",
    ),
    (
        "experiment name too long",
        f"experiments:\n  {'a' * 41}: {{}}\n",
        f"broken.yaml: experiments: found the name '{'a' * 41}' (text); allowed: {NAME}",
    ),
    (
        "experiment name with a folder",
        "experiments:\n  ../x: {}\n",
        f"broken.yaml: experiments: found the name '../x' (text); allowed: {NAME}",
    ),
    (
        "no experiment",
        "experiments: {}\n",
        f"broken.yaml: experiments: found an empty mapping; allowed: {NAMED_EXPERIMENTS}",
    ),
    (
        "experiments null",
        "experiments:\n",
        f"broken.yaml: experiments: found nothing (null); allowed: {NAMED_EXPERIMENTS}",
    ),
    (
        "experiments as a list",
        "experiments: [a]\n",
        f"broken.yaml: experiments: found ['a'] (a list); allowed: {NAMED_EXPERIMENTS}",
    ),
    (
        "experiment null",
        "experiments:\n  e:\n",
        "broken.yaml: experiments.e: found nothing (null); "
        "allowed: a mapping of keys such as recipes, frameworks and epochs",
    ),
    # --- YAML itself
    (
        "key given twice",
        "experiments:\n  e:\n    epochs: [1]\n    repeats: 1\n    epochs: [2]\n",
        "broken.yaml, line 5: found the key 'epochs' twice (first in line 3); allowed: each key once",
    ),
    (
        "experiment given twice",
        "experiments:\n  e: {}\n  e: {}\n",
        "broken.yaml, line 3: found the key 'e' twice (first in line 2); allowed: each key once",
    ),
    (
        "bracket not closed",
        "experiments:\n  e:\n    epochs: [10, 20\n    repeats: 1\n",
        "broken.yaml, line 4: expected ',' or ']', but got ':'",
    ),
    (
        "colon in text without quotes",
        "experiments:\n  e:\n    description: note: x\n",
        "broken.yaml, line 3: mapping values are not allowed here",
    ),
    (
        "python object",
        "experiments: !!python/object/apply:os.system ['touch owned']\n",
        "broken.yaml, line 1: could not determine a constructor for the tag "
        "'tag:yaml.org,2002:python/object/apply:os.system'",
    ),
    (
        "indentation by tab",
        "experiments:\n\te: {}\n",
        "broken.yaml, line 2: found character '\\t' that cannot start any token",
    ),
    (
        "alias without anchor",
        "experiments: *x\n",
        "broken.yaml, line 1: found undefined alias 'x'",
    ),
    (
        "control character",
        "experiments: \x00\n",
        "broken.yaml: not valid YAML (unacceptable character #x0000: special characters are not allowed)",
    ),
    (
        "list as a key",
        "experiments:\n  ? [a, b]\n  : 1\n",
        "broken.yaml: not valid YAML (unhashable type: 'list')",
    ),
    (
        "two documents",
        "experiments: {e: {}}\n---\nexperiments: {f: {}}\n",
        "broken.yaml, line 2: but found another document",
    ),
    ("list at the top", "- a\n- b\n", "broken.yaml: found list at the top; allowed: a mapping of keys to values"),
    # --- several at once: every one is listed, by key path
    (
        "several mistakes",
        "mirorr: /data\nexperiments:\n  a: {epochs: [5, 0, -2], repeats: none, seed: 3}\n  b: {devices: [tpu]}\n",
        f"broken.yaml: mirorr: unknown key; allowed: {TOP_KEYS}; did you mean mirror?\n"
        f"broken.yaml: experiments.a.epochs[1]: found 0 (a whole number); allowed: {FROM_1}\n"
        f"broken.yaml: experiments.a.epochs[2]: found -2 (a whole number); allowed: {FROM_1}\n"
        f"broken.yaml: experiments.a.repeats: found 'none' (text); allowed: {FROM_1}\n"
        "broken.yaml: experiments.b.devices[0]: found 'tpu' (text); allowed: cpu, gpu; did you mean gpu?",
    ),
    (
        "several unknown names",
        experiment("recipes: [foo], datasets: [digits, minst], frameworks: [xyz]"),
        in_e("recipes[0]", f"found 'foo' (text); allowed: {RECIPES}\n")
        + in_e("datasets[1]", f"found 'minst' (text); allowed: {DATASETS}; did you mean mnist?\n")
        + in_e("frameworks[0]", f"found 'xyz' (text); allowed: {FRAMEWORKS}"),
    ),
]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    """Messages name the file as it was given: relative, so that they are the same everywhere."""
    monkeypatch.chdir(tmp_path)


def message_of(*files: str, overrides: dict | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config([Path(file) for file in files], overrides)
    return str(caught.value)


def write(text: str, name: str = "broken.yaml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def one_line_each(message: str, file: str = "broken.yaml") -> None:
    """Each line names the file, and none is a traceback, ends in nothing or stands there twice."""
    lines = message.splitlines()
    assert lines
    assert len(set(lines)) == len(lines), "the same finding twice"
    for line in lines:
        assert line.startswith((f"{file}: ", f"{file}, line "))
        assert "Traceback" not in line
        assert line == line.rstrip() and not line.endswith((":", "allowed:", ";"))


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES])
def test_the_whole_message(text, expected):
    message = message_of(write(text))
    assert message == expected
    one_line_each(message)


def test_the_table_is_complete():
    assert len(MESSAGES) >= 34
    assert len({name for name, _, _ in MESSAGES}) == len(MESSAGES)


@pytest.mark.parametrize("key", ["recipes", "datasets", "frameworks"])
@pytest.mark.parametrize(("value", "shown"), [("[]", "an empty list"), ("x", "'x' (text)"), ("", "nothing (null)")])
def test_what_is_allowed_in_place_of_a_list_of_names(key, value, shown):
    message = message_of(write(f"experiments:\n  e:\n    {key}: {value}\n"))
    one_line_each(message)
    allowed = {"recipes": "a list of recipe names", "datasets": "a list of dataset names"}
    assert message == in_e(key, f"found {shown}; allowed: {allowed.get(key, 'a list of framework names')}")


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "mirror: null\n", "{}\n"])
def test_a_config_without_experiments_is_refused(text):
    message = message_of(write(text))
    one_line_each(message)
    assert "experiments" in message


@pytest.mark.parametrize("name", ["2017", "on", "~", "3.5", '"a\\n"'])
def test_an_experiment_name_that_yaml_does_not_read_as_a_plain_name_is_refused(name):
    message = message_of(write(f"experiments:\n  {name}: {{}}\n"))
    one_line_each(message)
    assert message.startswith("broken.yaml: experiments")


@pytest.mark.parametrize(
    "keys", ["repeats: 3.0", "epochs: [10.0]", "seed: 1.0", "batch_size: 64.0", "step_losses: 5.0"]
)
def test_a_whole_number_with_a_decimal_point_is_an_integer_or_refused(keys):
    """JSON Schema takes 3.0 for an integer; range(1, 4.0) and int('10.0') do not."""
    try:
        config, _ = load_config([Path(write(experiment(keys)))])
    except ConfigError as error:
        one_line_each(str(error))
        assert f"experiments.e.{keys.split(':')[0]}" in str(error)
    else:
        value = config["experiments"]["e"][keys.split(":")[0]]
        assert type(value[0] if isinstance(value, list) else value) is int


@pytest.mark.parametrize("value", [".nan", ".inf"])
def test_a_scale_that_is_no_number_is_refused(value):
    message = message_of(write(experiment(f"input: {{scale: {value}}}")))
    one_line_each(message)
    assert message.startswith("broken.yaml: experiments.e.input.scale: found ")


@pytest.mark.parametrize("crop", ["[24, 24]", "[32, 32]"])
@pytest.mark.parametrize("keys", ["", "recipes: [mnist-mlp-keras], ", "datasets: [digits], "])
def test_a_misfit_is_found_where_recipe_or_dataset_come_from_the_defaults(keys, crop):
    message = message_of(write(experiment(f"{keys}input: {{crop: {crop}}}")))
    one_line_each(message)
    assert "the recipe mnist-mlp-keras does not fit the dataset digits" in message


def test_yaml_merge_keys_work_or_are_refused_in_words():
    """`<<: *anchor` is plain YAML 1.1 that people use to share settings."""
    text = "experiments:\n  a: &a {epochs: [7], seed: 5}\n  b:\n    <<: *a\n    seed: 6\n"
    try:
        config, _ = load_config([Path(write(text))])
    except ConfigError as error:
        assert "line 4" in str(error)
        assert "<<" in str(error), f"the message does not say what is wrong: {error}"
    else:
        assert config["experiments"]["b"]["epochs"] == [7]
        assert config["experiments"]["b"]["seed"] == 6


def test_a_key_twice_beside_a_merge_key_is_still_refused():
    text = "experiments:\n  a: &a {epochs: [7]}\n  b:\n    <<: *a\n    seed: 6\n    seed: 7\n"
    assert message_of(write(text)).startswith("broken.yaml, line ")


# --- files that can't be read -------------------------------------------------------------------------------------


def test_not_utf_8():
    Path("broken.yaml").write_bytes(b"experiments: {e: {description: caf\xe9}}\n")
    assert message_of("broken.yaml") == "broken.yaml: not a text file in UTF-8"


def test_missing_file():
    assert message_of("missing.yaml") == "missing.yaml: there is no such file"


def test_a_folder_in_place_of_a_file():
    Path("broken.yaml").mkdir()
    one_line_each(message_of("broken.yaml"))


def test_a_python_tag_runs_nothing():
    message_of(write("experiments: !!python/object/apply:os.system ['touch owned']\n"))
    assert not Path("owned").exists()


# --- more than one file -------------------------------------------------------------------------------------------


def test_a_later_file_and_the_command_line_take_precedence():
    write("mirror: m\nexperiments: {e: {epochs: [1, 2], repeats: 2, input: {scale: 1, crop: [28, 28]}}}\n", "a.yaml")
    write("experiments: {e: {epochs: [3], input: {scale: 2}}, f: {seed: 4}}\n", "b.yaml")
    files = [Path("a.yaml"), Path("b.yaml")]
    config, _ = load_config(files, {"experiments": {"e": {"input": {"crop": None}, "seed": 9}}})
    assert config["mirror"] == "m"
    assert list(config["experiments"]) == ["e", "f"]
    e, f = config["experiments"]["e"], config["experiments"]["f"]
    assert (e["epochs"], e["repeats"], e["seed"]) == ([3], 2, 9), "a list takes the place of a list, whole"
    assert e["input"] == {"scale": 2, "crop": None}, "mappings are merged key by key"
    assert (f["seed"], f["epochs"]) == (4, [10])


def test_each_finding_names_the_file_that_it_stands_in():
    write("experiments: {e: {epochs: [1, -2], repeat: 2}}\n", "a.yaml")
    write("experiments: {e: {seed: -3}, f: {seed: x}}\n", "b.yaml")
    message = message_of("a.yaml", "b.yaml", overrides={"experiments": {"e": {"repeats": 0}}})
    assert message == (
        f"a.yaml: experiments.e.repeat: unknown key; allowed: {EXPERIMENT_KEYS}; did you mean repeats?\n"
        f"a.yaml: experiments.e.epochs[1]: found -2 (a whole number); allowed: {FROM_1}\n"
        f"--config: experiments.e.repeats: found 0 (a whole number); allowed: {FROM_1}\n"
        f"b.yaml: experiments.e.seed: found -3 (a whole number); allowed: {FROM_0}\n"
        f"b.yaml: experiments.f.seed: found 'x' (text); allowed: {FROM_0}"
    )


def test_a_key_in_both_files_is_blamed_on_the_later_one():
    write("experiments: {e: {epochs: [1, 2]}}\n", "a.yaml")
    write("experiments: {e: {epochs: [0]}}\n", "b.yaml")
    assert message_of("a.yaml", "b.yaml") == (
        f"b.yaml: experiments.e.epochs[0]: found 0 (a whole number); allowed: {FROM_1}"
    )


def test_a_mistake_that_a_later_file_puts_right_is_none():
    write("experiments: {e: {epochs: [0]}}\n", "a.yaml")
    write("experiments: {e: {epochs: [7]}}\n", "b.yaml")
    config, _ = load_config([Path("a.yaml"), Path("b.yaml")])
    assert config["experiments"]["e"]["epochs"] == [7]


def test_a_mistake_on_the_command_line_is_blamed_on_it():
    write("experiments: {e: {}}\n", "a.yaml")
    assert message_of("a.yaml", overrides={"mirror": 3, "epochs": [4]}) == (
        f"--config: epochs: unknown key; allowed: {TOP_KEYS}\n"
        "--config: mirror: found 3 (a whole number); allowed: a folder, a file:// or http(s):// address, or null"
    )


# --- the catalogue ------------------------------------------------------------------------------------------------

FILE = {"name": "a.gz", "sha256": "0" * 64, "urls": ["https://example.org/a.gz"]}
ENTRY = {
    "title": "T", "format": "idx", "image_shape": [1, 28, 28], "classes": 10, "samples": {"train": 2, "test": 1},
    "files": [FILE],
}  # fmt: skip
ENTRY_KEYS = "title, format, embedded_in, classes, image_shape, samples, files"
ENTRY_FORM = "a mapping of title, format, image_shape, classes, samples and either files or embedded_in"


def entry(**changes) -> dict:
    """A catalogue of one right entry, d, with these keys changed; None takes a key away."""
    return {"d": {key: value for key, value in (ENTRY | changes).items() if value is not None}}


def file_entry(**changes) -> dict:
    return entry(files=[{key: value for key, value in (FILE | changes).items() if value is not None}])


CATALOGUES = [
    ("missing key", entry(classes=None), "d: lacks the key classes"),
    ("missing key of a file", file_entry(urls=None), "d.files[0]: lacks the key urls"),
    ("missing split", entry(samples={"train": 3}), "d.samples: lacks the key test"),
    (
        "sha256 too short",
        file_entry(sha256="ABC"),
        "d.files[0].sha256: found 'ABC' (text); allowed: 64 hexadecimal digits in lower case",
    ),
    (
        "sha256 in capitals",
        file_entry(sha256="A" * 64),
        f"d.files[0].sha256: found '{'A' * 56}... (text); allowed: 64 hexadecimal digits in lower case",
    ),
    (
        "file name that leaves the folder",
        file_entry(name="../x"),
        "d.files[0].name: found '../x' (text); allowed: a plain file name, without a folder",
    ),
    (
        "file name with a folder",
        file_entry(name="a/b"),
        "d.files[0].name: found 'a/b' (text); allowed: a plain file name, without a folder",
    ),
    (
        "address that can't be fetched",
        file_entry(urls=["ftp://x"]),
        "d.files[0].urls[0]: found 'ftp://x' (text); allowed: an http(s):// or file:// address",
    ),
    (
        "unknown format, nearest",
        entry(format="idxx"),
        "d.format: found 'idxx' (text); allowed: digits, idx; did you mean idx?",
    ),
    ("unknown format, nothing near", entry(format="zip"), "d.format: found 'zip' (text); allowed: digits, idx"),
    (
        "both of files and embedded_in",
        entry(embedded_in="scikit-learn"),
        f"d: found {{'title': 'T', 'format': 'idx', 'image_shape': [1, 28, 28... (a mapping); allowed: {ENTRY_FORM}",
    ),
    (
        "neither of files and embedded_in",
        entry(files=None),
        f"d: found {{'title': 'T', 'format': 'idx', 'image_shape': [1, 28, 28... (a mapping); allowed: {ENTRY_FORM}",
    ),
    ("no files", entry(files=[]), "d.files: found an empty list; allowed: a list of files"),
    ("unknown key", entry(clases=3), f"d.clases: unknown key; allowed: {ENTRY_KEYS}; did you mean classes?"),
    ("one class", entry(classes=1), "d.classes: found 1 (a whole number); allowed: a whole number, 2 or more"),
    (
        "image_shape of two sides",
        entry(image_shape=[28, 28]),
        "d.image_shape: found [28, 28] (a list); allowed: a list of channels, height and width",
    ),
    (
        "name of an entry",
        {"My Set": ENTRY},
        "top level: found the name 'My Set' (text); allowed: lower-case letters, digits and hyphens, 40 at most",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def schema() -> dict:
    return read_yaml(REPOSITORY / "config" / "schema.yaml")


def catalogue_message(catalogue: dict, schema: dict) -> str:
    with pytest.raises(ConfigError) as caught:
        check_catalogue(copy.deepcopy(catalogue), Path("datasets.yaml"), schema)
    return str(caught.value)


def test_a_right_catalogue_passes(schema):
    assert check_catalogue(entry(), Path("datasets.yaml"), schema) is None


@pytest.mark.parametrize(
    ("catalogue", "expected"), [case[1:] for case in CATALOGUES], ids=[case[0] for case in CATALOGUES]
)
def test_the_whole_message_of_a_broken_catalogue(catalogue, expected, schema):
    message = catalogue_message(catalogue, schema)
    assert message == f"datasets.yaml: {expected}"
    one_line_each(message, "datasets.yaml")


@pytest.mark.parametrize("catalogue", [entry(classes=None, title=None), {"d": None}], ids=["two missing", "null"])
def test_a_finding_in_the_catalogue_is_listed_once(catalogue, schema):
    one_line_each(catalogue_message(catalogue, schema), "datasets.yaml")


@pytest.mark.parametrize(
    "catalogue",
    [{5: ENTRY}, file_entry(sha256="0" * 64 + "\n"), file_entry(name="a.gz\n"), entry(files=[FILE, FILE])],
    ids=["number as a name", "sha256 with a line break", "name with a line break", "the same file twice"],
)
def test_a_catalogue_that_could_not_be_used_is_refused(catalogue, schema):
    assert catalogue_message(catalogue, schema).startswith("datasets.yaml: ")
