"""Tables of literals are read from a module without importing it."""

import pytest

from trainmark.files.literals import read_literal


def test_a_table_is_read_without_running_the_module(tmp_path):
    (tmp_path / "module.py").write_text("import missing\nx = TABLE = {'a': (1, None)}\n1 / 0\n")
    assert read_literal(tmp_path / "module.py", "TABLE") == {"a": (1, None)}


@pytest.mark.parametrize("code", ["", "OTHER = {}", "def f():\n    TABLE = {}"])
def test_a_module_without_the_table_is_named(tmp_path, code):
    (tmp_path / "module.py").write_text(code)
    with pytest.raises(LookupError, match=r"module\.py has no table of literals named TABLE at its top level"):
        read_literal(tmp_path / "module.py", "TABLE")
