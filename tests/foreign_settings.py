"""`make test-settings`: is .venv the same whatever is set? `make` in clean clones, and an equal `pip freeze`.

Each clone of HEAD is set up with one setting that would install elsewhere, or other packages, or fail. If a setting
also reaches what runs afterwards, `make` goes on to the report. It needs a network.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

OF_UV = {
    "UV_SYSTEM_PYTHON": "1", "UV_TARGET": "ELSEWHERE", "UV_PYTHON": "3.9", "UV_NO_BUILD": "1", "UV_NO_BINARY": "1",
    "UV_CONFIG_FILE": "ELSEWHERE", "UV_EXCLUDE_NEWER": "2020-01-01", "UV_TORCH_BACKEND": "cu126",
}  # fmt: skip
OF_CONDA = {
    "CONDA_PREFIX": "ELSEWHERE/conda",
    "CONDA_DEFAULT_ENV": "base",
    "CONDA_SHLVL": "1",
    "PATH": "ELSEWHERE/conda/bin",
}

SETTINGS = {
    "none": ({}, False),
    **{
        f"PIP_{name}": ({f"PIP_{name}": value}, False)
        for name, value in {
            "USER": "1", "TARGET": "ELSEWHERE", "PREFIX": "ELSEWHERE", "ROOT": "ELSEWHERE", "DRY_RUN": "1",
            "PYTHON": "ELSEWHERE/conda/bin/python3",
        }.items()
    },
    "user = true in pip.conf": ({"PIP_CONFIG_FILE": "ELSEWHERE/pip.conf"}, False),
    "an active conda base": (OF_CONDA, True),
    "PYTHONPATH": ({"PYTHONPATH": "ELSEWHERE/modules"}, True),
    "PYTHONHOME": ({"PYTHONHOME": "ELSEWHERE"}, True),
    "UV_*": (OF_UV, False),
}  # fmt: skip
"""The variables of each setting, and whether `make` goes on to the report. ELSEWHERE is a folder."""


def make_elsewhere(folder: Path) -> None:
    """Make what the settings name: a pip.conf, a folder as of a conda base, and modules that end what imports them."""
    (folder / "pip.conf").write_text("[global]\nuser = true\n")
    (folder / "conda" / "bin").mkdir(parents=True)
    (folder / "conda" / "conda-meta").mkdir()
    python = os.path.realpath(sys.executable)
    (folder / "conda" / "bin" / "python3").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    (folder / "conda" / "bin" / "python3").chmod(0o755)
    (folder / "modules").mkdir()
    for name in ("numpy", "snakemake", "sitecustomize", "pip"):
        (folder / "modules" / f"{name}.py").write_text("raise SystemExit('a module of PYTHONPATH')\n")


def freeze(clone: Path) -> str:
    """Return the packages of a clone's .venv."""
    command = [clone / ".venv" / "bin" / "python", "-I", "-m", "pip", "freeze", "--all"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    """Try each setting, print a line for it, and exit with 1 if one fails."""
    failed, expected = False, ""
    for name, (variables, whole) in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            elsewhere, clone = Path(folder, "elsewhere"), Path(folder, "clone")
            elsewhere.mkdir()
            make_elsewhere(elsewhere)
            subprocess.run(["git", "clone", "--quiet", REPOSITORY, clone], check=True)
            environment = {name: value.replace("ELSEWHERE", str(elsewhere)) for name, value in variables.items()}
            if "PATH" in environment:
                environment["PATH"] += os.pathsep + os.environ["PATH"]
            there = {*elsewhere.rglob("*")}
            command = ["make", "CORES=2", *([] if whole else [".venv/.installed"])]
            done = subprocess.run(
                command,
                cwd=clone,
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            packages = "" if done.returncode else freeze(clone)
            expected = expected or packages
            report = not whole or (clone / "results" / "report" / "index.html").exists()
            added = {*elsewhere.rglob("*")} - there
            ok = bool(packages) and packages == expected and report and not added
            failed |= not ok
            made = "to the report" if whole else "set up"
            print(
                f"{name}: {made}, {len(packages.splitlines())} packages: {'equal' if ok else 'NOT EQUAL'}", flush=True
            )
            if not ok:
                print(done.stdout[-2000:], *sorted(added)[:5], sep="\n", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
