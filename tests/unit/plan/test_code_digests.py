"""Each job's digest is of all the code that makes its result: what is declared is at least what is imported."""

import ast
import json
import shutil
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import grimp
import pytest

from trainmark.datasets.catalogue import known_formats
from trainmark.frameworks.registry import known_frameworks
from trainmark.networks.zoo import mlp
from trainmark.plan.code_digests import (
    DECLARED,
    SCRIPTS,
    WITHOUT_EFFECT,
    declared_files,
    digest,
    preparing_digest,
    training_code,
)
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import recipe_values
from trainmark.trainer import Trainer

RECIPE = RECIPES["mnist-mlp-keras"]

NOT_DECLARED = {
    "trainmark/errors.py": "error messages, and the exit status of a script that fails",
    "trainmark/console.py": "progress and messages on the terminal",
    "trainmark/session/*": "what a job gets of the machine, which its record holds",
    "trainmark/config/*": "the checked config; a job lists the values that it depends on",
    "trainmark/plan/*": "which jobs there are, and what each depends on",
    "trainmark/cluster/*": "where a job runs, which its record holds",
    "trainmark/verification/*": "reads results and makes none",
    "trainmark/remote/*": "where a call of snakemake runs",
    "trainmark/campaigns/*": "compares and merges results, which no job reads again",
    "trainmark/prediction/*": "predictions are printed and not kept",
    "trainmark/datasets/fetching/*": "whatever fetched a file, its SHA-256 is checked",
    "trainmark/datasets/images/mean.py": "of the mean image alone, whose SHA-256 a run holds",
    "trainmark/datasets/describe.py": "prints and keeps nothing",
    "trainmark/datasets/__init__.py": "a docstring",
    "trainmark/datasets/images/__init__.py": "a docstring",
    "trainmark/datasets/formats/__init__.py": "a docstring",
    "trainmark/frameworks/__init__.py": "a docstring",
    "trainmark/frameworks/registry.py": "finds the adapters; what it sets for one stands in the adapter",
    "trainmark/networks/zoo/__init__.py": "a docstring",
    "trainmark/commands/__init__.py": "a docstring",
    "trainmark/machine/*": "of a job that is not timed: how it waits for others",
    "trainmark/paper/archive.py": "packs files as they are",
    "trainmark/importing/*": "writes a file of the user's own, whose graph a run holds",
    **WITHOUT_EFFECT,
}
"""Files of the library that may be imported without being declared, and why."""


@pytest.fixture(scope="module")
def imports():
    return grimp.build_graph("trainmark", cache_dir=None)


def has_reason(name):
    return any(fnmatch(name, pattern) for pattern in NOT_DECLARED)


