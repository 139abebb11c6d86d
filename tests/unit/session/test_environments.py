"""Images of environments are fixed by a digest, nothing of the user enters a job, and a missing package is told."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.errors import IMAGE_VARIABLE, DeploymentError
from trainmark.machine import provenance
from trainmark.session import environments
from trainmark.session.environments import (
    BIND_VARIABLES,
    environment_of_command,
    image_of,
    image_of_command,
    isolate_jobs,
    put_python_on_path,
    required_image,
    where_to_add,
)

DIGEST = "0123456789abcdef" * 4
ADDRESS = f"docker://registry.invalid:5000/me/trainmark-data@sha256:{DIGEST}"
FILE = f"images/data-sha256-{DIGEST}.sif"


@pytest.fixture
def images(tmp_path, monkeypatch):
    """A function that writes the images of a site."""
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / FILE).touch()
    return (tmp_path / environments.IMAGES).write_text


def test_an_image_with_a_digest_is_taken(images, tmp_path):
    with pytest.raises(DeploymentError, match="names no image of the environment data; make images builds it"):
        required_image("data")
    images(f"data: {ADDRESS}\nreport: {FILE}\n")
    assert (image_of("data"), image_of("report"), image_of("other")) == (ADDRESS, str(tmp_path / FILE), None)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("docker://registry.invalid/trainmark-data:latest", "may mean another image tomorrow; allowed"),
        (f"my {FILE}", "without blanks and quotes"),
        (f"'{FILE};ls'", "without blanks and quotes"),
        (f"no-{FILE}", r"there is no file .*; make images builds it"),
    ],
)
def test_what_is_refused(images, reference, message):
    images(f"data: {reference}\n")
    with pytest.raises(DeploymentError, match=message):
        image_of("data")


def test_a_job_knows_the_image_that_snakemake_pulled(images, monkeypatch):
    """Snakemake names its file by the MD5 of the address."""
    images(f"data: {ADDRESS}\n")
    before = set(os.environ)
    required_image("data")
    (variable,) = set(os.environ) - before
    monkeypatch.setenv("APPTAINER_CONTAINER", f"/home/me/.snakemake/singularity/{variable[len(IMAGE_VARIABLE) :]}.simg")
    assert provenance._installation() == {"kind": "container", "name": "trainmark-data", "image_digest": DIGEST}
    del os.environ[variable]


def call(*methods, prefix=""):
    return SimpleNamespace(deployment={*methods}, prefixes=dict.fromkeys(methods, prefix))


@pytest.mark.parametrize(("method", "isolated"), [("conda", True), ("apptainer", True), (None, False)])
def test_no_package_of_the_user_enters_an_environment(monkeypatch, method, isolated):
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.delenv("PYTHONNOUSERSITE", raising=False)
    isolate_jobs(call(*filter(None, [method])))
    assert (os.environ.pop("PYTHONNOUSERSITE", None), os.environ.get("PYTHONPATH")) == (
        ("1", None) if isolated else (None, "/mine")
    )


def test_a_clone_elsewhere_is_bound_into_containers_once(images, tmp_path, monkeypatch):
    clone = tmp_path / "my clone"
    monkeypatch.setattr(environments, "ENVIRONMENTS", clone / "envs")
    for variable, own in zip(BIND_VARIABLES, ("/mine", ""), strict=True):
        monkeypatch.setenv(variable, own)
    bound = lambda: [os.environ[variable] for variable in BIND_VARIABLES]  # noqa: E731
    with monkeypatch.context() as inside:
        inside.chdir(tmp_path)
        isolate_jobs(call("apptainer"))
    assert bound() == ["/mine", ""]
    for _ in range(2):  # the second time, as a job of a cluster that gets the variables of its workflow
        isolate_jobs(call("apptainer"))
    assert bound() == [f"/mine,{clone}", str(clone)]


def test_a_folder_that_snakemake_would_not_quote_is_refused(tmp_path, monkeypatch):
    (tmp_path / "it's mine").mkdir()
    monkeypatch.chdir(tmp_path / "it's mine")
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")  # put back at the end
    with pytest.raises(DeploymentError, match="name a folder without blanks and quotes with --conda-prefix"):
        isolate_jobs(call("conda"))
    isolate_jobs(call("conda", prefix=str(tmp_path)))
    with pytest.raises(DeploymentError, match="give one of the two"):
        isolate_jobs(call("conda", "apptainer"))


def test_the_python_of_the_workflow_can_be_found(monkeypatch):
    folder = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    put_python_on_path()
    assert os.environ["PATH"] == f"{folder}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", f"/stand-in:{folder}:/bin")
    put_python_on_path()
    assert os.environ["PATH"] == f"/stand-in:{folder}:/bin", "the user's own choice stays"


NO_MODULE = "ModuleNotFoundError: No module named 'pandas.core'"
NO_FRAMEWORK = "the framework keras-jax needs the package jax, which is not installed; `make` installs it"


@pytest.mark.parametrize(
    ("sentence", "methods", "told"),
    [
        (NO_MODULE, ["conda"], "the environment report lacks the package pandas: add it to envs/report.yaml; if it"),
        (NO_MODULE, ["apptainer"], "if it is there, envs/images.yaml names an old or wrong image"),
        (NO_MODULE, [], "`python` lacks the package pandas; `make` installs what trainmark needs in .venv"),
        (NO_FRAMEWORK, ["conda"], "the environment report lacks the package jax: add it to envs/report.yaml"),
        (NO_FRAMEWORK, [], NO_FRAMEWORK),
        ("ModuleNotFoundError: No module named 'trainmark.x'", ["conda"], "ModuleNotFoundError"),
    ],
)
def test_a_job_that_lacks_a_package_says_where_to_add_it(sentence, methods, told):
    assert told in where_to_add(sentence, "report", methods)


def command(environment=None, container=None):
    return {"environment": environment, "container": container}


def test_the_environment_of_a_command(tmp_path):
    """A name is a file of envs/, on the GPU that of the GPU build; a folder and the PATH need nothing of Snakemake."""
    envs = environments.ENVIRONMENTS
    assert environment_of_command(command("chainer"), "cpu", set()) == str(envs / "chainer.yaml")
    assert environment_of_command(command("chainer"), "gpu", {"conda"}) == str(envs / "chainer-gpu.yaml")
    assert environment_of_command(command("own.yaml"), "cpu", {"conda"}) == os.path.abspath("own.yaml")
    for named in (None, str(tmp_path)):
        assert environment_of_command(command(named), "cpu", {"conda"}) is None
    with pytest.raises(DeploymentError, match="of a command needs snakemake --sdm conda"):
        environment_of_command(command("own.yaml"), "cpu", {"apptainer"})


def test_the_image_of_a_command(images):
    images(f"data: {ADDRESS}\n")
    assert image_of_command(command("data"), "cpu", {"apptainer"}) == ADDRESS
    assert image_of_command(command("data"), "cpu", {"conda"}) is None
    assert image_of_command(command(container="own.sif"), "cpu", {"apptainer"}) == os.path.abspath("own.sif")
    assert image_of_command(command(container="~/own.sif"), "cpu", set()) == os.path.expanduser("~/own.sif")
    assert image_of_command(command(container=ADDRESS), "cpu", set()) == ADDRESS
    with pytest.raises(DeploymentError, match="names no image of the environment report"):
        image_of_command(command("report"), "cpu", {"apptainer"})
