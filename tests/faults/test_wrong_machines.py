"""A remote machine that is not as it should be gets one sentence, and nothing half-made is left there."""

import os
import subprocess

import pytest
from harness import experiment_of, write_config
from remote_machine import ADDRESS, needs_machine, remote_machine

pytestmark = [
    pytest.mark.faults,
    needs_machine,
]

CONFIG = {"experiments": {"small": experiment_of()}}

OLD_PYTHON = """#!/bin/sh
sed "s/platform.python_version()/'3.8.10'/" | exec python3 "$@"
"""

WITHOUT = """#!/bin/sh
sed "s/shutil.which(name)/name != '{name}'/; s/importlib.util.find_spec(name)/name != '{name}'/" | exec python3 "$@"
"""
"""A Python that finds no program or module of this name."""


def without_key(machine):
    machine.configure(IdentityFile=machine.folder / "stranger")


def with_readable_key(machine):
    (machine.folder / "id").chmod(0o644)


def with_wrong_setting(machine):
    machine.configure(NoSuchSetting="yes")


def with_other_key(machine):
    machine.know("other")


def with_unknown_key(machine):
    (machine.folder / "known_hosts").write_text("")


def writing(name, text, mode=0o600):
    def write(machine):
        machine.write(name, text)
        (machine.home / name).chmod(mode)

    return write


SSH = {
    "unknown host": (lambda machine: machine.configure(HostName="no-such-host.invalid"), "check the name"),
    "nothing listens": (lambda machine: machine.configure(Port=1), "check the port"),
    "another network": (lambda machine: machine.configure(HostName="240.0.0.1", ConnectTimeout=2), "a VPN"),
    "unknown user": (lambda machine: machine.configure(User="nobody-there"), "check user and key"),
    "wrong key": (without_key, "ssh-copy-id gpubox"),
    "readable key": (with_readable_key, "chmod 600"),
    "wrong setting": (with_wrong_setting, "mend that file"),
    "changed host key": (with_other_key, "ssh-keygen -R"),
    "unknown host key": (with_unknown_key, "compare the key of the host"),
    "noise at the log-in": (writing(".bashrc", "echo Welcome\n"), 'prints "Welcome"'),
}
"""What is wrong, and words of the sentence."""

THERE = {
    "no Python": (["--python", "python9"], "python9: command not found"),
    "old Python": (["--python", "bin/old"], "is Python 3.8.10; allowed: >=3."),
    "no rsync": (["--python", "bin/without-rsync"], "it has no rsync"),
    "no make": (["--python", "bin/without-make"], "it has no make"),
    "no venv": (["--python", "bin/without-ensurepip"], "it has no ensurepip"),
    "not writable": (["--folder", "/etc/trainmark"], "can't be written to"),
    "a file": (["--folder", "notes"], "can't be written to"),
    "braces": (["--folder", "{a}"], "a brace or a colon"),
    "a folder of the user's": (["--folder", "mine"], "remote.py has not made this folder"),
    "another campaign": (["--folder", "theirs"], "holds the campaign of laptop:/other"),
}
"""Options of the call, and words of the sentence."""

FILES = {
    "notes": "",
    "mine/notes": "",
    "theirs/.remote/owner": "laptop:/other",
    "bin/old": OLD_PYTHON,
    **{f"bin/without-{name}": WITHOUT.format(name=name) for name in ("rsync", "make", "ensurepip")},
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    with remote_machine(tmp_path_factory.mktemp("machine")) as machine:
        for name, text in FILES.items():
            writing(name, text, 0o700)(machine)
        yield machine


@pytest.fixture
def folder(tmp_path):
    write_config(tmp_path, CONFIG)
    return tmp_path


def check(machine, folder, words, sentence, error="RemoteError"):
    before = sorted(machine.home.rglob("*"))
    done = machine.remote("run", "experiment.yaml", *words, folder=folder)
    printed = done.stdout + done.stderr
    assert done.returncode == 1 and sentence in printed, printed
    assert done.stderr.startswith(f"{error}: ") and done.stderr.count("\n") == 1
    assert sorted(machine.home.rglob("*")) == before and not (folder / "results").exists()


@pytest.mark.parametrize("case", SSH)
def test_a_machine_that_can_not_be_reached(case, machine, folder):
    make_wrong, sentence = SSH[case]
    make_wrong(machine)
    try:
        check(machine, folder, [], sentence)
    finally:
        machine.configure()
        machine.know("host")
        (machine.folder / "id").chmod(0o600)
        (machine.home / ".bashrc").unlink(missing_ok=True)


@pytest.mark.parametrize("case", THERE)
def test_a_machine_that_can_not_be_used(case, machine, folder):
    check(machine, folder, *THERE[case])


def test_another_call_is_not_disturbed(machine, folder):
    """What runs there is refused to another config, and another campaign can't stop it."""
    machine.write("busy/.remote/owner", f"{os.uname().nodename}:{folder}")
    call = '{"config": "", "code": "", "options": [], "started": "today", "host": "gpubox"}'
    machine.write("busy/.remote/call.json", call)
    machine.write("busy/.remote/lock", "")
    command = ["flock", machine.home / "busy/.remote/lock", "sleep", "60"]
    with subprocess.Popen(command) as busy:
        check(machine, folder, ["--folder", "busy"], "what runs there has other config and code and options")
        (folder / "other").mkdir()
        done = machine.remote("stop", "--folder", "busy", folder=folder / "other")
        assert f"holds the campaign of {os.uname().nodename}:{folder}" in done.stderr and busy.poll() is None
        busy.terminate()


def test_an_option_is_no_machine(machine, folder):
    command = [*machine.command("status")[:-1], "-oProxyCommand=touch owned"]
    done = subprocess.run(command, cwd=folder, env=machine.environment, capture_output=True, text=True, check=False)
    assert (
        done.returncode == 1
        and f"allowed: user@host, or a name in {os.path.join('~', '.ssh', 'config')}" in done.stderr
    )
    assert not (folder / "owned").exists() and ADDRESS not in done.stderr


def test_links_in_results_are_not_replaced(machine, folder):
    (folder / "results").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "results" / "runs").symlink_to("../elsewhere")
    done = machine.remote("run", "experiment.yaml", folder=folder)
    assert done.returncode == 1 and "DataError: results/runs is a link" in done.stderr and done.stderr.count("\n") == 1
    assert not (machine.home / "trainmark").exists()
