"""Errors of ssh become sentences."""

import pytest
from harness import on_path

from trainmark.errors import ConfigError, RemoteError
from trainmark.remote.connection import Connection

SSH = {
    "ssh: Could not resolve hostname box: Name or service not known": (True, "check the name"),
    "ssh: connect to host box port 22: Connection timed out": (True, "a VPN"),
    "client_loop: send disconnect: Broken pipe": (True, "may be there again"),
    "me@box: Permission denied (publickey).": (False, "ssh-copy-id box"),
    "@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@\nsee known_hosts": (
        False,
        "CHANGED!; if you",
    ),
    "Too many authentication failures": (False, "Too many authentication failures; call `ssh box` once"),
    "": (True, "the connection was closed"),
}
"""What ssh says when it ends with status 255, whether the connection may be there again, and words of the sentence."""


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """Put another ssh in the place of ssh: a shell script, of which -G and -O do nothing."""

    def put(script):
        text = f'#!/bin/sh\ncase "$*" in *-G*|*-O*) exit 0;; esac\n{script}\n'
        monkeypatch.setenv("PATH", on_path(tmp_path, text, "ssh"))

    on_path(tmp_path, "#!/bin/sh\n", "rsync")
    return put


def ask(**arguments):
    with Connection("box", "python3") as connection:
        return connection.tell("look", **({"folder": "~/campaign"} | arguments))


@pytest.mark.parametrize("said", SSH)
def test_an_error_of_ssh_is_a_sentence(said, ssh):
    ssh(f"cat >&2 <<'END'\n{said}\nEND\nexit 255")
    is_lost, words = SSH[said]
    with pytest.raises(RemoteError, match=words) as raised:
        ask()
    assert raised.value.is_lost == is_lost and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'sh: python3: not found' >&2; exit 127", "python3: not found; allowed: a Python"),
        ('echo Welcome; shift $(($# - 1)); sh -c "$1"', 'prints "Welcome"'),
    ],
)
def test_a_log_in_that_is_of_no_use_is_a_sentence(script, words, ssh):
    ssh(script)
    with pytest.raises(RemoteError, match=words):
        ask()


def test_answers_of_the_machine_are_returned(ssh, tmp_path):
    ssh(f'cd "{tmp_path}"; shift $(($# - 1)); HOME="{tmp_path}" sh -c "$1"')
    facts = ask(folder='it\'s "a" folder')
    assert facts["path"] == f'{tmp_path}/it\'s "a" folder'
    assert (facts["owner"], facts["running"], facts["is_usable"], facts["is_free"]) == ("", False, True, True)


@pytest.mark.parametrize("address", ["-oProxyCommand=touch x", "ssh://box", "box:22", "", "a b"])
def test_only_a_name_is_an_address(address):
    with pytest.raises(ConfigError, match="allowed: user@host"):
        Connection(address, "python3")


def test_without_rsync_here_a_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RemoteError, match="there is no ssh on this machine"):
        Connection("box", "python3")
