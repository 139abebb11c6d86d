"""What CONTRIBUTING promises: how many places each kind of extension touches.

In a copy of the repository one of each kind is added, by these places and no others, and the workflow runs with them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from harness import (
    REPOSITORY,
    copy_of_repository,
    edit,
    environment,
    experiment_of,
    files_of,
    keyed,
    record_file,
    write_config,
)

from trainmark.parity.certificate import read_certificate
from trainmark.records.step_losses import step_losses

pytestmark = pytest.mark.faults  # whole workflows: minutes that make test has not

LIBRARY = "workflow/scripts/trainmark"
SCHEMA = "config/schema.yaml"

NETWORK = '''"""A new network."""

from trainmark.networks.graph import Architecture, chain
from trainmark.networks.ops import Shape


def linear(input_shape: Shape, classes: int) -> Architecture:
    """One layer, no hidden one."""
    return chain("linear", input_shape, [("flatten", "Flatten", {}), ("dense1", "Dense", {"units": classes})])
'''

RECIPE = """
        Recipe(
            name="linear",
            architecture=linear.linear,
            initializer="glorot_uniform",
            optimizer=Optimizer("sgd", 0.1),
            **_mnist(batch_size=50, published_parameters=7_850, source="a test"),
        ),
"""

FORMAT = '''"""A new format: the digits of another format, larger."""

from trainmark.datasets.formats import digits

FORMAT = {"kind": "images", "required": ["embedded_in", "image_shape", "classes", "samples"], "optional": []}


def read(folders, entry):
    """The images and labels of each split."""
    return digits.read(folders, entry)
'''

DATASET = """
digits-32:
  title: The digits, larger
  format: larger_digits
  embedded_in: scikit-learn
  image_shape: [1, 32, 32]
  classes: 10
  samples: {train: 1438, test: 359}
"""

SETTING = """\
      remark:
        decides: record
        description: A line that a run prints to its log.
        type: string
        allowed: text
        unit: none
        default: none given
      seed:
        decides: training
"""


FIGURE = '''

def draw_accuracies(data: Data) -> Figure:
    """Final accuracies, a dot for each run."""
    figure = Figure()
    figure.subplots().plot(data.runs["test_accuracy"], "o")
    return figure
'''

PROFILE = """\
cores: 2
quiet: [rules, progress, host, reason]
nolock: true
"""

MOON = """\
MOON = replace(
    SLURM,
    title="Moon",
    submit=("moonsub",),
    options={"runtime": "--minutes {runtime}", "threads": "--cpus {threads}", "mem_mb": "--mib {mem_mb}", "more": RAW},
    defaults={"jobname": "trainmark"},
)

