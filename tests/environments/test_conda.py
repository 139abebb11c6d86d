"""--sdm conda: each rule runs in an environment of its own, imports from no other, and computes what the venv does.

No channel of conda is needed: tests/stand_in_conda takes the place of `conda`.
"""

import hashlib
import json
import os
import re
import subprocess
import sys

import pytest
from harness import (
    REPOSITORY,
    calling,
    copy_of_repository,
    edit,
    experiment_of,
    finish,
    on_path,
    snakemake,
    write_config,
)
from same_results import records_of, trained

from trainmark.trainer import Trainer

pytestmark = [
    pytest.mark.environments,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="envs/ pins packages for Python 3.11"),
]
STAND_IN = REPOSITORY / "tests" / "stand_in_conda" / "conda.py"
EXPERIMENT = experiment_of(frameworks=["chainer", "keras-jax"], epochs=[2], input={"subtract_mean": True})
PROGRAM = "import time\nfor loss in (2, 1):\n    time.sleep(0.1)\n    print('loss', loss)\n"
COMMAND = {
    "command": "python somebodys.py",
    "files": [
        {"path": "somebodys.py", "urls": ["somebodys.py"], "sha256": hashlib.sha256(PROGRAM.encode()).hexdigest()}
    ],
    "environment": "report",
    "metrics": {"format": "regex", "pattern": r"loss (?P<loss>\d)"},
}
EXPERIMENT["commands"] = {"somebodys": COMMAND}
USER_SITE = ".local/lib/python{}.{}/site-packages".format(*sys.version_info)
ENVIRONMENT_OF = dict.fromkeys(("download", "prepare", "mean_image"), "data")
ENVIRONMENT_OF |= dict.fromkeys(("certify", "collect", "plot", "report", "somebodys"), "report")
"""Environment by script; that of the others is their framework."""


def with_conda(folder, *arguments, **extra):
    """Run snakemake with the stand-in, in a folder whose jobs leave what they saw in `seen`."""
    seen = folder / "seen"
    seen.mkdir(exist_ok=True)
    path = on_path(prefixes(folder), calling(STAND_IN), "conda")
    here = {"PATH": path, "SEEN": str(seen), "SCRIPTS": str(REPOSITORY / "workflow" / "scripts")} | extra
    (folder / "somebodys.py").write_text(PROGRAM)
    name = write_config(folder, {"experiments": {"small": EXPERIMENT}})
    options = ("--sdm", "conda", "--conda-prefix", str(prefixes(folder)), "--cores", "2", "--configfile", name)
    return snakemake(folder, *arguments, *options, **here)


def prefixes(folder):
    """The folder of its environments, which must have no blank in its path."""
    return folder.with_name(f"{folder.name.replace(' ', '-')}-environments")


def environments(folder):
    """The prefix of each environment that Snakemake made, by name. Beside a prefix lies the file that it is made of."""
    made = {file.read_bytes(): file.with_suffix("") for file in prefixes(folder).glob("*_.yaml")}
    return {
        file.stem: str(made[file.read_bytes()])
        for file in (REPOSITORY / "envs").glob("*.yaml")
        if file.read_bytes() in made
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished workflow in a folder whose name has a blank, called by a user with packages of their own."""
    folder = tmp_path_factory.mktemp("with conda")
    for file, text in {
        "mine/h5py.py": "",
        f"{USER_SITE}/mine.py": "",
        f"{USER_SITE}/mine.pth": "import mine\n",
    }.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    prepared = with_conda(folder, "--conda-create-envs-only")
    assert prepared.printed.count("created (location") == 4 and not (folder / "results").exists(), prepared.printed
    done = with_conda(folder, HOME=str(folder), PYTHONPATH=str(folder / "mine"))
    assert done.returncode == 0, done.printed[-5000:]
    assert "Creating conda environment" not in done.printed
    return folder


def test_each_job_ran_in_the_environment_of_its_rule_and_imported_from_no_other(folder):
    made = environments(folder)
    assert set(made) == {"data", "report", "chainer", "keras-jax"}
    jobs = [json.loads(file.read_text()) for file in (folder / "seen").iterdir()]
    jobs = [job for job in jobs if job["command"][0] != "-c"]  # what a command's environment has was asked
    ran = set()
    for job in jobs:
        script = re.search(r"(\w+)\.py$", job["command"][0])[1]
        words = job["command"]
        name = ENVIRONMENT_OF.get(script)
        if not name:
            of = words[words.index("--run" if "--run" in words else "--job") + 1]
            name = Trainer.parse(of.split("/")[3]).framework
        ran.add((script, name))
        assert job["prefix"] == made[name] and job["executable"].startswith(made[name]), job
        assert job["foreign"] == [], job
    trained = {
        (script, name) for script in ("trace_training", "train", "evaluate") for name in EXPERIMENT["frameworks"]
    }
    assert ran == {*ENVIRONMENT_OF.items(), *trained}


def test_the_curves_equal_those_of_the_venv(folder, tmp_path):
    (tmp_path / "somebodys.py").write_text(PROGRAM)
    in_folder = {"somebodys": COMMAND | {"environment": environments(folder)["report"]}}
    name = write_config(tmp_path, {"experiments": {"small": EXPERIMENT | {"commands": in_folder}}})
    finish(tmp_path, "--until", "train", "run_command", "--cores", "2", "--configfile", name)
    inside, outside = (
        {record["run"]["id"]: record for record in records_of(results / "results").values()}
        for results in (folder, tmp_path)
    )
    assert len(inside) == 3 and inside.keys() == outside.keys()
    for record, other in zip(inside.values(), outside.values(), strict=True):
        assert trained(record) == trained(other)
        sums = [each["weights"] and each["weights"]["sha256"] for each in (record, other)]
        assert sums[0] == sums[1]
    assert sum(record["weights"] is not None for record in inside.values()) == 2


def test_an_import_from_another_environment_would_be_seen(folder, tmp_path):
    """So the test above would fail if environments were mixed."""
    made = environments(folder)
    other = f"{made['report']}/lib/python{{}}.{{}}/site-packages".format(*sys.version_info)
    here = {"SEEN": str(tmp_path), "SCRIPTS": "/nowhere", "PYTHONNOUSERSITE": "1", "PYTHONPATH": other}
    command = [f"{made['chainer']}/bin/python", "-c", "import jinja2"]
    done = subprocess.run(command, env=os.environ | here, capture_output=True, text=True, check=False)
    (file,) = tmp_path.iterdir()
    assert done.returncode == 0, done.stderr
    assert any("jinja2" in name for name in json.loads(file.read_text())["foreign"])


def test_an_environment_without_a_package_fails_its_rule_in_one_sentence(tmp_path):
    """A version that the channel has not fails before any job."""
    copy = copy_of_repository(tmp_path / "copy")
    text = (copy / "envs" / "data.yaml").read_text()
    edit(copy / "envs" / "data.yaml", re.search(r"      - scikit-learn==.*\n", text)[0], "")
    failed = with_conda(copy, "--until", "prepare_dataset")
    assert failed.returncode == 1
    assert (
        ": the environment data lacks the package sklearn: add it to envs/data.yaml; if it is there, delete "
        ".snakemake/conda, and snakemake makes the environment anew; log: results/logs/"
    ) in failed.printed
    (copy / "envs" / "data.yaml").write_text(text.replace("numpy==", "numpy==1"))
    refused = with_conda(copy, "--until", "prepare_dataset")
    assert "No matching distribution found for numpy==1" in refused.printed
