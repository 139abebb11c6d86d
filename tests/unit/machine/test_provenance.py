"""The provenance of a record: machine, environment and code, without any private information."""

import getpass
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from trainmark.machine import provenance
from trainmark.machine.git import VARIABLES

HASH = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def bare(tmp_path, monkeypatch):
    """No container and no scheduler, whatever the tests run in."""
    monkeypatch.setattr(provenance, "CONTAINER_FILES", (tmp_path / "dockerenv", tmp_path / "containerenv"))
    known = ("SLURM_JOB_ID", "JOB_ID", "SGE_TASK_ID", "SGE_ROOT")
    recorded = [name for name in os.environ if provenance.is_read(name)]
    for name in (*known, *recorded, *provenance.IMAGE_VARIABLES):
        monkeypatch.delenv(name, raising=False)


def test_the_job_is_described(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=3 << 29))
    monkeypatch.setattr(os, "getloadavg", lambda: (1.239, 0, 0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {9, 3, 70}, raising=False)
    monkeypatch.setattr(provenance, "_git_state", lambda file: ("c" * 40, False))
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    job = provenance.describe_job(3)
    assert job == json.loads(json.dumps(job, allow_nan=False)), "JSON gives back what the record was given"
    assert (job["memory_gib"], job["load_1min"], job["threads"], job["cpus"]) == (1.5, 1.24, 3, [3, 9, 70])
    assert (job["git_commit"], job["git_clean"]) == ("c" * 40, False)
    assert job["scheduler"] == {"name": "slurm", "job_id": "5"}
    assert job["variables"] == {"KERAS_BACKEND": "jax"}
    assert set(job["environment"]) == {"kind", "name", "image_digest", "packages", "packages_sha256"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", job["started"])


def test_no_secret_no_folder_and_no_users_name_is_recorded(monkeypatch):
    """Whatever a variable is called, and also if the secret is in a path of a recorded variable."""
    secret = "hunter2-4f9c"
    for name in (
        "AWS_SECRET_ACCESS_KEY", "TF_CONFIG", "JAX_SECRET", "CUDA_VISIBLE_DEVICES_", "SLURM_JWT", "LD_LIBRARY_PATH",
        "PYTHONPATH", "HOSTNAME", "USER", "LOGNAME", "LNAME", "USERNAME",
    ):  # fmt: skip
        monkeypatch.setenv(name, secret)
    assert getpass.getuser() == secret
    monkeypatch.setenv("LD_PRELOAD", f"/home/{secret}/libjemalloc.so")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to=/home/{secret}/dump")
    monkeypatch.setenv("TF_XLA_FLAGS", f"--tf_dump=https://me:{secret}@host/x --tf_y={secret}@host")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", f"gs://bucket/{secret}")
    monkeypatch.setenv("APPTAINER_CONTAINER", f"/home/{secret}/trainmark.sif")
    monkeypatch.setattr(provenance, "thread_pools", list)  # LD_PRELOAD of a file that is not there confuses no one
    text = json.dumps(provenance.describe_job(2))
    assert secret not in text
    assert "libjemalloc.so" in text and "trainmark.sif" in text and "--xla_dump_to=dump" in text
    assert sys.prefix not in text and str(Path(provenance.__file__).parent) not in text


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A new working copy with one commit, and git without the user's own settings."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    folder = tmp_path / "checkout"
    (folder / "library").mkdir(parents=True)
    (folder / "library" / "code.py").write_text("a = 1\n")
    (folder / "other.py").write_text("c = 3\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "m")
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def state(checkout: Path) -> tuple:
    return provenance._git_state(checkout / "library" / "code.py")


def test_a_working_copy_is_clean_until_a_tracked_file_changes(checkout, monkeypatch):
    """As in git describe --dirty, and whoever owns it, as in a container. The variable is from git's own tests."""
    (checkout / "library" / "new.py").write_text("b = 2\n")
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setitem(VARIABLES, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert state(checkout) == (commit, True)
    (checkout / "other.py").write_text("c = 4\n")
    assert state(checkout) == (commit, False)


def test_no_commit_outside_git(checkout, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "code.py").touch()
    assert provenance._git_state(outside / "code.py") == (None, None)
    (checkout / "library" / "copied.py").touch()
    assert provenance._git_state(checkout / "library" / "copied.py") == (None, None), "another project's commit"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert state(checkout) == (None, None), "there is no git"


def installation(kind, name=None, image_digest=None) -> dict:
    return {"kind": kind, "name": name, "image_digest": image_digest}


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    folder = tmp_path / "envs" / "0a1b_"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "base_prefix", str(folder))
    return folder


def test_the_systems_python_or_a_venv_or_conda_or_a_container_whose_image_is_unknown(prefix, monkeypatch):
    assert provenance._installation() == installation("system")
    monkeypatch.setattr(sys, "base_prefix", str(prefix.parent / "base"))
    assert provenance._installation() == installation("venv", "0a1b_")
    (prefix / "conda-meta").mkdir()
    assert provenance._installation() == installation("conda", "0a1b_")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert provenance._installation() == installation("container")


@pytest.mark.parametrize(
    ("image", "name", "digest"),
    [
        ("/home/me/images/trainmark_0.1.sif", "trainmark_0.1.sif", None),
        (f"/home/me/cache/library/sha256.{HASH}", f"sha256.{HASH}", HASH),
        (f"docker://ghcr.io/me/trainmark@sha256:{HASH}", "trainmark", HASH),
    ],
)
def test_the_image_of_apptainer(prefix, monkeypatch, image, name, digest):
    for variable in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        monkeypatch.setenv(variable, image)
        assert provenance._installation() == installation("container", name, digest)
        monkeypatch.delenv(variable)


def test_the_installed_packages_and_their_digest(monkeypatch):
    packages = provenance.installed_packages()
    for name in ("numpy", "psutil", "pytest", "filelock", "threadpoolctl"):
        assert packages[name] == distribution(name).version
    digest = provenance.digest_of_packages({"zope.x": "2.0+CPU", "a": "1", "b_b": "3"})
    assert digest["packages"] == 3
    assert digest["packages_sha256"] == hashlib.sha256(b"a==1\nb_b==3\nzope.x==2.0+cpu\n").hexdigest()


SGE = {"JOB_ID": "7", "SGE_ROOT": "/opt/sge"}


@pytest.mark.parametrize(
    ("variables", "name", "job_id"),
    [
        ({"SLURM_JOB_ID": "123", "SLURM_ARRAY_TASK_ID": "4"}, "slurm", "123"),
        (SGE, "gridengine", "7"),
        (SGE | {"SGE_TASK_ID": "3"}, "gridengine", "7.3"),
        ({"JOB_ID": "7", "SGE_TASK_ID": "undefined"}, "gridengine", "7"),
        ({"JOB_ID": "7"}, None, None),
        ({"SLURM_JOB_ID": ""}, None, None),
    ],
)
def test_schedulers(monkeypatch, variables, name, job_id):
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert provenance._scheduler() == (name and {"name": name, "job_id": job_id})
