"""A campaign on a remote machine whose ssh is a stand-in: the same commands, in another folder of this machine.

With a real sshd and another user: tests/faults/test_cut_connections.py.
"""

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from command_runs import PATTERN
from harness import environment, finish, on_path, run_script

pytestmark = pytest.mark.skipif(not shutil.which("rsync"), reason="needs rsync")

SSH = """#!/bin/sh
while :; do case "$1" in -G) exit 0 ;; -T|-o*) shift ;; *) break ;; esac; done
shift
export HOME="{home}" PATH="{home}/bin:$PATH" TRAINMARK_LOCK_FOLDER="{home}/locks"
cd && exec sh -c "$*"
"""
"""ssh to a machine that is a folder, the home folder there."""

MAKE = """#!/bin/sh
ln -sfn "{environment}" .venv
"""
"""make that finds everything set up."""

COMMAND = {
    "command": "python train.py {epochs}",
    "files": [{"path": "train.py", "urls": ["own/train.py"]}],
    "metrics": {"format": "regex", "pattern": PATTERN},
}
EXPERIMENT = {"devices": ["cpu"], "epochs": [1], "repeats": 2, "commands": {"own": COMMAND}}
FAILING = COMMAND | {"command": "python train.py none"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """The home folder there, and the environment of a call of remote.py."""
    folder = tmp_path_factory.mktemp("machine")
    home = folder / "home"
    on_path(home, MAKE.format(environment=Path(sys.executable).parents[1]), "make")
    return home, environment(PATH=on_path(folder, SSH.format(home=home), "ssh"))


@pytest.fixture(scope="module")
def trained(machine, tmp_path_factory):
    """A folder here after a campaign there, and what was printed."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "own").mkdir()
    (folder / "own" / "train.py").write_text(
        "import sys\nfor epoch in range(int(sys.argv[1])):\n    print(f'epoch {epoch + 1} loss 0.5 accuracy 0.9')\n"
    )
    commands = {"good": {"own": COMMAND}, "failing": {"own": COMMAND, "other": FAILING}}
    for name, of_config in commands.items():
        config = {"experiments": {"small": EXPERIMENT | {"commands": of_config}}}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    done = remote(machine, folder, "run", "good.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def remote(machine, folder, action, *words):
    return run_script("remote", action, "box", *words, env=machine[1], cwd=folder)


def records(folder):
    return {str(file.relative_to(folder)): file for file in sorted((folder / "results" / "runs").rglob("record.json"))}


def test_results_are_here_as_after_a_local_call(trained, machine):
    folder, printed = trained
    assert len(records(folder)) == 2 and (folder / "results" / "report" / "index.html").exists()
    assert "2 of 2 runs to train" in printed and f"Report: {folder}/results/report/index.html" in printed
    assert "Nothing to be done" in finish(folder, "-n", "--cores", "2", "--configfile", "good.yaml")
    assert json.loads(next(iter(records(folder).values())).read_text())["provenance"]["git_commit"]
    assert "has ended with status 0" in remote(machine, folder, "status").stdout


def test_another_machine_takes_what_is_trained(trained, machine):
    folder, _ = trained
    done = remote(machine, folder, "run", "good.yaml", "--folder", "another", "--", "-n", "--cores", "2")
    assert done.returncode == 0 and "collect_records" in done.stdout, done.stdout + done.stderr
    assert "run_command" not in done.stdout
    assert records(machine[0] / "another").keys() == records(folder).keys()


def test_a_call_that_fails_says_why_and_runs_of_both_machines_are_not_replaced(trained, machine):
    folder, _ = trained
    file = next(iter(records(folder).values()))
    there = file.read_text()
    file.write_text(there + "\n")
    done = remote(machine, folder, "run", "failing.yaml")
    assert done.returncode == 1 and "failed: running other on cpu" in done.stdout, done.stdout + done.stderr
    assert "1 runs were trained there and here" in done.stderr and file.read_text() == there + "\n"
    file.write_text(there)
    done = remote(machine, folder, "run", "failing.yaml")  # ended, and not fetched yet: nothing is started
    assert done.returncode == 1 and "copying" not in done.stdout, done.stdout + done.stderr
    assert "failed: running other on cpu" in done.stdout and len(records(folder)) == 2
    assert list((folder / "results" / "logs").rglob("other/**/*.log"))
