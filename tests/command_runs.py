"""Runs of commands for tests: the real script, on small Python programs, without a workflow."""

import hashlib
import subprocess
import sys
from pathlib import Path

from harness import REPOSITORY, environment, write_job

from trainmark.config.load import shipped_files, with_defaults

MARK = "TRAINMARK_TEST_OF_COMMANDS"

PATTERN = r"epoch (?P<epoch>\S+) loss (?P<loss>\S+) accuracy (?P<test_accuracy>\S+)"

REPORTS = """
import os, signal, subprocess, sys, time
def report(epoch, loss=0.5, accuracy=0.9, seconds=0.02):
    time.sleep(seconds)
    print(f"epoch {epoch} loss {loss} accuracy {accuracy}")
"""
"""The beginning of the programs."""

SETTINGS = {"seed": 1, "memory_limit_mib": None}


def command_with_defaults(**keys):
    """A command as the rules get it, from the keys that a config names."""
    metrics = {"metrics": {"format": "regex", "pattern": PATTERN}}
    config = {"experiments": {"e": {"commands": {"c": {"command": "python program.py"} | metrics | keys}}}}
    return with_defaults(config, shipped_files()[0])["experiments"]["e"]["commands"]["c"]


def run_script(folder: Path, program: str = "", *, epochs=2, settings=SETTINGS, image=None, **keys):
    """Start run_command.py on a program (in Python); return the process, whose record is folder/record.json."""
    text, files_folder = REPORTS + program, folder / "files"
    files_folder.mkdir(parents=True, exist_ok=True)
    (files_folder / "program.py").write_text(text)
    file = {"path": "program.py", "urls": ["program.py"], "sha256": hashlib.sha256(text.encode()).hexdigest()}
    of = "e/c/own_data/command-cpu"
    write_job(folder, of, {"sources": ["sources.json"]}, settings, command_with_defaults(files=[file], **keys))
    options = {"plan": folder / "plan.json", "run": f"{of}/epochs-{epochs}/repeat-1"}
    options |= {"log": folder / "log", "out": folder / "record.json"} | ({"image": image} if image else {})
    command = [sys.executable, str(REPOSITORY / "workflow" / "scripts" / "run_command.py")]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    here = environment(**{MARK: str(folder), "TRAINMARK_LOCK_FOLDER": str(folder / "locks")})
    return subprocess.Popen(command, env=here, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def processes_of(folder):
    """The ids of the living processes of a run, found by an environment variable that they inherit."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables, stat = (entry / "environ").read_bytes(), (entry / "stat").read_text()
        except OSError:
            continue
        if f"{MARK}={folder}".encode() in variables.split(b"\0") and stat.rpartition(")")[2].split()[0] != "Z":
            found.append(int(entry.name))
    return found
