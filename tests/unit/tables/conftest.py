"""What the tests of tables share."""

import pytest
from records_for_tests import written_tables


@pytest.fixture
def tables_of(tmp_path):
    """A function that gives (records by path, table of the runs) of these records."""
    return lambda *records: written_tables(tmp_path, *records)


@pytest.fixture
def runs_of(tables_of):
    """A function that gives the table of the runs of these records."""
    return lambda *records: tables_of(*records)[1]
