"""Library code counts: an edit re-runs what it affects and nothing else, and what is mixed is said to be."""

import re
import shutil
from pathlib import Path

import pytest
from harness import copy_of_repository, edit, snakemake, write_config

pytestmark = pytest.mark.faults  # whole workflows: a minute that make test has not

CONFIG = {
    "experiments": {
        "edited": {
            "recipes": ["mnist-mlp-flux"],
            "frameworks": ["chainer", "constant"],
            "devices": ["cpu"],
            "epochs": [2],
            "repeats": 1,
        }
    }
}
LIBRARY = "workflow/scripts/trainmark"
ADAPTERS = f"{LIBRARY}/frameworks"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A copy of the repository with a finished experiment in it."""
    folder = copy_of_repository(tmp_path_factory.mktemp("code"))
    shutil.copy(Path(__file__).parent / "example" / "constant_adapter.py", folder / ADAPTERS)
    (folder / "envs" / "constant.yaml").write_text("dependencies: [numpy]\n")
    process = snakemake(folder, "--cores", "2", "--configfile", write_config(folder, CONFIG))
    assert process.returncode == 0, process.printed[-5000:]
    return folder


def planned(folder):
    """Jobs that snakemake would run now: of the rules, how many; and the trainers of the runs."""
    process = snakemake(folder, "-n", "--configfile", "experiment.yaml", "--workflow-profile", "none")
    assert process.returncode == 0, process.printed[-3000:]
    counts = dict(re.findall(r"^(\w+) +(\d+)$", process.stdout, re.MULTILINE))
    counts.pop("total", None)
    trainers = re.findall(r"^rule train:.*?trainer=([\w-]+)", process.stdout, re.MULTILINE | re.DOTALL)
    return {rule: int(count) for rule, count in counts.items()}, sorted(set(trainers))


@pytest.fixture
def edited(finished):
    """A function that replaces places in files of the copy, and plans; they are put back after the test."""
    kept = {}

    def replace(*edits):
        for name, old, new in edits:
            path = finished / name
            kept.setdefault(path, path.read_text())
            edit(path, old, new)
        return planned(finished)

    yield replace
    for path, text in kept.items():
        path.write_text(text)


NO_RESULT = [
    (f"{ADAPTERS}/keras_optimizers.py", "learning_rate, variable.dtype) * ops", "learning_rate, variable.dtype) / ops"),
    (f"{LIBRARY}/training/display.py", "stopped by {signal_name}", "was stopped by {signal_name}"),
    (f"{LIBRARY}/recipes/catalogue.py", 'source="keras examples/mnist', 'source="the keras examples/mnist'),
    (f"{LIBRARY}/recipes/catalogue.py", "batch_size=128", "batch_size=64"),
    (f"{LIBRARY}/datasets/formats/idx.py", "from math import prod", "import math\nfrom math import prod"),
]
"""Edits of another adapter, of what the terminal shows, of other recipes and of another format."""


def test_edits_that_affect_no_result_re_run_nothing(edited):
    assert edited(*NO_RESULT) == ({}, [])


ADAPTER = (f"{ADAPTERS}/chainer_adapter.py", "return np.concatenate(logits)", "return np.vstack(logits)")
COMPARING = (f"{LIBRARY}/parity/compare.py", '"rounding": 1e-9', '"rounding": 1e-10')
FORMAT = (f"{LIBRARY}/datasets/formats/digits.py", "import numpy as np", "import math\n\nimport numpy as np")
REPORTING = {
    module: (
        f"{LIBRARY}/{module}.py", "from pathlib import Path\n", "import math\nfrom pathlib import Path\n"
    )
    for module in ("report/figures/save", "report/page", "tables/tables")
}  # fmt: skip


def test_an_adapters_edit_re_runs_its_own_runs(edited):
    counts, trainers = edited(ADAPTER)
    assert (counts["train"], trainers) == (1, ["chainer-cpu"])
    assert not {"prepare_dataset", "compute_mean_image"} & set(counts)


def test_a_recipes_edit_re_runs_its_runs(edited):
    counts, _ = edited(
        (
            f"{LIBRARY}/recipes/catalogue.py",
            'architecture=mlp.mlp_32,\n            initializer="glorot_uniform"',
            'architecture=mlp.mlp_32,\n            initializer="lecun_normal"',
        )
    )
    assert (counts["train"], counts["certify"]) == (2, 1)


def test_an_edit_of_what_the_report_prints_of_a_recipe_writes_it_anew(edited):
    found = edited(
        (f"{LIBRARY}/recipes/catalogue.py", 'source="FluxML model-zoo vision/mnist/mlp.jl"', 'source="another"')
    )
    assert found == ({"report": 1, "all": 1}, [])


def test_an_option_of_figures_draws_them_again_and_nothing_else(edited):
    found = edited(("experiment.yaml", "experiments:", "figures: {font: Liberation Sans}\nexperiments:"))
    assert found == ({"plot_figures": 1, "report": 1, "all": 1}, [])


OF_RULES = {
    "datasets/digits/prepared": FORMAT,
    "certificates/edited/mnist-mlp-flux/digits.json": COMPARING,
    "tables/summary.csv": REPORTING["tables/tables"],
    "figures/edited/mnist-mlp-flux/digits/loss.svg": REPORTING["report/figures/save"],
    "report/index.html": REPORTING["report/page"],
}


def test_each_rule_has_its_code_as_a_parameter(edited, finished):
    """Which edits are of which code: below."""
    edited(*OF_RULES.values())
    process = snakemake(finished, "--list-changes", "params", "--configfile", "experiment.yaml")
    changed = process.stdout.split()
    assert {f"results/{file}" for file in OF_RULES} <= set(changed), process.printed
    assert "results/datasets/digits/mean.npy" not in changed
