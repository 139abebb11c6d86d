"""A wrong value is reported with the line in which it stands."""

from pathlib import Path

import pytest
from config_messages import message_of, write

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


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("experiments", "first", "epochs"), 3),  # a key that is missing: where its mapping begins
        (("experiments", "first", "frameworks", 0), 4),
        (("experiments", "first", "seed"), 3),  # from a merge
        (("prepare",), None),
        ((), None),
    ],
)
def test_the_line_of_a_key(path, line):
    assert line_of(Path(write(TEXT)), path) == line


def test_a_value_of_the_command_line_has_no_line():
    assert message_of(write("prepare: [digits]"), overrides={"prepare": 3}).startswith("--config: prepare: found 3")
