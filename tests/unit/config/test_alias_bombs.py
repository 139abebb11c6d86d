"""Aliases of YAML that come to more values than anybody writes are refused at once; honest ones are not."""

import time

import pytest
from config_messages import message_of, write

from trainmark.config.load import load_config

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def exponential(item: str, levels: int = 30) -> str:
    """A document whose keys each hold the one before ten times."""
    lines = ["a0: &a0 [x, x]" if item == "list" else "a0: &a0 {x: 1}"]
    for level in range(1, levels):
        before = [f"*a{level - 1}"] * 10
        held = {
            "list": f"[{', '.join(before)}]",
            "mapping": f"{{{', '.join(f'k{i}: {name}' for i, name in enumerate(before))}}}",
            "merge": f"{{<<: [{', '.join(before)}]}}",
        }[item]
        lines.append(f"a{level}: &a{level} {held}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "bomb",
    [
        exponential("list"),
        exponential("mapping"),
        exponential("merge"),
        f"a: &a [{', '.join(['x'] * 2000)}]\nb: [{', '.join(['*a'] * 2000)}]",
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]",
    ],
    ids=["exponential lists", "exponential mappings", "exponential merges", "quadratic", "long texts"],
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
