"""What the tests of configs share."""

import pytest

from trainmark.config.load import REPOSITORY, read_yaml


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    """Messages name the file as it was given: relative, so that they are the same everywhere."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def schema() -> dict:
    return read_yaml(REPOSITORY / "config" / "schema.yaml")
