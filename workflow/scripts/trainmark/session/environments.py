"""The conda environment, and the container image made of it, in which the jobs of a rule run."""

import hashlib
import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from shlex import quote

from trainmark.config.load import REPOSITORY
from trainmark.config.strict_yaml import read_yaml
from trainmark.errors import IMAGE_VARIABLE, DeploymentError
from trainmark.machine.variables import unset_settings
from trainmark.session.internals import Call
from trainmark.trainer import Trainer

ENVIRONMENTS = REPOSITORY / "envs"

IMAGES = "images.yaml"
"""File in ENVIRONMENTS with the image of each environment, by name. It is the site's own: `make images` writes it."""

IMAGE = re.compile(r"[\w./:@+~-]*sha256[:-][0-9a-f]{64}[\w.]*")
"""A reference to an image, which holds a digest, and no character that a shell would interpret."""

BIND_VARIABLES = ("APPTAINER_BIND", "SINGULARITY_BIND")
"""Environment variables with the folders that containers see."""

PYTHON_VARIABLE = "TRAINMARK_PYTHON"
"""Environment variable that names the Python of the workflow."""

LACKING = re.compile(
    r"ModuleNotFoundError: No module named '(?!trainmark)(\w+)|the framework .* needs the package (.+), which"
)
"""What a job says if it lacks a package."""


def environment_of(trainer: Trainer) -> str:
    """Return the environment of a trainer: on the GPU that of the framework's GPU build, if it is another one."""
    gpu_build = f"{trainer.framework}-gpu"
    return gpu_build if trainer.device == "gpu" and conda_file(gpu_build).exists() else trainer.framework


def conda_file(name: str) -> Path:
    """Return the conda file of an environment."""
    return ENVIRONMENTS / f"{name}.yaml"


def image_of(name: str) -> str | None:
    """Return the address or the path of the image of an environment, with its digest. None if there is none.

    Raises DeploymentError for a reference without a digest and for a file that does not exist.
    """
    file = ENVIRONMENTS / IMAGES
    reference = str((read_yaml(file) if file.exists() else {}).get(name, ""))
    if not reference:
        return None
    image = reference if "://" in reference else str(ENVIRONMENTS / os.path.expanduser(reference))
    if not IMAGE.fullmatch(image):
        raise DeploymentError(
            f"{file}: {name}: found {reference!r}, which may mean another image tomorrow; allowed, without blanks and "
            "quotes: docker://<registry>/<name>@sha256:<digest>, or the path of a file named <name>-sha256-<digest>.sif"
        )
    if "://" not in image and not Path(image).exists():
        raise DeploymentError(f"{file}: {name}: there is no file {image}; make images builds it")
    return image


def required_image(name: str) -> str:
    """Return the image of an environment, and tell jobs its name. Raises DeploymentError if there is none."""
    image = image_of(name)
    if image is None:
        raise DeploymentError(
            f"{ENVIRONMENTS / IMAGES} names no image of the environment {name}; make images builds it "
            "(docs/environments.md)"
        )
    # Snakemake names the file that it pulls by the address's MD5, so a job could not tell which image it runs in.
    os.environ[IMAGE_VARIABLE + hashlib.md5(image.encode(), usedforsecurity=False).hexdigest()] = image
    return image


def environment_of_command(command: Mapping, device: str, methods: Collection[str]) -> str | None:
    """Return the conda file of a command; None if it runs in a folder's environment, in a container or with the PATH.

    methods: see `internals.Call.deployment`.

    Raises DeploymentError for a conda file of the user's own without --sdm conda.
    """
    named = command["environment"]
    if not named or Path(named).is_dir():
        return None
    if not named.endswith(".yaml"):
        return str(conda_file(environment_of(Trainer(named, device))))
    if "conda" not in methods:
        raise DeploymentError(
            f"the environment {named} of a command needs snakemake --sdm conda, which makes it; or give the command a "
            "container, or the folder of an environment that is there"
        )
    return str(Path(named).absolute())


def image_of_command(command: Mapping, device: str, methods: Collection[str]) -> str | None:
    """Return the image in which a command runs: its own or, with --sdm apptainer, that of its environment."""
    environment = environment_of_command(command, device, methods)
    if environment and "apptainer" in methods:
        return required_image(Path(environment).stem)
    image: str | None = command["container"]
    is_file = image and "://" not in image  # the command starts in a folder of its own
    return os.path.abspath(os.path.expanduser(image)) if image and is_file else image


def put_python_on_path() -> None:
    """Make sure that `python` in a rule can be the one that runs the workflow, also in a shell without its PATH.

    PYTHON_VARIABLE names it for the rule whose conda environment has another one.
    """
    os.environ[PYTHON_VARIABLE] = sys.executable
    folder = os.path.dirname(sys.executable)
    if folder not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]


def isolate_jobs(call: Call) -> None:
    """Keep packages and settings of the user out of jobs, and bind this clone into containers.

    Raises DeploymentError if a workflow is to use conda and containers at once, and if Snakemake would keep its
    environments or images in a folder whose path it does not quote.
    """
    methods = call.deployment
    if len(methods) > 1:
        raise DeploymentError(
            "--sdm conda apptainer would look for conda in the images, which have none; give one of the two"
        )
    for method in methods:
        folder = Path(call.prefixes[method]).absolute()
        if quote(str(folder)) != str(folder):
            raise DeploymentError(
                f"--sdm {method}: Snakemake can't use the path {folder}, in which a shell would interpret a character; "
                f"name a folder without blanks and quotes with --{method}-prefix"
            )
    unset_settings(os.environ)
    if methods:
        os.environ["PYTHONNOUSERSITE"] = "1"
        os.environ.pop("PYTHONPATH", None)
    clone = ENVIRONMENTS.parent
    if "apptainer" in methods and not clone.is_relative_to(Path.cwd()):
        for variable in BIND_VARIABLES:
            bound = os.environ.get(variable, "").split(",")
            os.environ[variable] = ",".join(dict.fromkeys(filter(None, [*bound, str(clone)])))


def where_to_add(sentence: str, environment: str, methods: Collection[str]) -> str:
    """Return what to do if the sentence of a failed job says that a package is missing; else the sentence."""
    lacking = LACKING.match(sentence)
    if not lacking:
        return sentence
    package = lacking[1] or lacking[2]
    if "conda" in methods:
        cure = "if it is there, delete .snakemake/conda, and snakemake makes the environment anew"
    elif "apptainer" in methods:
        cure = "if it is there, envs/images.yaml names an old or wrong image: make images builds it"
    elif lacking[1]:
        return f"`python` lacks the package {package}; `make` installs what trainmark needs in .venv"
    else:
        return sentence
    return f"the environment {environment} lacks the package {package}: add it to envs/{environment}.yaml; {cure}"
