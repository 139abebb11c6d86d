"""What a call on a remote machine needs of this one."""

import subprocess

import pytest
from harness import OWN_RECIPE, experiment_of, write_config

from trainmark.errors import ConfigError
from trainmark.recipes import own
from trainmark.remote.call import read_call, write_commit

FOLDERS = {"mine": "data", "there": "/data"}
ENTRY = {"title": "own", "format": "npy", "classes": 2, "image_shape": [1, 28, 28]}
FETCHED = {"path": "data", "urls": ["https://a.invalid/b"], "sha256": "0" * 64}
CONFIG = {
    "mirror": "mirror",
    "networks": ["own/networks.py"],
    "datasets": {name: ENTRY | {"folder": path} for name, path in FOLDERS.items()},
    "experiments": {
        "trained": experiment_of(frameworks=["torch"], workers=[1, 2]),
        "called": {
            "commands": {
                "own": {
                    "command": "python train.py",
                    "files": [{"path": "train.py", "urls": ["scripts/train.py"]}, FETCHED],
                    "metrics": {"format": "csv", "file": "log.csv", "columns": {"epoch": "epoch", "test_loss": "loss"}},
                }
            }
        },
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a config and the files that it names."""
    for name in ("own/networks.py", "scripts/train.py", "data/a", "mirror/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(OWN_RECIPE if name.startswith("own") else "")
    for name in ("loop", "results/runs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "loop" / "self").symlink_to(".")
    (tmp_path / "Makefile").write_text("")
    write_config(tmp_path, CONFIG)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    own.register(())


def test_files_of_this_folder_are_copied_and_others_are_there(folder):
    (folder / "modules").mkdir()
    call = read_call(["experiment.yaml"], ["modules"], [])
    assert call.files == ["experiment.yaml", "modules", "mirror", "own/networks.py", "data", "scripts/train.py"]
    assert call.targets == [".venv/.installed", "cluster", "torch", "workers"]
    assert call.options == ["--cores", "4", "--resources", "gpu=1", "--configfile", "experiment.yaml"]


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (["-c8"], ["--resources", "gpu=1"]),
        (["-j"], ["--resources", "gpu=1"]),
        (["--resources", "gpu=2"], ["--cores", "4"]),
        (["--cores=8", "--resources=gpu=2"], []),
        (["--workflow-profile", "profiles/slurm"], []),
    ],
)
def test_cores_and_gpus_are_given_once(given, added, folder):
    assert read_call(["experiment.yaml"], [], given).options == [*given, *added, "--configfile", "experiment.yaml"]


@pytest.mark.parametrize("changed", ["own/networks.py", "data/a", "experiment.yaml"])
def test_a_call_with_a_changed_file_is_another_call(changed, folder):
    before = read_call(["experiment.yaml"], [], [])
    assert read_call(["experiment.yaml"], [], []) == before
    with (folder / changed).open("a") as file:
        file.write("\n")
    after = read_call(["experiment.yaml"], [], [])
    assert after.config != before.config and after.code == before.code


def test_the_default_config_is_that_of_this_folder_or_else_of_the_clone(folder):
    assert read_call([], [], ["-j1"]).options == ["-j1", "--resources", "gpu=1"] and read_call(
        [], [], []
    ).experiments == ["digits"]
    (folder / "config").mkdir()
    (folder / "experiment.yaml").rename(folder / "config" / "config.yaml")
    call = read_call([], [], ["-j1"])
    assert call.options[-2:] == ["--configfile", "config/config.yaml"] and call.files[0] == "config/config.yaml"


@pytest.mark.parametrize(
    ("configs", "also", "options", "found"),
    [
        (["experiment.yaml"], [], ["--directory=/x"], "found the option --directory=/x"),
        (["experiment.yaml"], [], ["-d/x"], "found the option -d/x"),
        (["experiment.yaml"], [], ["--direc", "/x"], "found the option --direc"),
        (["experiment.yaml"], ["."], [], "--also: found ., which trainmark has itself"),
        (["experiment.yaml"], ["results/runs"], [], "--also: found results/runs, which trainmark has itself"),
        (["experiment.yaml"], ["Makefile"], [], "--also: found Makefile, which trainmark has itself"),
        (["experiment.yaml"], ["loop"], [], "loop/self is a link to nothing, or to a folder that it lies in"),
        (["experiment.yaml"], ["../profiles"], [], "--also: found ../profiles; allowed: a path in this folder"),
        (["experiment.yaml"], ["profiles/mine"], [], "--also: found profiles/mine, which is not there"),
    ],
)
def test_what_would_be_another_file_there_is_refused(configs, also, options, found, folder):
    with pytest.raises(ConfigError, match=found):
        read_call(configs, also, options)


def test_a_config_outside_this_folder_is_refused(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write_config(elsewhere, {"experiments": {"small": experiment_of()}})
    with pytest.raises(ConfigError, match="allowed: a path in this folder"):
        read_call([str(elsewhere / "experiment.yaml")], [], [])


def test_the_commit_is_that_of_the_clone_and_knows_no_other_machine(tmp_path):
    write_commit(tmp_path / "git")
    printed = subprocess.run(
        ["git", f"--git-dir={tmp_path / 'git'}", "log", "--format=%H %D"], capture_output=True, text=True, check=True
    ).stdout
    here = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert printed.split()[0] == here.strip() and printed.count("\n") == 1
    assert "url" not in (tmp_path / "git" / "config").read_text()
