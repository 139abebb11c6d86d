"""What tests of several formats share."""

import pytest

from trainmark.datasets.samples import Folders


@pytest.fixture
def folders(tmp_path) -> Folders:
    """Folders of a dataset that do not exist yet."""
    return Folders(tmp_path / "raw", tmp_path / "unpacked")