SCHEDULERS = {"""

EXTENSIONS = {
    "setting": {
        SCHEMA: ("      seed:\n        decides: training\n", SETTING),
        f"{LIBRARY}/training/run.py": (
            "            diverged = self._train_epochs(on_epoch)\n",
            '            print(self.settings["remark"])\n            diverged = self._train_epochs(on_epoch)\n',
        ),
    },
    "framework": {
        name: files_of("your_own.md")[name] for name in (f"{LIBRARY}/frameworks/numpy_adapter.py", "envs/numpy.yaml")
    },
    "network": {
        f"{LIBRARY}/networks/zoo/linear.py": NETWORK,
        f"{LIBRARY}/recipes/catalogue.py": ("    for recipe in (\n", f"    for recipe in ({RECIPE}"),
    },
    "dataset": {"config/datasets.yaml": DATASET},
    "format": {f"{LIBRARY}/datasets/formats/larger_digits.py": FORMAT},
    "cluster": {"profiles/test-site/config.yaml": PROFILE},
    "scheduler": {
        f"{LIBRARY}/cluster/schedulers.py": (
            '"tsubame": TSUBAME}',
            '"tsubame": TSUBAME, "moon": MOON}',
            "SCHEDULERS = {",
            MOON,
        ),
        "profiles/moon/config.yaml": "executor: trainmark\ntrainmark-scheduler: moon\njobs: 9\ncores: 2\n",
    },
    "figure": {f"{LIBRARY}/report/figures/curves.py": FIGURE},
    "metric": {
        f"{LIBRARY}/tables/metrics.py": (
            "METRICS = {\n",
            'METRICS = {\n    "queued": Metric("queued, s", "s", "phases_seconds.device_wait"),\n',
        )
    },
}
"""By kind, what is added, by file: texts in place of others, or what is written at a file's end."""


AT_MOST = dict.fromkeys(EXTENSIONS, 2) | {"setting": 3}
"""Places, the test of a setting among them."""


def extend(copy: Path) -> None:
    """Add one of each kind to a copy of the repository."""
    edit(copy / LIBRARY / "recipes" / "catalogue.py", "imdb_cnn, mlp,", "imdb_cnn, linear, mlp,")
    for places in EXTENSIONS.values():
        for name, change in places.items():
            path = copy / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(change, tuple):
                for old, new in zip(change[::2], change[1::2], strict=True):
                    edit(path, old, new)
            else:
                path.write_text((path.read_text() if path.exists() else "") + change)


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_contributing_states_the_number_of_places(kind):
    table = (REPOSITORY / "CONTRIBUTING.md").read_text()
    (stated,) = re.findall(rf"^\| a {kind} \| (\d) \|", table, re.MULTILINE)
    tests = 1 if kind == "setting" else 0
    assert int(stated) == len(EXTENSIONS[kind]) + tests <= AT_MOST[kind]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of the extended copy, run with the profile that was added."""
    copy = copy_of_repository(tmp_path_factory.mktemp("one-place") / "copy")
    extend(copy)
    config = {
        "experiments": {
            "new": experiment_of(
                recipes=["linear"],
                datasets=["digits-32"],
                frameworks=["numpy", "chainer"],
                epochs=[2],
                remark="seen in the log",
                input={"crop": [28, 28], "subtract_mean": True},
            ),
        }
    }
    command = ["snakemake", "--workflow-profile", "profiles/test-site", "--configfile", write_config(copy, config)]
    here = environment(PYTHONPATH=str(copy / "tests"))
    process = subprocess.run(command, cwd=copy, env=here, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-5000:]
    return copy / "results"


def read_json(path):
    """Without the schema of this repository, which lacks what was added to that of the copy."""
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def records(results):
    runs = (f"new/linear/digits-32/{name}-cpu/epochs-2/repeat-1" for name in ("numpy", "chainer"))
    return [read_json(record_file(results.parent, run)) for run in runs]


def test_an_added_framework_network_dataset_and_format_train(results, records):
    assert records[0]["network"]["parameters"] == 7850
    losses = [list(step_losses(one["curves"][0])) for one in records]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert records[0]["result"]["test_accuracy"] > 0.5
    certificate = read_certificate(keyed(results.parent, "certificates/new/linear/digits-32/*.json"))
    assert [pair["parity"] for pair in certificate["pairs"]] == ["rounding"]


@pytest.mark.parametrize(
    "command",
    [
        "ruff check .",
        "lint-imports --no-cache",
        "python -m pytest -q -p no:cacheprovider tests/unit/cluster",
    ],
)
def test_what_was_added_passes_style_imports_and_the_tests_of_clusters(results, command):
    copy = results.parent
    here = environment(PYTHONPATH=str(copy / "workflow/scripts"))
    done = subprocess.run(command.split(), cwd=copy, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


SUBMIT_COMMAND = """
from trainmark.cluster.jobs import Job, submit_command, values_of
from trainmark.cluster.site import Site, scheduler_of
job = Job("train", ("a",), 2, {"mem_mb": 4000, "runtime": 240})
moon = scheduler_of("moon")
print(*submit_command(values_of(job, moon, Site()), moon))
"""


def test_an_added_scheduler_gets_the_jobs_and_its_site_file_is_checked(results):
    copy = results.parent
    here = environment(PYTHONPATH=str(copy / "workflow/scripts"))
    command = [sys.executable, "-c", SUBMIT_COMMAND]
    shown = subprocess.run(command, cwd=copy, env=here, capture_output=True, text=True, check=False)
    assert re.search(r"^moonsub --minutes 240 --cpus 2 --mib 4000", shown.stdout), shown.stderr
    (copy / "config" / "site.yaml").write_text("options: {all: {queue: q}}\n")
    command = [sys.executable, "workflow/scripts/validate.py", "--profile", "moon"]
    refused = subprocess.run(command, cwd=copy, env=environment(), capture_output=True, text=True, check=False)
    assert (
        "Moon has no value queue" in refused.stderr and "any other option of moonsub goes into more" in refused.stderr
    )


def test_an_added_setting_is_in_the_log_the_record_and_the_report(results, records):
    assert [record["settings"]["remark"] for record in records] == ["seen in the log"] * 2
    log = keyed(results.parent, f"logs/train/{records[0]['run']['id']}/*.log")
    assert "seen in the log" in log.read_text()
    assert "<dt>remark</dt><dd>seen in the log</dd>" in (results / "report" / "index.html").read_text()


def test_an_added_figure_is_drawn_and_stands_in_the_report_with_its_caption(results):
    folder = results / "figures" / "new" / "linear" / "digits-32"
    assert {file.name for file in folder.glob("accuracies.*")} == {
        f"accuracies.{kind}" for kind in ("pdf", "svg", "png", "caption.txt", "caption.tex", "details.tex")
    }
    assert "Final accuracies, a dot for each run." in (results / "report" / "index.html").read_text()


def test_an_added_metric_is_in_the_numbers_and_the_report(results, records):
    numbers = pd.read_csv(results / "tables" / "numbers.csv").query("metric == 'queued' and experiment == 'new'")
    assert numbers["value"].tolist() == pytest.approx([one["phases_seconds"]["device_wait"] for one in records])
    assert "queued, s" in (results / "report" / "index.html").read_text()
