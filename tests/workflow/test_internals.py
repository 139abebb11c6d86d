"""Each part of Snakemake that has no documented interface does on the locked Snakemake what trainmark uses it for."""

import json
import re
import subprocess
import sys
from types import FunctionType

import pytest
from harness import REPOSITORY, importing

from trainmark.plan import internals

SNAKEFILE = """
import json
import logging

from snakemake.io import is_flagged
from trainmark.plan import internals

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


OF_CALL = [
    "plans_jobs", "name_of_module", "files_of_call", "is_touch", "hides_jobs", "is_dry_run",
    "has_colour", "runs_here", "cluster_profile", "deployment_methods",
]
for name in OF_CALL:
    note(name, workflow, then=lambda value: sorted(value) if isinstance(value, set) else value)
note("changes_paths", workflow, "results/plan.json")
note("given_config", workflow, config, "default.yaml")
note("keep_temporary_files", workflow, then=lambda _: workflow.storage_settings.notemp)
note("deployment_prefix", workflow, "conda")
note("add_container_option", workflow, "--nv", then=lambda _: workflow.deployment_settings.apptainer_args)
stamp_of = lambda _: workflow.modifier.path_modifier.apply_default_storage("folder/")
note("make_folder_by", workflow, "folder", "again", then=stamp_of)
note("ancient", "a", then=lambda file: is_flagged(file, "ancient"))
note("before_update", "a", then=lambda file: is_flagged(file, "before_update"))
note("replace_terminal_handler", lambda inner: Passing(), then=lambda handler: type(handler).__name__)


def once_more(wildcards):
    note("makes_selected", workflow)
    note("forces_jobs", workflow)
    note("has_no_hooks", workflow)
    note("compares_parameters", workflow)
    note("set_group_size", workflow, "g", 3, then=lambda _: workflow.group_settings.group_components["g"])
    note("make_again", workflow, ["again"])
    return []


rule all:
    input:
        "again",


rule again:
    input:
        once_more,
        "dated",
        ancient("undated"),
    output:
        "again",
    params:
        script="no_script.py",
    shell:
        config.get("command", "echo new > {output}")


onstart:
    jobs = internals.jobs_to_run(workflow)
    note("jobs_to_run", workflow, then=lambda jobs: sorted(job.rule.name for job in jobs))
    again = next(job for job in jobs if job.rule.name == "again")
    note("dated_inputs", again)
    note("lift_job_rate", workflow, then=lambda _: bool(workflow.scheduler.job_rate_limiter))
    note("submitted_rules", workflow)
    note("environment_of_job", workflow, "again", {})
    note("output_of_help", workflow, "again", {}, then=lambda text: "no_script.py" in text)


internals.call_at_start(workflow, started)


def ended():
    note("failed_by_itself", workflow)
    FOUND["messages"] = Passing.seen
    note("replace_all_handlers", Passing(), then=lambda _: len(logging.getLogger("snakemake.logging").handlers))
    with open("found.json", "w") as stream:
        json.dump(FOUND, stream, default=str)


onsuccess:
    ended()


onerror:
    ended()
"""

EXPECTED = {
    "plans_jobs": True, "name_of_module": None, "is_touch": False, "keep_temporary_files": True,
    "makes_selected": False, "forces_jobs": False, "dated_inputs": ["dated"],
    "compares_parameters": True, "has_no_hooks": False, "hides_jobs": True, "is_dry_run": False, "has_colour": False,
    "runs_here": True, "cluster_profile": None, "deployment_methods": [], "changes_paths": False,
    "given_config": [["default.yaml"], {}, None], "deployment_prefix": "", "add_container_option": " --nv",
    "make_folder_by": "folder/",
    "ancient": True, "before_update": True, "set_group_size": 3, "replace_terminal_handler": "Passing",
    "make_again": None, "jobs_to_run": ["again", "all"], "lift_job_rate": False, "submitted_rules": ["again", "all"],
    "replace_all_handlers": 1,
    "environment_of_job": None, "output_of_help": True, "call_at_start": "called", "failed_by_itself": False,
}  # fmt: skip


def found(folder, *options):
    (folder / "Snakefile").write_text(SNAKEFILE)
    for name in ("again", "dated", "undated"):
        (folder / name).write_text("old\n")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--quiet", "rules", "--nocolor", *options]
    done = subprocess.run(command, cwd=folder, env=importing(), capture_output=True, text=True, check=False)
    assert (folder / "found.json").exists(), done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.fixture(scope="module")
def of_call(tmp_path_factory):
    folder = tmp_path_factory.mktemp("call")
    values = found(folder)
    assert (folder / "again").read_text() == "new\n"
    assert values.pop("files_of_call") == ["--snakefile", str(folder / "Snakefile")]
    return values


@pytest.mark.parametrize("name", EXPECTED)
def test_a_part_of_snakemake(of_call, name):
    assert of_call[name] == EXPECTED[name]


ALONE = {"files_of_call", "print_one_job_of_each_rule"}
"""Functions that other tests call: tests/workflow/test_profiles.py and the fixture here."""


def test_every_function_is_tested_here():
    own = (value for value in vars(internals).values() if getattr(value, "__module__", "") == internals.__name__)
    functions = {value.__name__ for value in own if isinstance(value, FunctionType)}
    assert {name for name in functions if not name.startswith("_")} == {*EXPECTED, *ALONE}


def test_the_end_of_a_call_for_a_folder_in_which_a_job_failed(tmp_path):
    values = found(tmp_path, "./folder/", "--config", "command=false")
    assert values["failed_by_itself"] is True


def test_no_other_module_imports_snakemake():
    modules = (REPOSITORY / "workflow" / "scripts").rglob("*.py")
    assert {file.name for file in modules if re.search("(from|import) snakemake", file.read_text())} == {"internals.py"}
