"""Programs that trainmark starts end: within a time limit, or there is a reason why not."""

import ast
import os
import re
import subprocess
import sys
import time

import psutil
import pytest
from harness import REPOSITORY, on_path, wait_for

from trainmark.cluster import listing
from trainmark.cluster.schedulers import SCHEDULERS
from trainmark.commands import launch
from trainmark.errors import CommandError, DeviceError, SilentError
from trainmark.frameworks import registry
from trainmark.machine import git, gpus, provenance, ranks
from trainmark.machine.programs import run_program
from trainmark.paper import kit

STARTERS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
OF_OS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
REASON = "# No time limit: "


def starts_a_program(node):
    """Whether a node names what starts programs: of subprocess, os or asyncio, or Snakemake's shell."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module, name = node.value.id, node.attr
        of_os = module == "os" and (name in OF_OS or name.startswith(("exec", "spawn")))
        return of_os or (module == "subprocess" and name in STARTERS) or name.startswith("create_subprocess")
    return isinstance(node, ast.Name) and node.id == "shell"


def is_limited(text, node, function):
    """Whether a call has a time limit, its process is waited for with one, or a comment beside it says why not."""
    *before, _ = text.split("\n")[: node.lineno]
    calls = [one for one in ast.walk(function) if isinstance(one, ast.Call)]
    own = [one for one in calls if one.func is node]
    waits = [one for one in calls if getattr(one.func, "attr", "") in ("wait", "communicate")]
    return (
        any(REASON in line for line in before[-3:])
        or any(word.arg == "timeout" for one in own for word in one.keywords)
        or (getattr(node, "attr", "") == "Popen" and any(one.args or one.keywords for one in waits))
    )


def without_limit(text):
    """The lines of a module's text where a program is started without a time limit or a reason."""
    tree = ast.parse(text)
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    annotations = [
        below
        for one in ast.walk(tree)
        for annotation in (getattr(one, "annotation", None), getattr(one, "returns", None))
        for below in ast.walk(annotation or ast.Pass())
    ]
    found = []
    for node in filter(starts_a_program, ast.walk(tree)):
        if node in annotations:
            continue
        around = [one for one in functions if one.lineno <= node.lineno <= one.end_lineno]
        if not is_limited(text, node, around[-1] if around else tree):
            found.append(node.lineno)
    # `from subprocess import run` would be another name for it.
    hidden = ("subprocess", "pexpect", "pty", "sh")
    return found + [one.lineno for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module in hidden]


def test_every_program_that_the_library_starts_has_a_time_limit_or_a_reason():
    files = [*(REPOSITORY / "workflow").rglob("*.py"), *(REPOSITORY / "workflow").rglob("*.smk")]
    files += [*(REPOSITORY / "envs").rglob("*.py"), REPOSITORY / "Snakefile"]
    texts = {str(file.relative_to(REPOSITORY)): file.read_text() for file in files}
    library = {name: text for name, text in texts.items() if name.endswith(".py")}
    assert {name: lines for name, text in library.items() if (lines := without_limit(text))} == {}
    assert sum(map(starts_a_program, (node for text in library.values() for node in ast.walk(ast.parse(text))))) >= 9
    assert [name for name, text in texts.items() if name not in library and "subprocess" in text] == []


@pytest.mark.parametrize(
    "line",
    ["subprocess.run(a, check=False)", "f(subprocess.run)", "subprocess.Popen(a).wait()", "os.execv(a, b)", "shell(a)"],
)
def test_a_program_without_either_is_found(line):
    assert without_limit(f"def f():\n    {line}\n") == [2]
    assert without_limit(f"def f():\n    {REASON}it is ours.\n    {line}\n") == []


def has_ended(file):
    """Whether the process whose id is in a file has ended."""
    try:
        return psutil.Process(int(file.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- at the limit -------------------------------------------------------------------------------------------------


def compiled(folder):
    return kit._compile(folder)


def started_workers(folder):
    ranks.check_launcher("mpiexec", 1)


def found_packages(folder):
    registry.check_installed(["chainer"])


def read_events(folder):
    launch.scalars_of(["python"], folder / "events", os.environ, folder)


def described_environment(folder):
    assert launch.environment_of(["python"], os.environ, folder, None)["python"] == "unknown"


def listed_gpus(folder):
    assert gpus.find_gpus() == []


def commit_of_code(folder):
    assert provenance._git_state(folder / "code.py") == (None, None)


def asked_scheduler(folder):
    listing.ask(["squeue"], SCHEDULERS["slurm"])


@pytest.mark.parametrize(
    ("program", "start", "sentence"),
    [
        ("latexmk", compiled, r"; LaTeX can't compile example.tex \(latexmk was stopped after 1 seconds\)"),
        ("mpiexec", started_workers, "the launcher mpiexec has not started 1 workers after 1 seconds; allowed: "),
        ("python", found_packages, "bin/python, with which jobs would start, has not said in 1 seconds which packages"),
        ("python", read_events, r"event files in events can't be read \(.*python has not answered in 1 seconds\)"),
        ("python", described_environment, "its packages are not known: python has not answered in 1 seconds"),
        (
            "nvidia-smi",
            listed_gpus,
            "nvidia-smi -L has not answered in 1 seconds, so its driver or a GPU hangs; restart",
        ),
        ("git", commit_of_code, "^$"),
        ("squeue", asked_scheduler, "squeue did not answer in a minute"),
    ],
)
@pytest.mark.parametrize(
    "body", ["sleep 60 &\nwait", "trap '' TERM INT\nsleep 60"], ids=["waits for its child", "ignores signals"]
)
def test_a_program_that_hangs_is_killed_and_a_sentence_says_so(
    tmp_path, monkeypatch, capfd, program, start, sentence, body
):
    """With all that it started."""
    monkeypatch.setenv("PATH", on_path(tmp_path, f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{body}\n", name=program))
    monkeypatch.setattr(sys, "executable", "python")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    names = "machine.gpus.LISTING", "paper.kit.LATEX"
    for name in (*names, "machine.ranks.LAUNCH", "frameworks.registry.FIND", "commands.launch.TIMEOUT"):
        monkeypatch.setattr(f"trainmark.{name}_SECONDS", 1)
    monkeypatch.setattr(git, "SECONDS", 1)
    monkeypatch.setattr(listing, "run_program", lambda words, _, **options: run_program(words, 1, **options))
    begin = time.monotonic()
    try:
        said = start(tmp_path) or capfd.readouterr().out
    except (CommandError, DeviceError, SilentError) as error:
        said = str(error)
    assert time.monotonic() - begin < 20
    assert re.search(sentence, said), said
    wait_for(lambda: has_ended(tmp_path / "pid"), process=None, seconds=5)


def test_a_program_that_asks_gets_no_answer_and_its_children_end_with_it(tmp_path):
    assert run_program(["sh", "-c", "read answer || echo none"], 10).stdout == "none\n"
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["sh", "-c", f"sh -c 'echo $$ > {tmp_path}/pid; sleep 61; true'; true"], 1)
    wait_for(lambda: has_ended(tmp_path / "pid"), process=None, seconds=5)
