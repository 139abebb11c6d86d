"""A wrong value is reported with the line in which it stands."""

import os
from pathlib import Path

import pytest
from config_messages import message_of, write

from trainmark.config.load import load_config
from trainmark.config.strict_yaml import line_of
from trainmark.frameworks.registry import known_frameworks

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
        "broken.yaml, line 5: experiments.first.frameworks[1]: found 'pytorch' (text); allowed: "
        f"{', '.join(known_frameworks())}; did you mean torch?",
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


def test_a_file_of_100_mb_is_refused_at_once_and_a_pipe_is_not_waited_for():
    with open("large.yaml", "wb") as file:
        file.truncate(100_000_000)
    assert message_of("large.yaml") == "large.yaml: found 100,000,000 bytes; allowed: at most 1,000,000"
    os.mkfifo("pipe.yaml")
    assert message_of("pipe.yaml") == "pipe.yaml: found no file, but a device or a pipe; allowed: a file"


def test_a_value_of_the_command_line_is_read_as_yaml():
    """Snakemake leaves all within a list or a mapping as text. Such a value has no line."""
    for value, read in {"TRUE": True, "off": False, True: True}.items():
        assert load_config([], {"prepare": ["digits"], "offline": value})[0]["offline"] is read
    assert "found nothing" in message_of(overrides={"prepare": ["digits"], "offline": "null"})
    config, _ = load_config([], {"experiments": {"e": {"epochs": ["1", "2"], "description": ""}}})
    assert config["experiments"]["e"]["epochs"] == [1, 2]
    assert message_of(write("prepare: [digits]"), overrides={"prepare": "3"}).startswith("--config: prepare: found 3")
