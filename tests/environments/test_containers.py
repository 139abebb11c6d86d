"""--sdm apptainer: images are built from envs/, each rule runs in its own, and computes what the venv does.

Podman builds and runs them; tests/stand_in_apptainer takes the place of `apptainer`. BASE names a base image on this
machine, where the one that envs/Dockerfile names can't be pulled.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from harness import REPOSITORY, calling, copy_of_repository, environment, finish, on_path, write_config
from same_results import compare, records_of

pytestmark = [
    pytest.mark.environments,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the results are compared with those of envs/"),
]
EXPERIMENT = {
    "frameworks": ["chainer", "keras-jax"],
    "devices": ["cpu"],
    "epochs": [2],
    "repeats": 1,
    "keep_weights": True,
    "commands": {
        "somebodys": {
            "command": """python -c "import time; [print('loss', n) or time.sleep(0.1) for n in (2, 1)]" """,
            "environment": "data",
            "metrics": {"format": "regex", "pattern": r"loss (?P<loss>\d)"},
        }
    },
}
ENVIRONMENTS = ["chainer", "keras-jax", "data", "report"]
STAND_IN = REPOSITORY / "tests" / "stand_in_apptainer" / "apptainer.py"


@pytest.fixture(scope="module")
def base():
    """The base image. Skips where this machine can't have it, or can't run it."""
    (named,) = re.findall(r"^ARG BASE=(.*)", (REPOSITORY / "envs" / "Dockerfile").read_text(), re.MULTILINE)
    image = os.environ.get("BASE") or named
    if not shutil.which("podman"):
        pytest.skip("Podman is not installed")
    done = subprocess.run(
        ["podman", "run", "--rm", image, "python3", "-V"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"Podman can't run {image}: {done.stderr.strip().splitlines()[-1]}")
    return image


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The PATH on which the stand-in is."""
    return on_path(tmp_path_factory.mktemp("stand-in"), calling(STAND_IN), "apptainer")


@pytest.fixture(scope="module")
def clone(tmp_path_factory, base, path):
    """A copy of the repository with the images of the experiment's environments."""
    copy = copy_of_repository(tmp_path_factory.mktemp("containers") / "clone")
    command = ["sh", "envs/build_images.sh", *ENVIRONMENTS]
    done = subprocess.run(
        command, cwd=copy, env=environment(PATH=path, BASE=base), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return copy


def test_the_curves_equal_those_of_the_venv_and_each_record_names_its_image(clone, path, tmp_path):
    name = write_config(clone, {"experiments": {"small": EXPERIMENT}})
    finish(clone, "--sdm", "apptainer", "--cores", "2", "--configfile", name, PATH=path, PYTHONPATH="/nowhere")
    finish(tmp_path, "results/tables/summary.txt", "--cores", "2", "--configfile", clone / name)
    assert "3 runs: curves and weights are equal" in compare(tmp_path / "results", clone / "results")
    images = yaml.safe_load((clone / "envs" / "images.yaml").read_text())
    assert images.keys() == {*ENVIRONMENTS}
    for record in records_of(clone / "results").values():
        image = record["provenance"]["environment"]
        assert image["kind"] == "container"
        name = "data" if record["run"]["framework"] == "command" else record["run"]["framework"]
        assert image["image_digest"] == re.search("[0-9a-f]{64}", images[name])[0]


def test_an_environment_without_image_is_refused_before_any_job(clone, path, tmp_path):
    name = write_config(tmp_path, {"experiments": {"small": EXPERIMENT | {"frameworks": ["keras-tensorflow"]}}})
    command = [
        "snakemake",
        "--sdm",
        "apptainer",
        "--cores",
        "2",
        "--snakefile",
        clone / "Snakefile",
        "--configfile",
        name,
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(PATH=path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "images.yaml names no image of the environment keras-tensorflow; make images builds it" in done.stderr
    assert not (tmp_path / "results").exists()
