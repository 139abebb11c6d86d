"""What the tests of configs share."""

import pytest


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    """Messages name the file as it was given: relative, so that they are the same everywhere."""
    monkeypatch.chdir(tmp_path)
