"""Reaches a remote machine through the user's ssh and rsync, and says in a sentence why it can't."""

import json
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trainmark.errors import ConfigError, RemoteError
from trainmark.machine.programs import run_program
from trainmark.remote import there

OPTIONS = {
    "connecttimeout": "-oConnectTimeout=30",
    "serveraliveinterval": "-oServerAliveInterval=15 -oServerAliveCountMax=4",
    "controlpath": "-oControlMaster=auto -oControlPersist=120 -oControlPath={folder}/%C",
}
"""Options of ssh by the setting without which they are given: a connection of which nothing is heard for a minute has
ended, and one log-in serves all that is asked."""

ADVICE = {
    "could not resolve": "check the name, or give the host a HostName in ~/.ssh/config",
    "identification has changed": "if you know why, forget the old key of the host with `ssh-keygen -R`",
    "host key verification failed": "call `ssh {address}` once, compare the key of the host, and accept it",
    "too open": "let nobody else read that file (chmod 600)",
    "permission denied": "check user and key; `ssh-copy-id {address}` puts your key there",
    "connection refused": "check the port (Port in ~/.ssh/config), and that an ssh server runs there",
    "timed out|no route|unreachable": "check that it is on, and whether it needs a VPN or a jump host",
    "closed|reset by|broken pipe": "it may be there again soon",
    "bad configuration|bad owner": "mend that file",
    "": "call `ssh {address}` once to see what it asks or says",
}
"""What to do about an error of ssh, by what its words contain."""

LOST = (
    r"could not resolve|network is down|host is down|closed|reset by|refused|timed out|broken pipe|not responding"
    "|no route|unreachable|lost connection|mux_client|control socket"
)
"""Words of ssh and rsync about a connection that may be there again soon."""

OF_CONNECTION = (10, 12, 30, 35, 255)
"""Exit statuses of rsync that say something of the connection (its manual)."""

FULL = "no space left|quota exceeded"


class Connection:
    """A remote machine. The connection to it is kept while `with` lasts.

    address: as ssh takes it, [user@]host or a name in ~/.ssh/config. python: the command of Python there.

    Raises ConfigError if the address is none, and RemoteError if ssh or rsync is not installed here.
    """

    def __init__(self, address: str, python: str) -> None:
        if not re.fullmatch(r"[^-\s:/][^\s:/]*", address):
            raise ConfigError(f"found the machine {address!r}; allowed: user@host, or a name in ~/.ssh/config")
        for program in ("ssh", "rsync"):
            if not shutil.which(program):
                raise RemoteError(f"there is no {program} on this machine; install it (Debian: openssh-client, rsync)")
        self.address, self._python = address, python
        self._ssh = ["ssh", "-T", "-oRemoteCommand=none"]

    def __enter__(self) -> "Connection":
        self._sockets = tempfile.mkdtemp(prefix="trainmark-", dir="/tmp")  # the path of a socket has to be short
        settings = run_program(["ssh", "-G", self.address]).stdout
        for name, options in OPTIONS.items():
            if not re.search(rf"^{name} (?!none$|0$)", settings, re.M):
                self._ssh += options.format(folder=self._sockets).split()
        return self

    def __exit__(self, *_: object) -> None:
        if any(Path(self._sockets).iterdir()):
            run_program([*self._ssh, "-O", "exit", self.address])
        shutil.rmtree(self._sockets, ignore_errors=True)

    def ask(self, action: str, **arguments: Any) -> Iterator[dict]:
        """Yield the answers of a function of `there`. Raises RemoteError."""
        # Files, since a connection that is kept would hold pipes open.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(Path(there.__file__).read_bytes() + f"\nanswer({action!r}, {arguments!r})\n".encode())
            given.seek(0)
            command = [*self._ssh, self.address, f"{shlex.quote(self._python)} -I -"]
            others, facts = "", {}
            # No time limit: it follows a call as long as that takes, and ssh notices a connection that is dead.
            process = subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=errors)
            try:
                for line in process.stdout or ():
                    text = line.decode(errors="replace").strip()
                    if text.startswith(there.MARK):
                        yield (facts := json.loads(text.removeprefix(there.MARK)))
                    else:
                        others = others or text
                process.wait()
            finally:
                process.kill()  # it waits for a line where this process was interrupted
            if "error" in facts:
                advice = "free space" if re.search(FULL, facts["error"], re.I) else "let this user write there"
                raise RemoteError(f"{self.address} refuses {facts['error']}; {advice}, and call again")
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        if process.returncode == 255:
            raise self._failure("ssh", said)
        if process.returncode or not facts:
            last = (said.strip() or others or "no output").rpartition("\n")[2]
            raise RemoteError(f"{self._python} on {self.address}: {last}; allowed: a Python that --python names")
        if others:
            raise RemoteError(
                f'logging in on {self.address} prints "{others[:80]}", which rsync can\'t bear; let the files that the '
                "shell reads there (~/.bashrc and others) print only on a terminal, if [ -t 1 ]"
            )

    def tell(self, action: str, **arguments: Any) -> dict:
        """Return the last answer."""
        return list(self.ask(action, **arguments))[-1]

    def send(self, sources: Sequence[str], folder: str, *options: str, given: bytes = b"", cwd: Path) -> None:
        """Copy files to a folder there. Paths are relative to `cwd`. given: the standard input of rsync."""
        self._rsync([*options, "--", *sources, f"{self.address}:{folder}/"], "its disk", given, cwd)

    def fetch(self, source: str, target: str, *options: str) -> list[str]:
        """Copy the content of a folder there to one here. Return the names of what was copied."""
        words = [*options, "--out-format=%n", "--", f"{self.address}:{source}/", target]
        return self._rsync(words, "the disk here").splitlines()

    def _rsync(self, words: Sequence[str], disk: str, given: bytes = b"", cwd: Path | None = None) -> str:
        command = ["rsync", "-rlpz", "--protect-args", "-e", shlex.join(self._ssh), *words]
        with tempfile.TemporaryFile() as errors:
            # No time limit: gigabytes may come over a slow line, and ssh notices one that is dead.
            done = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=errors, cwd=cwd, check=False)
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        if done.returncode == 0:
            return done.stdout.decode(errors="surrogateescape")
        if full := re.search(f".*({FULL}).*", said, re.I):
            raise RemoteError(f"{self.address}: {disk} is full: {full[0]}; free space, and call again")
        raise self._failure("ssh" if done.returncode in OF_CONNECTION else "rsync", said)

    def _failure(self, program: str, said: str) -> RemoteError:
        """Return the error for what ssh or rsync has said."""
        lines = [line.strip(" @\r") for line in said.splitlines() if line.strip(" @\r")] or [
            "the connection was closed"
        ]
        is_lost = program == "ssh" and bool(re.search(LOST, "\n".join(lines), re.I))
        line, advice = lines[0], "mend it, and call again"
        if program == "ssh":
            words = next(words for words in ADVICE if re.search(words, "\n".join(lines), re.I))
            line, advice = next(one for one in reversed(lines) if re.search(words, one, re.I)), ADVICE[words]
        sentence = f"{program}: {self.address}: {line.rstrip('.')}; {advice.format(address=self.address)}"
        return RemoteError(sentence, is_lost=is_lost)
