"""From a fresh Debian to the report: `make test-fresh`, as root.

debootstrap makes each system in a folder, with Python, git and make alone. A clone of HEAD is copied in, and `make`
runs there; where its last sentence names a command that helps, that one runs, so that each of them is tried. Then
`verify.py` checks the results, and the quick unit tests run, or those that the variable TESTS names.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SUITES = ("trixie", "sid")
"""Debian 13 and Debian unstable: Python 3.13 and 3.14."""

CLONE = "/trainmark"

SETTINGS = ("/etc/pip.conf", "/etc/xdg/pip", "/etc/hosts", "/etc/resolv.conf", "/etc/ssl/certs", "/etc/apt/apt.conf.d")
"""What a machine's owner has set up: where packages come from, and which certificates count."""

NEEDED = re.compile(r": sudo (apt install [\w .-]+)(?:, then (make PYTHON=\S+))?$", re.MULTILINE)
"""The end of a sentence of envs/set_up.py with the command that helps."""


def mirror() -> str:
    """Return the address of Debian's packages that this machine uses."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(r"^(?:URIs:|deb(?: \[.*\])?) *(\S+/debian/?)(?: |$)", text, re.MULTILINE)
    return found[1] if found else sys.exit("no file of apt's names a mirror of Debian")


def local_folders() -> list[str]:
    """Return the folders of this machine that pip's settings name."""
    listing = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    return [path for path in re.findall(r"(?:^|[ '=]|file://)(/[^\s']+)", listing) if Path(path).is_dir()]


class System:
    """A Debian in a folder."""

    def __init__(self, suite: str, folder: Path):
        """Make it."""
        self.folder = folder / suite
        packages = "--include=python3,make,git,ca-certificates"
        self._run(["debootstrap", "--variant=minbase", packages, suite, str(self.folder), mirror()])
        for path in filter(os.path.exists, SETTINGS):
            Path(f"{self.folder}{path}").parent.mkdir(parents=True, exist_ok=True)
            self._run(["cp", "-aT", "--remove-destination", path, f"{self.folder}{path}"])
        self._run(["git", "clone", "--quiet", str(REPOSITORY), f"{self.folder}{CLONE}"])

    def _run(self, command: list[str]) -> None:
        """Run a command here, and show what it prints only if it fails."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"{done.stdout}\n{' '.join(command)} failed")

    def call(self, command: str) -> str:
        """Run a command of the shell there, and return its last lines; the mounts that it needs end with it."""
        mounts = "".join(
            f'mkdir -p "{self.folder}{path}"; mount --rbind "{path}" "{self.folder}{path}"; '
            for path in ("/proc", "/dev", "/sys", *local_folders())
        )
        environment = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        environment |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
        started = time.monotonic()
        print(f"$ {command}", flush=True)
        inside = f"{mounts} exec chroot '{self.folder}' sh -c 'cd {CLONE} && {command}'"
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", inside],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        lines = []
        for line in process.stdout:
            lines.append(line)
            print(line, end="", flush=True)
        self.status = process.wait()
        print(f"[{self.folder.name}: status {self.status}, {time.monotonic() - started:.0f} s]", flush=True)
        return "".join(lines[-3:])


def try_out(suite: str, folder: Path, tests: str) -> bool:
    """Return whether a system goes from `make` to the tests. tests: those that run there."""
    system = System(suite, folder)
    make = "make CORES=2"
    told = system.call(make)
    while system.status and (helps := NEEDED.search(told)):
        system.call(f"apt-get -qq update && apt-get -qqy {helps[1].removeprefix('apt ')} > /dev/null")
        make = f"{helps[2]} CORES=2" if helps[2] else make
        told = system.call(make)
        if (again := NEEDED.search(told)) and again[0] == helps[0]:
            return False  # what it named does not help
    for step in (".venv/bin/python workflow/scripts/verify.py results", f'make test TESTS="{tests}"'):
        if not system.status:
            system.call(step)
    return not system.status


def main() -> None:
    """Try each system that the command line names, or all."""
    if os.geteuid() or not shutil.which("debootstrap"):
        sys.exit("this needs root and debootstrap: sudo apt install debootstrap")
    failed = []
    for suite in sys.argv[1:] or SUITES:
        with tempfile.TemporaryDirectory(prefix="trainmark-fresh-") as folder:
            if not try_out(suite, Path(folder), os.environ.get("TESTS") or "tests/unit"):
                failed.append(suite)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
