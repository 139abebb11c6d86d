#!/usr/bin/env python3
"""Stands in for apptainer: answers what Snakemake and envs/build_images.sh ask, with Podman.

An image's file contains its name in Podman. As with apptainer, a job has the network, processes, variables, /tmp and
working directory of its host, and from the image its PATH and every other folder.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

OF_THE_IMAGE = ("PATH", "LD_LIBRARY_PATH", "HOME")


def podman(*arguments: str) -> str:
    """Return the last line that a command of Podman prints. Exits if it fails."""
    done = subprocess.run(["podman", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    return (done.stdout.splitlines() or [""])[-1] if done.returncode == 0 else sys.exit(done.returncode)


def main() -> None:
    """Answer one call."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="version", version="apptainer version 1.3.0")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("--force", action="store_true")
    build.add_argument("file", type=Path)
    build.add_argument("archive")
    pull = commands.add_parser("pull")
    pull.add_argument("--name", dest="file", type=Path)
    pull.add_argument("address")
    execute = commands.add_parser("exec")
    execute.add_argument("--home", default=str(Path.cwd()))
    execute.add_argument("--pwd", default=str(Path.cwd()))
    execute.add_argument("--bind", action="append", default=[])
    execute.add_argument("file", type=Path)
    execute.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.command == "build":
        loaded = podman("load", "--quiet", "--input", arguments.archive.partition(":")[2])
        arguments.file.write_text(podman("inspect", "--format", "{{.Id}}", loaded.rpartition(" ")[2]))
    elif arguments.command == "pull":
        address = arguments.address.removeprefix("docker://")
        podman("pull", "--quiet", address)
        arguments.file.write_text(address)
    else:
        folders = [f"--volume={folder}:{folder}" for folder in {"/tmp", arguments.home, *arguments.bind}]
        variables = [f"--env={name}" for name in os.environ if name not in OF_THE_IMAGE]
        variables += [f"--env=HOME={arguments.home}", f"--env=APPTAINER_CONTAINER={arguments.file.resolve()}"]
        command = ["podman", "run", "--rm", "--network=host", "--pid=host", f"--workdir={arguments.pwd}"]
        os.execvp("podman", [*command, *folders, *variables, arguments.file.read_text(), *arguments.words])


if __name__ == "__main__":
    main()
