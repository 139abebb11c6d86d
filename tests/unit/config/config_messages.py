"""Config files that are wrong, and what a person reads then."""

import re
from pathlib import Path

import pytest

from trainmark.config.load import load_config
from trainmark.errors import ConfigError


def write(text: str, name: str = "broken.yaml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def experiment(keys: str) -> str:
    """A config with one experiment, e, of these keys (flow style)."""
    return f"experiments:\n  e: {{{keys}}}\n"


def message_of(*files: str, overrides: dict | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config([Path(file) for file in files], overrides)
    return str(caught.value)


def assert_says(message: str, expected: str, before: str) -> None:
    """The message has the expected lines, each after `before`, and no other, and none twice.

    "…" stands for words up to the next semicolon, such as those of what is allowed; without it the line is held whole.
    A hint ("; did you mean ...") that is lost, or that is not expected, breaks the line. Line numbers of keys are left
    out: test_lines.py is about them.
    """
    lines = [
        re.sub(r"^([\w.]+), line \d+(?=: (?!found |mapping |expected )[^:]+: )", r"\1", line)
        for line in message.splitlines()
    ]
    assert len(set(lines)) == len(lines), "the same finding twice"
    assert len(lines) == expected.count("\n") + 1, message
    for line, words in zip(lines, expected.split("\n"), strict=True):
        assert re.fullmatch(re.escape(before + words).replace("…", "[^;]+"), line), f"{line}\nis not\n{before}{words}"
        assert not re.search(r"[\s:](;|$)", line), "nothing stands where something is announced"
