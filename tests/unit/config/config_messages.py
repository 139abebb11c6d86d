"""Config files that are wrong, and what a person reads then."""

from pathlib import Path

import pytest

from trainmark.config.load import load_config
from trainmark.errors import ConfigError


def write(text: str, name: str = "broken.yaml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def message_of(*files: str, overrides: dict | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config([Path(file) for file in files], overrides)
    return str(caught.value)


def one_line_each(message: str, file: str = "broken.yaml") -> None:
    """Each line names the file, and none is a traceback, ends in nothing or stands there twice."""
    lines = message.splitlines()
    assert lines
    assert len(set(lines)) == len(lines), "the same finding twice"
    for line in lines:
        assert line.startswith((f"{file}: ", f"{file}, line "))
        assert "Traceback" not in line
        assert line == line.rstrip() and not line.endswith((":", "allowed:", ";"))