def undeclared(graph, declared, script, *modules):
    """The modules that a script and `modules` import, directly or through declared ones, and that are not declared."""
    waiting = [
        name
        for node in ast.walk(ast.parse((SCRIPTS / script).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("trainmark")
        for name in [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        if name in graph.modules
    ] + list(modules)
    seen, missing = set(), set()
    while waiting:
        if (module := waiting.pop()) in seen:
            continue
        seen.add(module)
        name = file_of(module)
        if name in declared:
            waiting += graph.find_modules_directly_imported_by(module)
        elif not has_reason(name):
            missing.add(name)
    return missing


def file_of(module):
    path = SCRIPTS.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).relative_to(SCRIPTS).as_posix()


@pytest.mark.parametrize("kind", DECLARED)
def test_what_a_script_imports_is_declared(imports, kind):
    further = known_formats() if kind == "prepare" else []
    declared = declared_files(kind, *(f"trainmark/datasets/formats/{name}.py" for name in further))
    assert undeclared(imports, declared, f"{kind}.py") == set()


@pytest.mark.parametrize("name", known_formats())
def test_what_a_format_imports_is_declared(imports, name):
    declared = declared_files("prepare", f"trainmark/datasets/formats/{name}.py")
    assert undeclared(imports, declared, "prepare.py", f"trainmark.datasets.formats.{name}") == set()


def of_trainer(scripts=SCRIPTS, framework="chainer", recipe=RECIPE, workers=1):
    return training_code(recipe, Trainer(framework, "cpu", workers=workers), scripts)["sha256"]


@pytest.mark.parametrize("framework", known_frameworks())
@pytest.mark.parametrize("script", ["train.py", "trace_training.py", "time_tuning.py", "evaluate.py"])
def test_what_a_trainer_imports_is_declared(imports, monkeypatch, framework, script):
    calls = []
    monkeypatch.setattr("trainmark.plan.code_digests.digest", lambda *patterns, scripts: calls.append(patterns))
    of_trainer(framework=framework)
    entry = known_frameworks()[framework]
    modules = {module for loop in entry.loops for workers in (1, 2) for module in entry.modules(loop, workers)}
    starts = [*(f"trainmark.frameworks.{module}" for module in modules), RECIPE.architecture.__module__]
    assert undeclared(imports, declared_files(*calls[0]), script, *starts) == set()


def test_every_file_of_the_library_is_of_some_job_or_has_a_reason():
    formats = [f"trainmark/datasets/formats/{name}.py" for name in known_formats()]
    declared = {
        name
        for kind in DECLARED
        for name in declared_files(kind, "trainmark/frameworks/*.py", "trainmark/networks/zoo/*.py", *formats)
    }
    files = {path.relative_to(SCRIPTS).as_posix() for path in SCRIPTS.glob("trainmark/**/*.py")}
    assert [name for name in sorted(files - declared) if not has_reason(name)] == []


@pytest.mark.parametrize(
    ("file", "affected"),
    [
        ("frameworks/chainer_adapter.py", {"chainer", "of two workers"}),
        ("frameworks/chainer_workers.py", {"chainer", "of two workers"}),
        ("frameworks/sharing.py", {"chainer", "of two workers", "keras-jax", "another network"}),
        ("frameworks/jax_kernels.py", {"keras-jax"}),
        ("networks/zoo/nin.py", {"another network", "report"}),
        ("training/run.py", {"chainer", "of two workers", "keras-jax", "another network"}),
        ("training/display.py", set()),
        ("recipes/catalogue.py", set()),
        ("parity/compare.py", {"certify", "collect", "plot", "report"}),
        ("datasets/formats/idx.py", {"prepare"}),
        ("datasets/formats/npz.py", set()),
        ("datasets/fetching/download.py", set()),
        ("tables/frames.py", {"collect", "plot", "report"}),
        ("report/figures/save.py", {"plot", "report"}),
        ("report/page.css", {"report"}),
    ],
)
def test_an_edit_changes_the_digests_of_what_it_affects(tmp_path, file, affected):
    def digests(scripts):
        return {
            "chainer": of_trainer(scripts),
            "of two workers": of_trainer(scripts, workers=2),
            "keras-jax": of_trainer(scripts, framework="keras-jax"),
            "another network": of_trainer(scripts, framework="torch", recipe=RECIPES["imagenet-nin"]),
            "prepare": preparing_digest("idx", scripts),
            **{kind: digest(kind, scripts=scripts) for kind in ("certify", "collect", "plot", "report")},
        }

    scripts = Path(shutil.copytree(SCRIPTS, tmp_path / "scripts"))
    edited = scripts / "trainmark" / file
    edited.write_text(edited.read_text() + "\n")
    before, after = digests(SCRIPTS), digests(scripts)
    assert {job for job, digest_before in before.items() if after[job] != digest_before} == affected


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": mlp.mlp_32},
        {"initializer": "lecun_normal"},
        {"optimizer": replace(RECIPE.optimizer, learning_rate=0.5)},
        {"batch_size": 1},
        {"input": replace(RECIPE.input, subtract_mean=True)},
        {"evaluated_splits": ("train", "test")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_a_run_is_in_the_values(change):
    assert json.dumps(recipe_values(replace(RECIPE, **change))) != json.dumps(recipe_values(RECIPE))
