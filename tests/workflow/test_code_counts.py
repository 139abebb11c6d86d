"""Library code counts: an edit re-runs what it affects and nothing else, and what is mixed is said to be."""

import re
import shutil
from pathlib import Path

import pytest
from harness import copy_of_repository, edit, snakemake, write_config

CONFIG = {
    "experiments": {
        "edited": {
            "recipes": ["mnist-mlp-flux"],
            "frameworks": ["chainer", "fake-gpu"],
            "devices": ["cpu"],
            "epochs": [2],
            "repeats": 1,
        }
    }
}
ADAPTERS = "workflow/scripts/trainmark/frameworks"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A copy of the repository with a finished experiment in it."""
    folder = copy_of_repository(tmp_path_factory.mktemp("code"))
    shutil.copy(Path(__file__).parent / "example" / "fake_gpu_adapter.py", folder / ADAPTERS)
    (folder / "envs" / "fake-gpu.yaml").write_text("dependencies: [numpy]\n")
    process = snakemake(folder, "--cores", "2", "--configfile", write_config(folder, CONFIG))
    assert process.returncode == 0, process.printed[-5000:]
    return folder


def planned(folder):
    """Jobs that snakemake would run now: of the rules, how many; and the frameworks of the runs."""
    process = snakemake(folder, "-n", "--configfile", "experiment.yaml", "--workflow-profile", "none")
    assert process.returncode == 0, process.printed[-3000:]
    counts = dict(re.findall(r"^(\w+) +(\d+)$", process.stdout, re.MULTILINE))
    counts.pop("total", None)
    frameworks = re.findall(r"^rule train:.*?framework=([\w-]+)", process.stdout, re.MULTILINE | re.DOTALL)
    return {rule: int(count) for rule, count in counts.items()}, sorted(set(frameworks))


@pytest.fixture
def edited(finished):
    """A function that replaces one place in a file of the copy; it is put back after the test."""
    kept = {}

    def replace(name, old, new):
        path = finished / name
        kept.setdefault(path, path.read_text())
        edit(path, old, new)
        return planned(finished)

    yield replace
    for path, text in kept.items():
        path.write_text(text)


def test_nothing_is_to_do_after_the_first_call(finished):
    assert planned(finished) == ({}, [])


def test_the_readmes_plan_has_the_number_of_jobs(finished):
    """With the profile that a user has, whose quiet leaves the numbers out."""
    (line,) = re.findall(r"^snakemake (-n .*)--configfile my.yaml", (finished / "README.md").read_text(), re.MULTILINE)
    process = snakemake(finished, *line.split(), "--configfile", "experiment.yaml", "--forceall")
    assert process.returncode == 0, process.printed[-3000:]
    assert re.search(r"^train +2$", process.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (f"{ADAPTERS}/chainer_layers.py", "# pkg_resources tells everybody", "# It tells everybody"),
        (f"{ADAPTERS}/chainer_adapter.py", '"""See `adapter.Adapter.state`."""', '"""All of it."""'),
        (
            f"{ADAPTERS}/keras_optimizers.py",
            "learning_rate, variable.dtype) * ops",
            "learning_rate, variable.dtype) / ops",
        ),
        ("workflow/scripts/trainmark/training/display.py", '"done, test loss', '"done: test loss'),
        (
            "workflow/scripts/trainmark/recipes/catalogue.py",
            'source="keras examples/mnist',
            'source="the keras examples/mnist',
        ),
        ("workflow/scripts/trainmark/recipes/catalogue.py", "batch_size=128", "batch_size=64"),
        ("workflow/scripts/trainmark/datasets/formats/idx.py", "import", "import math\nimport"),
    ],
    ids=["comment", "docstring", "another adapter", "terminal", "a source", "another recipe", "another format"],
)
def test_an_edit_that_affects_no_result_re_runs_nothing(edited, finished, name, old, new):
    path = finished / name
    if path.read_text().count(old) > 1:  # the first import of a module
        old = path.read_text()[path.read_text().index(old) :]
        new = new + old[len("import") :]
    assert edited(name, old, new) == ({}, [])


def test_an_adapters_edit_re_runs_its_own_runs(edited):
    counts, frameworks = edited(
        f"{ADAPTERS}/chainer_adapter.py", "return np.concatenate(logits)", "return np.vstack(logits)"
    )
    assert (counts["train"], frameworks) == (1, ["chainer"])
    assert not {"prepare_dataset", "compute_mean_image"} & set(counts)


def test_an_edit_of_the_certified_steps_certifies_again_and_trains_nothing(edited):
    """Their traces are gone: both trainers take the steps anew."""
    counts, _ = edited(
        "workflow/scripts/trainmark/parity/certified_steps.py", "CERTIFIED_SAMPLES = 8", "CERTIFIED_SAMPLES = 7"
    )
    assert (counts["trace_training"], counts["certify"], counts["collect_records"]) == (2, 1, 1)
    assert not {"train", "prepare_dataset"} & set(counts)


def test_an_edit_of_how_traces_are_compared_certifies_again(edited):
    counts, _ = edited("workflow/scripts/trainmark/parity/compare.py", '"rounding": 1e-9', '"rounding": 1e-10')
    assert counts["certify"] == 1
    assert "train" not in counts


def test_the_training_loops_edit_re_runs_every_run(edited):
    counts, frameworks = edited(
        "workflow/scripts/trainmark/training/run.py", "CHECKPOINT_SHARE = 0.05", "CHECKPOINT_SHARE = 0.04"
    )
    assert (counts["train"], frameworks) == (2, ["chainer", "fake-gpu"])
    assert not {"prepare_dataset", "compute_mean_image", "certify"} & set(counts)


def test_a_recipes_edit_re_runs_its_runs(edited):
    counts, _ = edited(
        "workflow/scripts/trainmark/recipes/catalogue.py",
        'architecture=mlp.mlp_32,\n            initializer="glorot_uniform"',
        'architecture=mlp.mlp_32,\n            initializer="lecun_normal"',
    )
    assert (counts["train"], counts["certify"]) == (2, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [("published_parameters=25_450", "published_parameters=25_451"), ('source="Flux', 'source="the Flux')],
    ids=["published parameters", "source"],
)
def test_an_edit_of_what_the_report_prints_of_a_recipe_writes_it_anew(edited, old, new):
    assert edited("workflow/scripts/trainmark/recipes/catalogue.py", old, new) == ({"report": 1, "all": 1}, [])


def test_an_edit_of_the_arguments_of_trainers_re_runs_and_certifies_all(edited):
    counts, frameworks = edited(
        "workflow/scripts/trainmark/training/arguments.py",
        '"--seed", type=int, default=1',
        '"--seed", type=int, default=2',
    )
    assert (counts["train"], counts["trace_training"], frameworks) == (2, 2, ["chainer", "fake-gpu"])


def test_a_formats_edit_prepares_again(edited):
    counts, _ = edited(
        "workflow/scripts/trainmark/datasets/formats/digits.py",
        "import numpy as np",
        "import math\n\nimport numpy as np",
    )
    assert counts["prepare_dataset"] == 1


@pytest.mark.parametrize(
    ("module", "rule"),
    [("report/figures", "plot_curves"), ("report/page", "report"), ("tables/tables", "collect_records")],
)
def test_reportings_edit_re_runs_no_training(edited, module, rule):
    name = f"workflow/scripts/trainmark/{module}.py"
    counts, _ = edited(name, "from pathlib import Path\n", "import math\nfrom pathlib import Path\n")
    assert rule in counts
    assert not {"train", "prepare_dataset"} & set(counts)


def test_records_of_different_code_are_said_to_be(finished, edited):
    """Kept by force, the old record stands beside one of new code: table, report and terminal say so."""
    edited("workflow/scripts/trainmark/training/outcome.py", 'kind = "nan" if', 'kind = "nan" if True and')
    more = {"experiments": {"edited": CONFIG["experiments"]["edited"] | {"repeats": 2}}}
    name = write_config(finished, more)
    process = snakemake(finished, "--cores", "2", "--configfile", name, "--rerun-triggers", "mtime", "input")
    assert process.returncode == 0, process.printed[-5000:]
    assert "Different code trained" in process.printed
    assert "trainmark.training.outcome" in process.printed
    assert "Different code trained" in (finished / "results" / "report" / "index.html").read_text()
    header, *rows = (finished / "results" / "tables" / "summary.csv").read_text().splitlines()
    place = header.split(",").index("code_versions")
    assert {row.split(",")[place] for row in rows} == {"2"}
    write_config(finished, CONFIG)
