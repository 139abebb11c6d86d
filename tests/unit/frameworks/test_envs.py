"""Each conda environment lists what the scripts of its rules import. (None was ever created; there is no conda.)"""

import re
import sys
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from textwrap import indent

import grimp
import pytest
import yaml
from harness import REPOSITORY

from trainmark.datasets.catalogue import known_formats
from trainmark.frameworks.registry import known_frameworks
from trainmark.plan.code_digests import modules_of

ENVS = REPOSITORY / "envs"
RULES = [file.read_text() for file in sorted((REPOSITORY / "workflow" / "rules").glob("*.smk"))]
IMPORTS = grimp.build_graph("trainmark", include_external_packages=True, exclude_type_checking_imports=True)

ELSEWHERE = {"chainer": {"chainer", "pkg_resources"}}
"""Packages that an environment has without listing them: Chainer is installed by its post-deploy script; setuptools,
which is listed, contains pkg_resources."""

BROUGHT_BY = {"urllib3": "requests", "markupsafe": "jinja2"}
"""Packages that another package requires, because their classes are in its interface."""

INSTEAD = {"tensorflow_cpu": "tensorflow", "cupy_cuda12x": "cupy"}
"""Distribution of a package installed here, by the name that an environment lists."""


def jobs(texts: Iterable[str] = RULES) -> list[tuple[str, str]]:
    """(script, environment) of each rule, also in loops; a rule for any framework has one pair per framework."""
    found = set()
    for text in texts:
        for rule in re.split(r"^\s*rule\b", text, flags=re.M)[1:]:
            script = re.search(r'script=f"\{SCRIPTS\}/(\w+)\.py"', rule)
            env = re.search(r'conda:\s+"\.\./\.\./envs/(.+)\.yaml"', rule)
            if script and env:
                names = known_frameworks() if env[1] == "{framework}" else [env[1]]
                found |= {(script[1], name) for name in names}
    return sorted(found)


def named_in(env: str) -> set[str]:
    """Package names that an environment lists, for conda and pip, without versions and extras."""
    listed = yaml.safe_load((ENVS / f"{env}.yaml").read_text())["dependencies"]
    lines = [line for entry in listed for line in (entry["pip"] if isinstance(entry, dict) else [entry])]
    return {normal(re.match(r"[\w.-]+", line)[0]) for line in lines}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def imported_by(script: str, env: str) -> set[str]:
    """Third-party packages that a script imports, also in functions, with its framework's adapter and all formats."""
    starts = [script]
    if env in known_frameworks():
        starts.append(f"trainmark.frameworks.{known_frameworks()[env].module}")
    if script == "prepare":
        starts += [f"trainmark.datasets.formats.{name}" for name in known_formats()]
    text = (REPOSITORY / "workflow" / "scripts" / f"{script}.py").read_text()
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", text, re.M))
    for module in modules_of(*starts)[1:]:
        imported |= IMPORTS.find_modules_directly_imported_by(module) if module in IMPORTS.modules else set()
    return {name for name in imported if "." not in name} - {*sys.stdlib_module_names, "trainmark"}


def of_another_framework(name: str, env: str) -> bool:
    """Whether an adapter of several frameworks imports this package only in another framework's environment."""
    own = known_frameworks()[env].packages if env in known_frameworks() else ()
    all_of_them = {one for framework in known_frameworks().values() for one in framework.packages}
    return name in all_of_them and name not in own


def missing_in(env: str, imported: set[str]) -> list[str]:
    """The packages that no line of the environment installs."""
    here = packages_distributions()
    named = named_in(env)
    missing = []
    for name in sorted(imported - ELSEWHERE.get(env, set())):
        brought_by = {INSTEAD.get(normal(one), normal(one)) for one in here.get(name, [name])}
        if not (brought_by | {BROUGHT_BY.get(name)}) & named and not of_another_framework(name, env):
            missing.append(name)
    return missing


def test_each_script_in_the_rules_is_a_job():
    named = set(re.findall(r"\{SCRIPTS\}/(\w+)\.py", "".join(RULES)))
    assert {script for script, _ in jobs()} == named >= {"train", "report", "plot"}


def test_a_rule_in_a_loop_is_a_job():
    """A rule that is indented and has no name in its head, and the rule after it."""
    rule = '    params:\n        script=f"{{SCRIPTS}}/{}.py",\n    conda:\n        "../../envs/{}.yaml"\n'
    looped = indent(f"rule:\n{rule.format('plot', 'report')}", "    ")
    first, last = (f"rule {one}:\n{rule.format(one, 'data')}" for one in ("pack", "download"))
    found = jobs([f"{first}\n\nfor figure in FIGURES:\n\n{looped}\n\n{last}"])
    assert found == [("download", "data"), ("pack", "data"), ("plot", "report")]


@pytest.mark.parametrize(("script", "env"), jobs())
def test_an_environment_has_what_its_scripts_import(script, env):
    imported = imported_by(script, env)
    assert imported
    assert not missing_in(env, imported)


def test_each_environment_belongs_to_a_rule():
    assert {path.stem for path in ENVS.glob("*.yaml")} == {env for _, env in jobs()}


def test_a_missing_package_is_found():
    assert missing_in("report", {"pandas", "requests", "yaml"}) == ["requests"]
