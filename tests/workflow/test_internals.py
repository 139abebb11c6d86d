"""Each part of Snakemake that has no documented interface does on the locked Snakemake what trainmark uses it for."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from types import FunctionType

import pytest
from harness import REPOSITORY, importing

from trainmark.session import internals

SNAKEFILE = """
import json
import logging
from dataclasses import asdict

from trainmark.session import internals

FOUND = {}


def note(name, *arguments, then=lambda value: value):
    try:
        FOUND[name] = then(getattr(internals, name)(*arguments))
    except Exception as error:
        FOUND[name] = repr(error)


def started():
    FOUND["call_at_start"] = "called"


class Passing(logging.Handler):
    seen = 0

    def emit(self, record):
        Passing.seen += getattr(record, "event", None) == "job_info"


def values(call):
    later = {"runs_here": call.runs_here(), "scheduler": call.scheduler()}
    return asdict(call) | later | {"deployment": sorted(call.deployment)}


note("call_of", workflow, then=values)
note("replace_terminal_handler", lambda inner: Passing(), then=lambda handler: type(handler).__name__)


rule all:
    input:
        "made",


rule made:
    output:
        "made",
    params:
        script="no_script.py",
    shell:
        config.get("command", "echo new > {output}")


onstart:
    note("set_group_size", workflow, "g", 3, then=lambda _: workflow.group_settings.group_components["g"])
    note("jobs_to_run", workflow, then=lambda jobs: sorted(job.rule.name for job in jobs))
    note("lift_job_rate", workflow, then=lambda _: bool(workflow.scheduler.job_rate_limiter))
    note("software_of", workflow, "made", {}, then=lambda found: [found[0], "no_script.py" in found[1]()])


internals.call_at_start(workflow, started)


def ended():
    note("failed_by_itself", workflow)
    FOUND["messages"] = Passing.seen
    with open("found.json", "w") as stream:
        json.dump(FOUND, stream, default=str)


onsuccess:
    ended()


onerror:
    ended()
"""

OF_CALL = {
    "plans_jobs": True, "module": None, "config_of_module": False, "moves_results": False, "configfiles": [],
    "runs_here": True, "cores": 1, "runs_jobs": True, "scheduler": None, "deployment": [], "prefixes": {},
    "is_dry_run": False, "hides_jobs": True, "has_colour": False,
}  # fmt: skip

EXPECTED = {
    "lift_job_rate": False, "replace_terminal_handler": "Passing", "set_group_size": 3,
    "jobs_to_run": ["all", "made"], "software_of": ["", True], "call_at_start": "called", "failed_by_itself": False,
    "messages": 2,
}  # fmt: skip


def found(folder, *options):
    (folder / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--quiet", "rules", "--nocolor", *options]
    done = subprocess.run(command, cwd=folder, env=importing(), capture_output=True, text=True, check=False)
    assert (folder / "found.json").exists(), done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.fixture(scope="module")
def of_call(tmp_path_factory):
    folder = tmp_path_factory.mktemp("call")
    values = found(folder, "--config", "word=1")
    assert (folder / "made").read_text() == "new\n"
    call = values.pop("call_of")
    assert (call.pop("snakefile"), call.pop("config")) == (str(folder / "Snakefile"), {"word": 1})
    return values | call


@pytest.mark.parametrize("name", EXPECTED | OF_CALL)
def test_a_part_of_snakemake(of_call, name):
    assert of_call[name] == (EXPECTED | OF_CALL)[name]


def test_every_function_is_tested_here():
    own = (value for value in vars(internals).values() if getattr(value, "__module__", "") == internals.__name__)
    functions = {value.__name__ for value in own if isinstance(value, FunctionType)}
    assert {name for name in functions if not name.startswith("_")} == {*EXPECTED, "call_of"} - {"messages"}
    assert {field.name for field in fields(internals.Call)} == {*OF_CALL, "snakefile", "config"}


def test_the_end_of_a_call_in_which_a_job_failed(tmp_path):
    assert found(tmp_path, "--config", "command=false")["failed_by_itself"] is True


def test_no_other_module_imports_snakemake():
    modules = (REPOSITORY / "workflow" / "scripts").rglob("*.py")
    assert {file.name for file in modules if re.search("(from|import) snakemake", file.read_text())} == {"internals.py"}
