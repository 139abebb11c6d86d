"""What `make` installs: on which Python, for which GPU, and from where whatever else the user has set."""

import importlib.util
import os
import sys

import pytest
from harness import REPOSITORY

SCRIPT = REPOSITORY / "envs" / "set_up.py"

INDEX = "file:///nowhere/simple"
OF_PIP = {"PIP_INDEX_URL": INDEX, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""What pip gets where the user names an index."""


@pytest.fixture
def set_up(monkeypatch):
    """The script as a module, with the tests' Python in place of that of .venv, and no settings of this machine."""
    spec = importlib.util.spec_from_file_location("set_up", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PYTHON", sys.executable)
    for name in [*os.environ]:
        if name.startswith(("PIP_", "UV_", "SSL_", "ALL_PROXY")) or name.endswith("CA_BUNDLE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return module


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """The only folder on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(path, *lines):
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


# --- settings of the user's ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variable",
    [
        "PIP_TARGET=/elsewhere", "PIP_NO_DEPS=1", "UV_TARGET=/elsewhere", "UV_PYTHON=3.9", "UV_CONFIG_FILE=/elsewhere",
        "PYTHONPATH=/elsewhere", "PYTHONHOME=/elsewhere", "CONDA_PREFIX=/elsewhere", "VIRTUAL_ENV=/elsewhere",
    ],
)  # fmt: skip
def test_a_setting_that_makes_another_environment_is_dropped(set_up, monkeypatch, variable):
    name, _, value = variable.partition("=")
    monkeypatch.setenv("PIP_INDEX_URL", INDEX)
    monkeypatch.setenv(name, value)
    environment = set_up.settings()
    assert name not in environment
    assert {name: value for name, value in environment.items() if name.startswith("PIP_")} == OF_PIP


def test_a_file_of_pips_gives_its_places_alone(set_up, monkeypatch, tmp_path):
    """`user` and `target` would fail or install elsewhere. A variable wins over a file, as in pip."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://a.invalid/simple\nextra-index-url =\n    https://b.invalid\n    https://c.invalid\n"
        "find_links = /wheels /more\ncert = /site.pem\ntimeout = 99\n[install]\nuser = true\ntarget = /elsewhere\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", INDEX)
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "5")
    environment = set_up.settings()
    of_pip = {name: value for name, value in environment.items() if name.startswith("PIP_")}
    assert of_pip == OF_PIP | {
        "PIP_EXTRA_INDEX_URL": "https://b.invalid https://c.invalid",
        "PIP_FIND_LINKS": "/wheels /more",
        "PIP_CERT": "/site.pem",
        "PIP_TIMEOUT": "99",
    }
    of_uv = {name: value for name, value in environment.items() if name.startswith("UV_") and name != "UV_SYSTEM_CERTS"}
    assert of_uv == {
        "UV_DEFAULT_INDEX": INDEX,
        "UV_INDEX": "https://b.invalid https://c.invalid",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_HTTP_TIMEOUT": "5",
    }
    assert environment["SSL_CERT_FILE"] == "/site.pem"


# --- the Python ------------------------------------------------------------------------------------------------------


def refusal(set_up, monkeypatch, version):
    """Return with which sentence this Python is refused."""
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit) as refused:
        set_up.check_python()
    return str(refused.value)


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 15, 0), (4, 11, 0)])
def test_another_python_is_refused_with_the_one_that_is_there(set_up, monkeypatch, programs, version):
    program(programs / "python3.12", "exit 1")  # without ensurepip, or a shim of nothing
    assert refusal(set_up, monkeypatch, version).startswith("trainmark needs Python 3.11 to 3.14, and ")
    program(programs / "python3.11", "echo 1")
    assert refusal(set_up, monkeypatch, version).endswith(": call make PYTHON=python3.11")


def test_on_debian_a_python_of_its_packages_is_named(set_up, monkeypatch, programs):
    program(programs / "apt-cache", '[ "$2" != python3.13-venv ] || echo "  Candidate: 3.13.5-2"')
    monkeypatch.setattr(set_up, "to_install", lambda packages: f": sudo apt install {packages}")
    assert refusal(set_up, monkeypatch, (3, 10, 1)).endswith(
        ": sudo apt install python3.13-venv, then make PYTHON=python3.13"
    )


@pytest.mark.parametrize("page", ["README.md", "docs/setup.md", "docs/pytorch_and_jax.md"])
def test_pages_name_the_pythons_of_pyproject(set_up, page):
    first, last = set_up.supported()[0], set_up.supported()[-1]
    assert f"Python 3.{first} to 3.{last}" in (REPOSITORY / page).read_text()


# --- the GPU ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "build"),
    [
        ([], "cpu"),
        (["NVIDIA H100, 580.65.06, 9.0"], "cuda13"),
        (["Tesla T4, 610.10, 7.5", "NVIDIA B200, 610.10, 10.0"], "cuda13"),
        (["NVIDIA H100, 570.133, 9.0"], "cuda12"),
        (["Tesla V100-SXM2-16GB, 580.65, 7.0"], "cuda12"),
        (["NVIDIA H100, 580.65, 9.0", "Tesla P4, 580.65, 6.1"], "cuda12"),
        (["Tesla K80, 470.1, [N/A]"], "cuda12"),
        (None, "cuda12"),  # an nvidia-smi that does not know the question
    ],
)
def test_the_builds_are_those_that_driver_and_gpu_can_run(set_up, programs, capsys, gpus, build):
    listing = [f"echo 'GPU {number}: {gpu}'" for number, gpu in enumerate(["a GPU"] if gpus is None else gpus)]
    answer = ["exit 6"] if gpus is None else [f"echo '{gpu}'" for gpu in gpus]
    program(programs / "nvidia-smi", 'if [ "$1" = -L ]; then :', *listing, "else :", *answer, "fi")
    assert set_up.find_build() == build
    told = capsys.readouterr().out
    assert told.startswith("CUDA 13 needs a driver from 580 on") if build == "cuda12" else told == ""


def test_torch_is_there_for_cuda_13_and_refused_for_cuda_12(set_up, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(set_up, "STAMP", tmp_path / "stamp")
    set_up.STAMP.write_text("cuda13\n")
    set_up.add_torch("torch")
    assert capsys.readouterr().out == "torch is there already: .venv has the builds for CUDA 13\n"
    set_up.STAMP.write_text("cuda12\n")
    with pytest.raises(SystemExit, match="torch's build needs CUDA 13"):
        set_up.add_torch("torch-cpu")
