"""Make the environment .venv, or add packages to it: what `make` and `make torch` call (docs/setup.md).

It runs on the system's Python, whatever that is, with the standard library alone. uv installs the pinned packages. Of
the user's settings, uv and pip get only those that say where packages come from: with others, such as `PIP_TARGET` or
`user = true` in pip.conf, the environment would be another one, or elsewhere.
"""

from __future__ import annotations  # an old Python is to reach the sentence that refuses it

import argparse
import ast
import functools
import os
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
VENV = REPOSITORY / ".venv"
PYTHON = str(VENV / "bin" / "python")

STAMP = VENV / ".installed"
"""The file that make looks for. It contains the key in BUILDS that .venv was made from."""

BUILDS = {
    "cpu": ("requirements.txt", "3.1 GB"),
    "cuda13": ("requirements-gpu.txt", "8.5 GB"),
    "cuda12": ("requirements-gpu-cuda12.txt", "8.8 GB"),
}
"""The lock of each build, and the disk space of .venv, measured with du."""

CUDA_13 = (580, (7, 5))
"""What CUDA 13 needs at least: the driver's version and the GPU's compute capability (release notes of CUDA 13.0)."""

KEPT = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("", ""),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "proxy": ("ALL_PROXY", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "keyring-provider": ("UV_KEYRING_PROVIDER", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "retries": ("UV_HTTP_RETRIES", " "),
}
"""The settings of pip that are kept; for each uv's variable for the same, and what separates several values in it."""

KEPT_OF_UV = re.compile(
    r"UV_(DEFAULT_INDEX|INDEX(_URL|_\w+_(USERNAME|PASSWORD))?|EXTRA_INDEX_URL|FIND_LINKS|INSECURE_HOST|NATIVE_TLS"
    r"|SYSTEM_CERTS|KEYRING_PROVIDER|HTTP_\w+|CACHE_DIR|NO_CACHE|OFFLINE|CONCURRENT_\w+)"
)

DROPPED = ("PIP_", "UV_", "PYTHON", "CONDA_", "VIRTUAL_ENV")
"""Beginnings of the variables that pip and uv do not get otherwise."""


def main() -> None:
    """Make .venv, or add the packages of a group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", nargs="?", help="add requirements-GROUP.txt to .venv, such as torch")
    parser.add_argument(
        "--gpu", choices=("", *BUILDS), help="the builds to install (default: for what the machine has)"
    )
    parser.add_argument("--versions", action="store_true", help="print the Pythons that trainmark runs on, for CI")
    arguments = parser.parse_args()
    if arguments.versions:
        print("pythons=[" + ", ".join(f'"3.{minor}"' for minor in supported()) + "]")
        return
    check_python()
    if arguments.group in ("torch", "torch-cpu"):
        add_torch(arguments.group)
    elif arguments.group:
        install(f"requirements-{arguments.group}.txt")
    else:
        make_environment(find_build() if arguments.gpu is None else arguments.gpu or "cpu")


# The Python


def supported() -> range:
    """Return the minor versions of Python 3 that pyproject.toml allows, which is their only home."""
    text = (REPOSITORY / "pyproject.toml").read_text()
    bounds = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"', text, re.MULTILINE)
    return range(int(bounds[1]), int(bounds[2]))


def check_python() -> None:
    """Exit with a sentence if this Python is not supported, or lacks what an environment needs."""
    major, minor = sys.version_info[:2]
    if major != 3 or minor not in supported():
        sys.exit(
            f"trainmark needs Python 3.{supported()[0]} to 3.{supported()[-1]}, and {sys.executable} is "
            f"{sys.version.split()[0]}{another_python()}"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        sys.exit(f"{sys.executable} can't make virtual environments{to_install(f'python3.{minor}-venv')}")
    if minor >= 14 and not (shutil.which("cc") and Path(sysconfig.get_path("include"), "Python.h").exists()):
        sys.exit(
            f"on Python 3.{minor} a package of Snakemake's is compiled, and there is no C compiler (cc) or no Python.h"
            f"{to_install(f'gcc python3.{minor}-dev')}"
        )


def to_install(packages: str) -> str:
    """Return the end of a sentence with the command that installs Debian's packages; "" on other systems."""
    return f": sudo apt install {packages}" if Path("/etc/debian_version").exists() else ""


def another_python() -> str:
    """Return the end of a sentence with the command that takes a Python which is there, or which Debian has; or ""."""
    names = [f"python3.{minor}" for minor in reversed(supported())]
    for name in names:
        if output([name, "-Ic", "import ensurepip; print(1)"]):
            return f": call make PYTHON={name}"
    for name in names:
        if "Candidate: 3" in output(["apt-cache", "policy", f"{name}-venv"]):
            return f"{to_install(f'{name}-venv')}, then make PYTHON={name}"
    return ""


# The builds


def find_build() -> str:
    """Return the key in BUILDS for this machine. Print a sentence if it has a GPU that can't have CUDA 13."""
    gpus = re.findall("^GPU .*", output(["nvidia-smi", "-L"]), re.MULTILINE)
    query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    if not gpus:
        return "cpu"
    answers = output(query).splitlines()
    too_old = [answer for answer in answers if not runs_cuda_13(answer)]
    if answers and not too_old:
        return "cuda13"
    print(
        f"CUDA 13 needs a driver from {CUDA_13[0]} on and a compute capability from 7.5 on, and here is "
        f"{(too_old or gpus)[0]}: the builds for CUDA 12 are installed, without torch "
        "(docs/setup.md)"
    )
    return "cuda12"


def runs_cuda_13(answer: str) -> bool:
    """Return whether a GPU runs CUDA 13. answer: its name, driver and compute capability, as nvidia-smi prints them."""
    facts = re.fullmatch(r".+, (\d+)[.\d]*, (\d+)\.(\d+)", answer)
    if facts is None:
        return False
    driver, *capability = map(int, facts.groups())
    return driver >= CUDA_13[0] and tuple(capability) >= CUDA_13[1]


def make_environment(build: str) -> None:
    """Make .venv with the packages of a build. One of another Python is made anew."""
    lock, size = BUILDS[build]
    print(f"Setting up .venv from {lock}: once, a minute or several, {size} of disk", flush=True)
    here = "{}.{}".format(*sys.version_info)
    there = output([PYTHON, "-Ic", "import sys; print('{}.{}'.format(*sys.version_info))"]).strip()
    options = ["--clear"] if there != here and VENV.exists() else []
    run([sys.executable, "-I", "-m", "venv", *options, str(VENV)], clean_environment())
    run([PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", "requirements-build.txt"], settings())
    install(lock)
    run([PYTHON, "-m", "compileall", "-q", "workflow/scripts"], clean_environment())
    STAMP.write_text(build + "\n")


def add_torch(group: str) -> None:
    """Add torch. Its build for CPUs is taken if the user's index has it; the builds for CUDA 13 contain it."""
    build = STAMP.read_text().strip()
    if build == "cuda12":
        sys.exit(
            "torch's build needs CUDA 13, and .venv has the builds for CUDA 12: docs/setup.md says how to train it here"
        )
    if build == "cuda13":
        print("torch is there already: .venv has the builds for CUDA 13")
    elif not install("requirements-torch-cpu.txt", must=group == "torch-cpu"):
        print("No index of pip's has torch's build for CPUs: the one with CUDA is installed", flush=True)
        install("requirements-torch.txt")


# pip and uv


def install(lock: str, *, must: bool = True) -> bool:
    """Install the packages of a lock with uv. must: whether to exit with uv's words if it fails."""
    environment = settings()
    command = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--no-config", "--python", PYTHON, "-r", lock]
    # pip, too, takes the best version that any of its indexes has; every file has to have a hash of the lock anyway.
    command += ["--require-hashes", "--no-build-isolation", "--compile-bytecode", "--index-strategy=unsafe-best-match"]
    if environment.get("PIP_NO_INDEX", "0").lower() in ("1", "true", "yes", "on"):
        command.append("--no-index")
    return run(command, environment, must=must)


def clean_environment() -> dict[str, str]:
    """Return the user's environment without settings of Python, pip and uv."""
    return {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}


@functools.lru_cache(maxsize=None)  # noqa: UP033 (Python 3.8 has no functools.cache)
def settings() -> dict[str, str]:
    """Return an environment for pip and uv in which of the user's settings for them only KEPT and KEPT_OF_UV are."""
    environment = clean_environment()
    environment.update((name, value) for name, value in os.environ.items() if KEPT_OF_UV.fullmatch(name))
    for setting, value in settings_of_pip().items():
        values = value.split()
        variable, separator = KEPT[setting]
        environment["PIP_" + setting.replace("-", "_").upper()] = " ".join(values)
        if variable:
            environment.setdefault(variable, separator.join(values))
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # pip reads them
        if name in environment:
            environment.setdefault("SSL_CERT_FILE", environment[name])
    certificates = ssl.get_default_verify_paths()
    if certificates.cafile or (certificates.capath and os.listdir(certificates.capath)):
        environment.setdefault("UV_SYSTEM_CERTS", "true")  # as pip does: some sites have a certificate of their own
    return {**environment, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def settings_of_pip() -> dict[str, str]:
    """Return the values of KEPT as pip finds them, in its files and its variables; its variables win."""
    variables = {"PIP_CONFIG_FILE", *("PIP_" + setting.replace("-", "_").upper() for setting in KEPT)}
    environment = {**clean_environment(), **{name: os.environ[name] for name in variables & os.environ.keys()}}
    lines = output([PYTHON, "-m", "pip", "config", "list"], environment)
    found = {}
    for section in ("global", "install", ":env:"):
        for name, value in re.findall(rf"^{section}\.([\w-]+)=(.+)$", lines, re.MULTILINE):
            found[name.replace("_", "-")] = str(ast.literal_eval(value))
    return {name: value for name, value in found.items() if name in KEPT and value}


def output(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Return what a command prints; "" if it can't be run or fails. If it takes too long, a sentence says so."""
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=True,
        ).stdout
    except subprocess.TimeoutExpired:
        print(f"{command[0]} has not answered in 60 seconds, and setting up goes on without its answer", flush=True)
        return ""
    except (OSError, subprocess.SubprocessError):
        return ""


def run(command: list[str], environment: dict[str, str], *, must: bool = True) -> bool:
    """Run a command in the repository, and return whether it succeeded. must: whether to exit if it did not.

    What it prints is dropped if it need not succeed.
    """
    drop = None if must else subprocess.DEVNULL
    # No time limit: gigabytes may come over a slow line, and pip and uv have limits for a server that is silent.
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=drop, stderr=drop, check=False
    )
    if must and done.returncode:
        sys.exit(
            f"setting up .venv failed: {Path(command[0]).name} ended with status {done.returncode}, as it says above"
        )
    return done.returncode == 0


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
