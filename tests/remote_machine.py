"""A remote machine for tests: an sshd on the loopback address, and another user, who has nothing but Python."""

import os
import pwd
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from harness import REPOSITORY, environment, free_ports, on_path

USER = "trainmark-remote"
ADDRESS = "gpubox"
SSHD = "/usr/sbin/sshd"


def why_not():
    """Why there can be no such machine here; empty if there can."""
    if os.geteuid():
        return "needs root, to make a user"
    lacking = [program for program in (SSHD, "rsync", "ssh", "useradd", "make") if not shutil.which(program)]
    return f"needs {' and '.join(lacking)}" if lacking else ""


needs_machine = pytest.mark.skipif(bool(why_not()), reason=why_not() or "there can be one")


class RemoteMachine:
    """folder: for keys and settings of this side. home: of the user there."""

    def __init__(self, folder):
        self.folder, self.home, self.port = folder, Path(pwd.getpwnam(USER).pw_dir), free_ports(1)[0]
        self._server = None
        for name in ("host", "other", "id", "stranger"):
            subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", folder / name], check=True)
        self.write(".ssh/authorized_keys", (folder / "id.pub").read_text())
        pip = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
        )
        of_user = [line.partition(".")[2] for line in pip.stdout.splitlines() if not line.startswith(":env:.cache")]
        lines = [name + " = " + value.strip("'") for name, _, value in (line.partition("=") for line in of_user)]
        self.write(".config/pip/pip.conf", "\n".join(["[global]", *dict.fromkeys(lines)]) + "\n")
        self.environment = environment(
            PATH=on_path(folder, f'#!/bin/sh\nexec /usr/bin/ssh -F "{folder}/config" "$@"\n', "ssh")
        )
        self.configure()
        self.know("host")

    def write(self, name, text):
        """Write a file of the user there."""
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        for path in (file, *file.parents):
            if path == self.home.parent:
                break
            shutil.chown(path, USER, USER)
        file.parent.chmod(0o700)
        file.chmod(0o600)

    def configure(self, **settings):
        """Write the config of ssh on this side."""
        given = {
            "HostName": "127.0.0.1", "Port": self.port, "User": USER, "IdentityFile": self.folder / "id",
            "IdentitiesOnly": "yes", "BatchMode": "yes", "UserKnownHostsFile": self.folder / "known_hosts",
        } | settings  # fmt: skip
        lines = "".join(f"  {name} {value}\n" for name, value in given.items())
        (self.folder / "config").write_text(f"Host {ADDRESS}\n{lines}")

    def know(self, key):
        """Write which key of the host is known on this side."""
        kind, value = (self.folder / f"{key}.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {value}\n")

    def start(self):
        """Start the server."""
        Path("/run/sshd").mkdir(exist_ok=True)
        options = {
            "Port": self.port, "ListenAddress": "127.0.0.1", "HostKey": self.folder / "host", "UsePAM": "no",
            "PasswordAuthentication": "no", "PidFile": "none", "StrictModes": "no",
        }  # fmt: skip
        given = [f"-o{name}={value}" for name, value in options.items()]
        self._server = subprocess.Popen([SSHD, "-D", "-f", "/dev/null", "-E", self.folder / "sshd.log", *given])

    def cut(self):
        """End all connections at once, and nothing else. Return how many there were."""
        found = [process for process in psutil.process_iter(["name", "cmdline"]) if self._is_connection(process)]
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return len(found)

    def _is_connection(self, process):
        words = " ".join(process.info["cmdline"] or ())
        return words.startswith("sshd: ") and USER in words

    def stop(self):
        """End the server and its connections, and nothing else."""
        self._server.kill()
        self._server.wait()
        self.cut()

    def crash(self):
        """Kill all that the user runs there, as a crash of the machine does."""
        subprocess.run(["pkill", "-KILL", "-u", USER], check=False)

    def remote(self, action, *words, folder, **options):
        """Call remote.py in a folder, as a user would."""
        given = {"capture_output": True, "text": True, "check": False} | options
        return subprocess.run(self.command(action, *words), cwd=folder, env=self.environment, **given)

    def command(self, action, *words):
        """The words of a call of remote.py."""
        script = REPOSITORY / "workflow" / "scripts" / "remote.py"
        return [sys.executable, str(script), action, ADDRESS, *map(str, words)]


@contextmanager
def remote_machine(folder):
    """A machine, without anything of an earlier one."""
    with suppress(KeyError):
        pwd.getpwnam(USER)
        _remove()
    subprocess.run(["useradd", "-m", "-s", "/bin/bash", "-p", "*", USER], check=True)
    machine = RemoteMachine(folder)
    machine.start()
    time.sleep(0.5)
    try:
        yield machine
    finally:
        machine.stop()
        _remove()


def _remove():
    subprocess.run(["pkill", "-KILL", "-u", USER], check=False)
    time.sleep(0.5)
    subprocess.run(["userdel", "-rf", USER], check=True, capture_output=True)
