"""docs/frameworks.md: every row names an existing test, and every test of a difference has a row."""

import re

from harness import REPOSITORY

PAGE = (REPOSITORY / "docs" / "frameworks.md").read_text()
TESTS = REPOSITORY / "tests"
DIFFERENCES = [
    *sorted((TESTS / "contract").glob("*_differences_suite.py")), TESTS / "unit/frameworks/test_chainer_differences.py",
]  # fmt: skip
OTHERS = [
    TESTS / name
    for name in (
        "contract/contract_suite.py", "unit/networks/test_reference_networks.py", "unit/recipes/test_update_rules.py",
        "unit/frameworks/test_chainer_fused.py", "contract/gpu_path_suite.py",
    )
]  # fmt: skip


def names_in(*files):
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}


def test_every_row_of_the_table_names_a_test():
    lines = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("|---", "| what "))]
    assert len(lines) > 20
    assert [line for line in lines if not re.search(r"`test_\w+`", line)] == []


def test_every_named_test_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named - names_in(*DIFFERENCES, *OTHERS) == set()


def test_every_tested_difference_is_listed():
    assert names_in(*DIFFERENCES) - set(re.findall(r"`(test_\w+)`", PAGE)) == set()
