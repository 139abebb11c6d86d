"""A wrong value is reported with the line in which it stands."""

import os
from pathlib import Path

import pytest
from config_messages import message_of, write

from trainmark.config.load import load_config
from trainmark.config.strict_yaml import line_of

pytestmark = pytest.mark.usefixtures("in_tmp_path")

TEXT = """\
# what we compare
experiments:
  first:
    frameworks: [chainer,
                 pytorch]
    <<: {seed: 3}
    devices:
      - cpu
      - cuda
"""


def test_each_wrong_value_has_its_line_and_the_name_that_is_meant():
    lines = message_of(write(TEXT)).splitlines()
    assert lines == [
        "broken.yaml, line 5: experiments.first.frameworks[1]: found 'pytorch' (text); allowed: chainer, "
        "keras-tensorflow, keras-jax, keras-torch; did you mean keras-torch?",
        "broken.yaml, line 9: experiments.first.devices[1]: found 'cuda' (text); allowed: cpu, gpu; did you mean gpu?",
    ]


def test_the_line_of_a_key():
    lines = {
        ("experiments", "first", "epochs"): 3,  # a key that is missing: where its mapping begins
        ("experiments", "first", "frameworks", 0): 4,
        ("experiments", "first", "frameworks", 9): 4,
        ("experiments", "first", "frameworks", "x"): 4,
        ("experiments", "first", "seed"): 3,  # from a merge
        ("prepare",): None,
    }
    file = Path(write(TEXT))
    assert {path: line_of(file, path) for path in lines} == lines


# --- sizes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("batch_size: 1439", "found 1439, but"),
        (
            "recipes: [mnist-mlp-chainer], datasets: [few]",
            "found 100, the batch size of the recipe mnist-mlp-chainer, but",
        ),
    ],
)
def test_a_batch_is_no_larger_than_the_training_set(keys, found):
    entry = "title: Few, format: synthetic, image_shape: [1, 28, 28], classes: 2, seed: 1, samples: {train: 9, test: 2}"
    few = f"datasets: {{few: {{{entry}}}}}"
    name, samples = ("few", 9) if "few" in keys else ("digits", 1438)
    assert message_of(write(f"{few}\nexperiments:\n  e: {{{keys}}}\n")).partition(": experiments.")[2] == (
        f"e.batch_size: {found} the dataset {name} has {samples} training samples; allowed: full, or a whole number, "
        f"1 to {samples}"
    )


def test_a_file_of_100_mb_is_refused_at_once():
    with open("large.yaml", "wb") as file:
        file.truncate(100_000_000)
    assert message_of("large.yaml") == "large.yaml: found 100,000,000 bytes; allowed: at most 1,000,000"


def test_a_pipe_is_refused_and_not_waited_for():
    os.mkfifo("pipe.yaml")
    assert message_of("pipe.yaml") == "pipe.yaml: found no file, but a device or a pipe; allowed: a file"


@pytest.mark.parametrize(("value", "read"), [("TRUE", True), ("off", False), (True, True), ("null", None)])
def test_a_value_of_the_command_line_is_read_as_yaml(value, read):
    overrides = {"prepare": ["digits"], "offline": value}
    if read is None:
        assert "found nothing" in message_of(overrides=overrides)
    else:
        assert load_config([], overrides)[0]["offline"] is read


def test_numbers_in_an_experiment_of_the_command_line():
    """Snakemake leaves all within a list or a mapping as text. Such a value has no line."""
    config, _ = load_config([], {"experiments": {"e": {"epochs": ["1", "2"], "description": ""}}})
    assert config["experiments"]["e"]["epochs"] == [1, 2]
    assert message_of(write("prepare: [digits]"), overrides={"prepare": "3"}).startswith("--config: prepare: found 3")
