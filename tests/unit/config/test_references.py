"""The published results: those that are shipped hold, and a wrong file is refused with its path and what is wrong."""

import pytest
import yaml
from harness import REPOSITORY

from trainmark.config.references import read_references
from trainmark.errors import ConfigError
from trainmark.recipes.catalogue import RECIPES

ENTRY = {
    "name": "a", "recipe": "mnist-mlp-flux", "dataset": "mnist", "hardware": "h", "year": 2017, "source": "s",
    "decimals": 4,
    "results": [{"epochs": 1, "test_loss": 0.5}],
}  # fmt: skip


def test_every_reference_is_one_of_a_recipe_and_a_dataset():
    datasets = yaml.safe_load((REPOSITORY / "config" / "datasets.yaml").read_text())
    found = read_references()
    assert {one["recipe"] for one in found} <= RECIPES.keys()
    assert all(one["dataset"] in str(datasets) for one in found)
    names = [(one["recipe"], one["dataset"], one["name"]) for one in found]
    assert len(set(names)) == len(names)
    prefixes = [(a, b) for a in names for b in names if a is not b and a[:2] == b[:2] and a[2].startswith(b[2])]
    assert prefixes == [], "a note finds an entry by the beginning of its label"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"yeer": 2017}, "references\\[0\\] must not contain {'yeer'} properties"),
        ({"results": [{"epochs": 1, "test_accuracy": 98.5}]}, "test_accuracy must be smaller than or equal to 1"),
        ({"source": ...}, "must contain \\['source'\\] properties"),
    ],
)
def test_a_wrong_entry_is_refused(tmp_path, change, found):
    entry = {key: value for key, value in (ENTRY | change).items() if value is not ...}
    file = tmp_path / "references.yaml"
    file.write_text(yaml.safe_dump({"references": [entry]}))
    with pytest.raises(ConfigError, match=found) as raised:
        read_references(file)
    assert str(file) in str(raised.value)
