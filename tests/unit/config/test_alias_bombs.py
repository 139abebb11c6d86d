"""Aliases of YAML that come to more values than anybody writes are refused at once; honest ones are not."""

import time

import pytest
from config_messages import message_of, write

from trainmark.config.load import load_config

pytestmark = pytest.mark.usefixtures("in_tmp_path")


EXPONENTIAL = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))]
MERGED = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 30))]


@pytest.mark.parametrize(
    "bomb",
    [
        "\n".join(EXPONENTIAL),
        "\n".join(MERGED),
        f"a: &a [{', '.join(['x'] * 2000)}]\nb: [{', '.join(['*a'] * 2000)}]",
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]",
    ],
    ids=["exponential lists", "exponential merges", "quadratic", "long texts"],
)
def test_a_bomb_is_refused_in_a_sentence_and_at_once(bomb):
    start = time.monotonic()
    message = message_of(write(bomb))
    assert message == (
        "broken.yaml, line 1: its values with every alias written out are more than 100,000; allowed: fewer"
    )
    assert time.monotonic() - start < 5


def test_honest_aliases_are_allowed():
    """`<<: *anchor` is plain YAML 1.1 that people use to share settings."""
    shared = "experiments:\n  e: &e {epochs: [1], repeats: 2}\n  f: {<<: *e, repeats: 3}\n"
    config, _ = load_config([write(shared)])
    assert [config["experiments"][name]["repeats"] for name in "ef"] == [2, 3]
    assert config["experiments"]["f"]["epochs"] == [1]
