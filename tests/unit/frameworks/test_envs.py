"""Each environment lists what the scripts of its rules import, in the versions of the lock, and no other framework."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import product

import grimp
import pytest
import yaml
from gpu_bundle import read_lock
from harness import REPOSITORY

from trainmark.datasets.catalogue import known_formats
from trainmark.frameworks.registry import Framework, known_frameworks
from trainmark.session.environments import conda_file, environment_of
from trainmark.trainer import DEVICES, Trainer

ENVS = REPOSITORY / "envs"
ENVIRONMENTS = sorted(file.stem for file in ENVS.glob("*.yaml") if file.stem != "images")
RULES = [file.read_text() for file in sorted((REPOSITORY / "workflow" / "rules").glob("*.smk"))]
LOCKED = {
    part: {
        name: version
        for file in (f"requirements-{part}.txt", "requirements.txt")
        for name, (version, _) in read_lock((REPOSITORY / file).read_text(), "3.11").items()
    }
    for part in ("gpu-cuda12", "torch")
}
"""The versions of the locks by package, for environments of torch and for the others."""


BRINGING = packages_distributions()
"""The installed distributions of each package."""

IMPORTS = grimp.build_graph("trainmark", include_external_packages=True, exclude_type_checking_imports=True)

ELSEWHERE = {"chainer": {"chainer", "pkg_resources"}}
"""Packages that an environment has without listing them: Chainer is installed by its post-deploy script; setuptools,
which is listed, contains pkg_resources."""

OF_SEVERAL_WORKERS = {"mpi4py"}
"""Packages that only runs with several workers import: MPI is the machine's own (docs/workers.md)."""

BROUGHT_BY = {"urllib3": "requests", "markupsafe": "jinja2"}
"""Packages that another package requires, because their classes are in its interface."""

BUILDS = {"tensorflow_cpu": "tensorflow", "cupy_cuda12x": "cupy"}
"""Package that a distribution installs."""


def jobs() -> list[tuple[str, str]]:
    """(script, environment) of each rule, also in loops; a rule for any framework has one pair per framework."""
    found = set()
    for text in RULES:
        for rule in re.split(r"^\s*rule\b", text, flags=re.M)[1:]:
            script = re.search(r'script=f"\{SCRIPTS\}/(\w+)\.py"', rule)
            env = re.search(
                r'conda:\s+(?:"\.\./\.\./envs/(.+)\.yaml"|(?:trained\()?RESOURCES\.framework_environment)', rule
            )
            if script and env:
                names = (
                    [env[1]]
                    if env[1]
                    else {environment_of(Trainer(*one)) for one in product(known_frameworks(), DEVICES)}
                )
                found |= {(script[1], name) for name in names}
    return sorted(found)


def pins_in(text: str) -> dict[str, str]:
    """Versions in the pip section of an environment by package."""
    return dict(line.split("==") for line in yaml.safe_load(text)["dependencies"][-1]["pip"])


def named_in(env: str) -> set[str]:
    """Packages that pip installs in an environment."""
    return {normal(name) for name in pins_in(conda_file(env).read_text())}


def wrong_pins(text: str) -> list[str]:
    """What an environment lists in another version than the lock, or beside it."""
    locked = LOCKED["torch" if "torch" in pins_in(text) else "gpu-cuda12"]
    other = [f"{name}=={version}" for name, version in pins_in(text).items() if locked.get(name) != version]
    beside = yaml.safe_load(text)["dependencies"][:-1]
    return other + [pin for pin in beside if not re.match(r"(python=3\.11|pip=)", pin)]


def framework_of(env: str) -> Framework | None:
    return known_frameworks().get(env.removesuffix("-gpu"))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def imported_by(script: str, env: str) -> set[str]:
    """Third-party packages that a script imports, also in functions, with its framework's adapter and all formats."""
    text = (REPOSITORY / "workflow" / "scripts" / f"{script}.py").read_text()
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", text, re.M))
    starts = re.findall(r"^\s*from (trainmark[.\w]+) import", text, re.M)
    if framework := framework_of(env):
        starts.append(f"trainmark.frameworks.{framework.module}")
    if script == "prepare":
        starts += [f"trainmark.datasets.formats.{name}" for name in known_formats()]
    for start in starts:
        imported |= IMPORTS.find_upstream_modules(start)
    return {name for name in imported if "." not in name} - {*sys.stdlib_module_names, "trainmark"}


def of_another_framework(name: str, env: str) -> bool:
    """Whether an adapter of several frameworks imports this package only in another framework's environment."""
    own = framework_of(env).packages if framework_of(env) else ()
    return name in {one for framework in known_frameworks().values() for one in framework.packages} - {*own}


def missing_in(env: str, imported: set[str]) -> list[str]:
    """The packages that no line of the environment installs."""
    named = named_in(env)
    named |= {BUILDS.get(name, name) for name in named}
    missing = []
    for name in sorted(imported - OF_SEVERAL_WORKERS - ELSEWHERE.get(env.removesuffix("-gpu"), set())):
        brought_by = {name, *map(normal, BRINGING.get(name, ()))}
        if not (brought_by | {BROUGHT_BY.get(name)}) & named and not of_another_framework(name, env):
            missing.append(name)
    return missing


def test_each_script_in_the_rules_is_a_job():
    named = set(re.findall(r"\{SCRIPTS\}/(\w+)\.py", "".join(RULES)))
    named.remove("run_command")  # which Snakemake's own Python runs
    assert {script for script, _ in jobs()} == named >= {"train", "report", "plot"}
    assert {env for _, env in jobs()} == set(ENVIRONMENTS)


@pytest.mark.parametrize(("script", "env"), jobs())
def test_an_environment_has_what_its_scripts_import(script, env):
    imported = imported_by(script, env)
    assert imported
    assert not missing_in(env, imported)


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_an_environment_has_the_versions_of_the_lock_and_no_other_framework(env):
    assert wrong_pins(conda_file(env).read_text()) == []
    assert not [name for name in named_in(env) if of_another_framework(BUILDS.get(name, name), env)]


def test_chainers_script_installs_the_version_of_the_lock():
    for env in ("chainer", "chainer-gpu"):
        assert f" chainer=={LOCKED['torch']['chainer']}\n" in (ENVS / f"{env}.post-deploy.sh").read_text()


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_an_environment_has_what_its_group_names(env):
    """Else `make lock` was not called after a change of the group."""
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]
    waiting, needed = [*groups[f"env-{env}"]], {"chainer"} if env.startswith("chainer") else set()
    assert waiting and not {"chainer"} & named_in(env)
    for need in waiting:
        if isinstance(need, dict):
            waiting += groups[need["include-group"]]
        else:
            assert normal(re.match(r"[\w.-]+", need)[0]) in named_in(env) | needed
