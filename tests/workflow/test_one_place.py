"""What CONTRIBUTING promises: a framework, a network and a dataset are each added by touching one place.

In a copy of the repository all three are added, and the whole workflow runs with them.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from harness import copy_of_repository, edit, environment, write_config

from trainmark.parity.certificate import read_certificate
from trainmark.records.record import read_record

NETWORK = '''"""A new network."""

from trainmark.networks.graph import Architecture, Shape, chain


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

DATASET = """
digits-32:
  title: The digits, larger
  format: digits
  embedded_in: scikit-learn
  image_shape: [1, 32, 32]
  classes: 10
  samples: {train: 1438, test: 359}
"""


@pytest.fixture
def extended(tmp_path):
    """A copy of the repository with a framework, a network and a dataset added."""
    copy = copy_of_repository(tmp_path / "copy")
    library = copy / "workflow" / "scripts" / "trainmark"
    example = Path(__file__).parent / "example" / "numpy_adapter.py"
    shutil.copy(example, library / "frameworks")
    (copy / "envs" / "numpy.yaml").write_text("dependencies: [numpy]\n")
    (library / "networks" / "zoo" / "linear.py").write_text(NETWORK)
    edit(library / "recipes" / "catalogue.py", "imdb_cnn, mlp,", "imdb_cnn, linear, mlp,")
    edit(library / "recipes" / "catalogue.py", "    for recipe in (\n", f"    for recipe in ({RECIPE}")
    with open(copy / "config" / "datasets.yaml", "a") as catalogue:
        catalogue.write(DATASET)
    return copy


def test_added_framework_network_and_dataset_run_through(extended):
    config = {
        "experiments": {
            "new": {
                "recipes": ["linear"],
                "datasets": ["digits-32"],
                "frameworks": ["numpy", "chainer"],
                "devices": ["cpu"],
                "epochs": [2],
                "repeats": 1,
                "input": {"crop": [28, 28], "subtract_mean": True},
            }
        }
    }
    command = ["snakemake", "--cores", "2", "--configfile", write_config(extended, config)]
    here = environment(PYTHONPATH=str(extended / "tests"))
    process = subprocess.run(command, cwd=extended, env=here, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-5000:]
    folder = extended / "results" / "runs" / "new" / "linear" / "digits-32"
    first, second = (
        read_record(folder / name / "cpu" / "epochs-2" / "repeat-1" / "record.json") for name in ("numpy", "chainer")
    )
    assert first["settings"]["parameters"] == 7850
    assert first["step_losses"] == pytest.approx(second["step_losses"], rel=1e-5)
    assert first["result"]["test_accuracy"] > 0.5
    certificate = read_certificate(extended / "results" / "certificates" / "new" / "linear" / "digits-32.json")
    assert [pair["parity"] for pair in certificate["pairs"]] == ["rounding"]
    assert "digits-32" in (extended / "results" / "report" / "index.html").read_text()
