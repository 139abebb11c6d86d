"""Errors in runs alone, which no certificate can see: comparing the runs refuses them.

Each fault is in the Chainer of a copy of the repository, and only in train.py.
"""

import pytest
from harness import REPOSITORY, copy_of_repository, snakemake, write_config

from trainmark.tables.numbers import read_numbers

pytestmark = [pytest.mark.adversary, pytest.mark.timeout(1200)]

EXPERIMENT = {
    "recipes": ["mnist-mlp-flux"],
    "datasets": ["digits"],
    "frameworks": ["chainer", "keras-jax"],
    "devices": ["cpu"],
    "epochs": [2],
    "repeats": 1,
}

IN_RUNS_ALONE = """
import sys as _sys
from pathlib import Path as _Path

if _Path(_sys.argv[0]).name == "train.py":
    from faulty_trainings import FAULTS as _FAULTS

    _create = create

    def create(framework, threads):
        adapter = _create(framework, threads)
        _FAULTS[{faults!r}[_sys.argv[_sys.argv.index("--run") + 1].split("/")[0]]](adapter)
        return adapter
"""


def ran_with(folder, faults, *arguments, experiments=None):
    """Run a workflow whose Chainer has a fault only in train.py, where no certificate can see it.

    faults: the name of a fault by that of an experiment. experiments: changes of EXPERIMENT by its name.
    """
    copy_of_repository(folder)
    adapter = folder / "workflow/scripts/trainmark/frameworks/chainer_adapter.py"
    adapter.write_text(adapter.read_text() + IN_RUNS_ALONE.format(faults=faults))
    changes = experiments or {}
    config = write_config(folder, {"experiments": {name: EXPERIMENT | changes.get(name, {}) for name in faults}})
    imported = {"PYTHONPATH": str(REPOSITORY / "tests" / "adversary")}
    return snakemake(folder, "--cores", "2", "--configfile", config, *arguments, **imported)


@pytest.mark.parametrize(
    ("name", "recipe", "reason"),
    [
        (
            "evaluation on 100 samples",
            "mnist-mlp-flux",
            "different: numpy replayed epoch ",
        ),
        ("inputs 1 % larger", "mnist-mlp-flux", "different: the first losses of the runs victim/"),
        ("inputs 1 % larger", "mnist-mlp-keras", "different: the test losses before training of the runs victim/"),
    ],
)
def test_an_error_in_runs_only_is_refused_by_comparing_the_runs(tmp_path, name, recipe, reason):
    process = ran_with(tmp_path, {"victim": name}, experiments={"victim": {"recipes": [recipe]}})
    assert process.returncode == 0, process.printed[-3000:]
    table = read_numbers(tmp_path / "results/tables/numbers.csv").query("statistic == 'ratio'")
    assert set(table["verdict"]) == {"refused: different"}
    found = table["reason"].iloc[0]
    assert table["reason"].str.startswith(reason).all(), found
    page = (tmp_path / "results/report/index.html").read_text()
    assert reason in page
    assert f"Not to be ranked:\n  chainer on cpu and keras-jax on cpu: {found}" in process.printed


def test_a_run_with_wrong_counts_fails_with_a_sentence(tmp_path):
    process = ran_with(tmp_path, {"victim": "counts one update too few"})
    assert process.returncode != 0
    assert "failed: the framework counted" in process.printed
    assert "updates instead of" in process.printed
    assert not list(tmp_path.glob("results/runs/victim/mnist-mlp-flux/digits/chainer-*/**/record.json"))
