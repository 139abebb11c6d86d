"""The mirror of a config, or of the environment, is checked before anything is fetched."""

from pathlib import Path

import pytest
from config_messages import message_of, write

from trainmark.config.load import load_config

pytestmark = pytest.mark.usefixtures("in_tmp_path")

EXPERIMENTS = "experiments: {e: {}}\n"


def load(text: str, **options) -> dict:
    return load_config([Path(write(text, "a.yaml"))], **options)[0]


def refusal(text: str) -> str:
    return message_of(write(text, "a.yaml"))


@pytest.mark.parametrize("mirror", ["m", "./m", "~/m", "https://user:pw@mirror.invalid/data?sig=key"])
def test_a_mirror_that_files_may_be_fetched_from(monkeypatch, tmp_path, mirror):
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("m").mkdir()
    assert load(f"mirror: {mirror}\n{EXPERIMENTS}")["mirror"] == mirror
    monkeypatch.setenv("TRAINMARK_MIRROR", mirror)
    assert load(EXPERIMENTS)["mirror"] is None


@pytest.mark.parametrize(
    ("mirror", "found"),
    [
        ("nowhere", "found nowhere, which is not an existing folder in {folder}"),
        ("ftp://user:pw@example.org/data?sig=key", "found ftp://example.org/data, an address with an unknown scheme"),
    ],
)
def test_a_mirror_that_is_none(monkeypatch, mirror, found):
    expected = f"{found.format(folder=Path.cwd())}; allowed: a folder, or a file://, http:// or https:// address"
    assert refusal(f"mirror: {mirror}\n{EXPERIMENTS}") == f"a.yaml, line 1: mirror: {expected}"
    monkeypatch.setenv("TRAINMARK_MIRROR", mirror)
    assert refusal(EXPERIMENTS) == f"TRAINMARK_MIRROR: {expected}"


def test_what_does_not_count(monkeypatch):
    """The environment beside a config that names a mirror, or if it is empty; and all where nothing is fetched."""
    monkeypatch.setenv("TRAINMARK_MIRROR", "nowhere")
    Path("m").mkdir()
    assert load(f"mirror: m\n{EXPERIMENTS}")["mirror"] == "m"
    assert load(f"mirror: nowhere\n{EXPERIMENTS}", fetches=False)["mirror"] == "nowhere"
    monkeypatch.setenv("TRAINMARK_MIRROR", "")
    assert load(EXPERIMENTS)["mirror"] is None
