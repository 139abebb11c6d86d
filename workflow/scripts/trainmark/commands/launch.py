"""From a command recipe to the words and the environment variables with which its process starts."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainmark.errors import CommandError, HangError
from trainmark.machine.programs import run_program
from trainmark.machine.provenance import digest_of_packages
from trainmark.plan.run import Run
from trainmark.recipes.command import filled

LIBRARY = Path(__file__).parents[1]

PROBE, EVENTS = (Path(__file__).with_name(name) for name in ("probe.py", "events.py"))
"""Scripts that the command's own Python runs."""

RUNTIMES = ("apptainer", "singularity")

NOTED = ("chainer", "cupy", "jax", "jaxlib", "keras", "numpy", "tensorflow", "tensorflow-cpu", "torch", "torchvision")
"""Packages whose versions the record and the report name."""

DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")


def words_of(command: Mapping, run: Run, seed: int, threads: int, folder: Path, image: str | None) -> list[str]:
    """Return program and arguments. image: the container image in which it runs; None for none.

    Raises CommandError if nothing here runs containers.
    """
    values = _values(command, run, seed, threads, folder)
    line = filled(command["command"], {"device_flag": values["device_flag"]})  # which may be several words
    words = [filled(word, values) for word in shlex.split(line)]  # filled now: a folder with a blank stays one word
    return _container(image, run, folder) + words


def variables_of(command: Mapping, run: Run, seed: int, threads: int, folder: Path) -> dict[str, str]:
    """Return the command's environment variables: those of this process, changed by its environment and its own."""
    variables = dict(os.environ)
    environment = Path(command["environment"] or "")
    if command["environment"] and environment.is_dir():
        variables["PATH"] = os.pathsep.join([str((environment / "bin").resolve()), variables.get("PATH", os.defpath)])
        variables.pop("PYTHONHOME", None)
    variables["PYTHONUNBUFFERED"] = "1"  # a line that is printed late would make its epoch seem longer
    values = _values(command, run, seed, threads, folder)
    return variables | {name: filled(text, values) for name, text in command["variables"].items()}


def _values(command: Mapping, run: Run, seed: int, threads: int, folder: Path) -> dict[str, object]:
    """Return the values of the placeholders (recipes/command.py, PLACEHOLDERS)."""
    return {
        "epochs": run.epochs,
        "device_flag": command["device_flag"][run.trainer.device],
        "seed": seed,
        "threads": threads,
        "folder": folder,
        "trainmark": LIBRARY,
    }


def _container(image: str | None, run: Run, folder: Path) -> list[str]:
    """Return the words that start a container before the command; none without an image."""
    if not image:
        return []
    runtime = next(filter(shutil.which, RUNTIMES), None)
    if runtime is None:
        raise CommandError(
            f"the container {image} needs {' or '.join(RUNTIMES)}, and neither is on the PATH: install "
            "one, or give the command an environment"
        )
    gpu = ["--nv"] if run.trainer.device == "gpu" else []
    return [runtime, "exec", *gpu, "--bind", str(folder), "--pwd", str(folder), image]


def interpreter_of(words: Sequence[str], image: str | None, named: bool) -> list[str]:
    """Return the words that start the command's Python: the one that it starts, or that its environment or image has.

    Empty if there is none.

    words: of the command. named: whether it has an environment or an image of its own.
    """
    at = words.index(image) + 1 if image else 0
    if Path(words[at]).name.startswith("python"):
        return list(words[: at + 1])
    return [*words[:at], "python"] if named else []


def environment_of(interpreter: list[str], variables: Mapping[str, str], folder: Path, image: str | None) -> dict:
    """Return python, versions and environment of a command's Python, as the provenance of a record holds them.

    They are unknown if there is no Python, or an old one.
    """
    found: dict = {"python": "unknown", "kind": "unknown", "name": None, "packages": {}}
    if interpreter:
        try:
            found = json.loads(_printed(interpreter, PROBE, [], variables, folder).splitlines()[-1])
        except HangError as error:
            print(f"packages and versions of the command are not known: {error}", flush=True)
        except (OSError, subprocess.SubprocessError, ValueError, LookupError):
            pass
    packages = found["packages"]
    environment = {"kind": found["kind"], "name": found["name"], "image_digest": None}
    if image and packages:
        digest = DIGEST.search(image)
        name = Path(image).name.partition("@")[0]
        environment = {"kind": "container", "name": name, "image_digest": digest and digest[1]}
    versions = {name: version for name, version in packages.items() if name.replace("_", "-") in NOTED}
    return {"python": found["python"], "versions": versions, "environment": environment | digest_of_packages(packages)}


def _printed(
    interpreter: Sequence[str], script: Path, arguments: Sequence[str], variables: Mapping[str, str], folder: Path
) -> str:
    """Return what a script prints, run by a Python. Raises OSError, SubprocessError or HangError."""
    done = run_program([*interpreter, "-c", script.read_text(), *arguments], cwd=folder, env=variables)
    done.check_returncode()
    return done.stdout


def scalars_of(
    interpreter: list[str], path: Path, variables: Mapping[str, str], folder: Path
) -> list[tuple[float, bytes]]:
    """Return the scalars of TensorBoard's event files in a folder, as `metrics.read_entries` takes them.

    They are read by the command's Python or, where that has neither tensorboard nor TensorFlow, by trainmark's.

    Raises CommandError if they can't be read.
    """
    pythons: list[tuple[list[str], Mapping[str, str]]] = [(interpreter, variables), ([sys.executable], os.environ)]
    for words, environment in pythons if interpreter else pythons[1:]:
        try:
            return [(0.0, _printed(words, EVENTS, [str(path)], environment, folder).encode())]
        except (OSError, subprocess.SubprocessError, HangError) as error:
            said = str(getattr(error, "stderr", None) or error).strip().rpartition("\n")[2]
    raise CommandError(
        f"TensorBoard's event files in {path.name} can't be read ({said}): install tensorboard beside the command, or "
        "let it write a CSV file"
    )
