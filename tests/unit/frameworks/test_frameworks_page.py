"""docs/frameworks.md: every row names an existing test, and every test of a difference has a row."""

import re

import pytest
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


NOT_LISTED = {
    "Flax": {"GivenDropout", "Mask", "Network"},  # for certificates, and what consists of layers
    "Keras": {"GivenDropout"},
    "torch": {
        "Operation", "TakesOneValue", "Network", "Counted", "OwnRule",  # parts of others
        "SGD", "RMSprop", "AdamAlgorithm1",  # torch's own, counted
    },
}  # fmt: skip
"""By library, the classes of its layers, rules and losses that compute what the library's own do."""


@pytest.mark.parametrize("library", NOT_LISTED)
def test_own_layers_and_rules_are_listed(library):
    folder = REPOSITORY / "workflow" / "scripts" / "trainmark" / "frameworks"
    files = [folder / f"{library.lower()}_{part}.py" for part in ("layers", "optimizers", "losses")]
    texts = [file.read_text() for file in files if file.exists()]
    own = set(re.findall(r"^class ([A-Z]\w+)", "\n".join(texts), re.MULTILINE))
    section = PAGE.split("## Own layers")[1].split("##")[0]
    listed = re.search(rf"^- {library}:(.*?)(?=^- |^$)", section, re.MULTILINE | re.DOTALL)[1]
    assert own - NOT_LISTED[library] == set(re.findall(r"`([A-Z]\w+)`", listed))
