"""Programs that trainmark starts end: within a time limit, or there is a reason why not."""

import ast
import os
import re
import sys
import time

import psutil
import pytest
from harness import REPOSITORY, on_path, wait_for

from trainmark.cluster import listing
from trainmark.cluster.schedulers import SCHEDULERS
from trainmark.commands import launch
from trainmark.errors import TrainmarkError
from trainmark.frameworks import registry
from trainmark.machine import gpus, programs, provenance, ranks

STARTS = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)|pty\.\w+|pexpect\.\w+|shell|"
    r"os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*|fork\w*)|asyncio\.create_subprocess\w+"
)
REASON = "# No time limit: "


def without_limit(text):
    """The lines of a module that start a program without a time limit there and without a reason above."""
    tree, lines = ast.parse(text), text.split("\n")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    limited = [one for one in calls if any(key.arg == "timeout" for key in one.keywords)]
    limited = [one for one in limited if "timeout=None" not in ast.unparse(one)]
    waits = limited + [one for one in calls if one.args and getattr(one.func, "attr", "") == "wait"]
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "subprocess"]
    for node in ast.walk(tree):
        name = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
        is_type = name == "subprocess.Popen" and node not in [one.func for one in calls]
        if not STARTS.fullmatch(name) or is_type or node in [one.func for one in limited]:
            continue
        after = [one.lineno for body in bodies for one in waits if body.lineno <= node.lineno <= body.end_lineno]
        is_waited_for = any(node.lineno <= line for line in after) and name == "subprocess.Popen"
        if not is_waited_for and not any(REASON in line for line in lines[: node.lineno - 1][-3:]):
            found.append(node.lineno)
    return found


def test_every_program_that_the_library_starts_has_a_time_limit_or_a_reason():
    texts = {path: path.read_text() for name in ("workflow", "envs") for path in (REPOSITORY / name).rglob("*.py")}
    assert {path: lines for path, text in texts.items() if (lines := without_limit(text))} == {}
    assert sum(text.count(REASON) for text in texts.values()) == 11
    rules = [REPOSITORY / "Snakefile", *(REPOSITORY / "workflow" / "rules").iterdir()]
    assert [path for path in rules if re.search(r"subprocess|os\.system|\bshell\(", path.read_text())] == []


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(a, check=False)",
        "subprocess.run(a, timeout=None)",
        "partial(subprocess.run, check=False)",
        "subprocess.Popen(a).wait()",
        "os.execv(a, b)",
        "text = shell(a)",
        "from subprocess import run",
    ],
)
def test_a_program_without_either_is_found(line):
    assert without_limit(f"def f():\n    {line}\n") == [2]
    if "import" not in line:
        assert without_limit(f"def f():\n    {REASON}it is ours.\n    {line}\n") == []


def test_what_has_a_limit_is_not_found():
    assert without_limit("def f(a: subprocess.Popen):\n    subprocess.run(a, timeout=5)\n") == []
    assert without_limit("def f():\n    with subprocess.Popen(a) as b:\n        b.communicate(timeout=5)\n") == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("read answer || echo none", "none\n"),
        ("echo Submitted batch job 77; sleep 20 &", "Submitted batch job 77\n"),
        ("sleep 20", "`sh -c sleep 20` has not answered in 1 seconds"),
    ],
)
def test_a_program_is_waited_for_alone_and_not_for_what_it_left_or_once_it_can_not_be_killed(monkeypatch, script, said):
    """A program that asks gets no answer."""
    monkeypatch.setattr(programs, "SECONDS", 1)
    monkeypatch.setattr(programs, "_kill", lambda _: None)
    begin = time.monotonic()
    try:
        text = programs.run_program(["sh", "-c", script]).stdout
    except TrainmarkError as error:
        text = str(error)
    assert text.startswith(said)
    assert time.monotonic() - begin < 15


def has_ended(file):
    """Whether the process whose id is in a file has ended."""
    try:
        return psutil.Process(int(file.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("program", "start", "said"),
    [
        ("mpiexec", lambda _: ranks.check_launcher("mpiexec", 1), "{}"),
        ("python", lambda _: registry.check_installed(["chainer"]), "{}"),
        ("python", lambda folder: launch.scalars_of(["python"], folder, os.environ, folder), "be read {}"),
        ("python", lambda folder: launch.environment_of(["python"], os.environ, folder, None), "are not known: {}"),
        ("nvidia-smi", lambda _: gpus.find_gpus(), "{}"),
        ("git", lambda folder: provenance._git_state(folder / "code.py"), r"\(None, None\)"),
        ("squeue", lambda _: listing.ask(["squeue"], SCHEDULERS["slurm"]), "{}"),
    ],
)
@pytest.mark.parametrize("body", ["sh -c 'echo $$ > {}; sleep 60; :'", "trap '' TERM INT; echo $$ > {}; sleep 60"])
def test_what_hangs_is_killed_with_its_children_and_a_sentence_says_so(
    tmp_path, monkeypatch, capfd, program, start, said, body
):
    monkeypatch.setenv("PATH", on_path(tmp_path, f"#!/bin/sh\n{body.format(tmp_path / 'pid')}\n:\n", name=program))
    monkeypatch.setattr(sys, "executable", "python")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(programs, "SECONDS", 1)
    begin = time.monotonic()
    try:
        text = str(start(tmp_path))
    except TrainmarkError as error:
        text = str(error)
    assert time.monotonic() - begin < 20
    sentence = rf"\(?`.*{program}.*` has not answered in 1 seconds and was ended; call it by hand"
    text = capfd.readouterr().out + text
    assert re.search(said.format(sentence), text), text
    wait_for(lambda: has_ended(tmp_path / "pid"), process=None, seconds=5)
