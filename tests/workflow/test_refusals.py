"""What the workflow refuses, and how it says so: one sentence, before any job, and never a traceback."""

import re
import sys

from harness import REPOSITORY, finish, on_path, snakemake, write_config

BLOCKED = "numpy pandas pyarrow matplotlib sklearn PIL chainer keras tensorflow jax torch cupy tqdm filelock"


def run_config(experiment, **extra):
    """A config of one experiment with one run."""
    return {"experiments": {"one": {"recipes": ["mnist-mlp-flux"], "epochs": [1], "repeats": 1, **experiment}}, **extra}


def test_dry_run_needs_nothing_but_snakemake(tmp_path):
    """Every other package is made impossible to import."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        f"import sys\nfor name in {BLOCKED.split()!r}:\n    sys.modules[name] = None\n"
    )
    finish(tmp_path, "-n", "--configfile", str(REPOSITORY / "config" / "originals.yaml"), PYTHONPATH=str(hook))


def test_braces_in_a_path_are_one_sentence(tmp_path):
    folder = tmp_path / "a{b}"
    folder.mkdir()
    process = snakemake(folder, "-n")
    assert process.returncode == 1
    assert process.printed.endswith(f"Snakemake takes braces in a path for a variable; rename the folder {folder}\n")


def test_a_call_without_hooks_is_refused(tmp_path):
    process = snakemake(tmp_path, "--until", "prepare_dataset", "--cores", "1", "--no-hooks")
    assert process.returncode == 1
    assert "unless it is called with --no-hooks" in process.printed and "Traceback" not in process.printed


def test_a_link_to_the_snakefile_leads_to_the_clone(tmp_path):
    (tmp_path / "Snakefile").symlink_to(REPOSITORY / "Snakefile")
    finish(tmp_path, "-n")


def test_broken_config_is_one_sentence(tmp_path):
    """Which sentences there are: tests/unit/config. A value of the command line is named as such."""
    name = write_config(tmp_path, run_config({"epochs": [-1]}))
    refused = snakemake(tmp_path, "--cores", "1", "--configfile", name, "--config", "mirorr=x")
    assert refused.returncode == 1
    assert "experiment.yaml, line 4: experiments.one.epochs[0]: found -1 (a whole number); allowed" in refused.printed
    assert re.search("^--config: mirorr: unknown key; .* did you mean mirror.$", refused.printed, re.MULTILINE)
    assert "Traceback" not in refused.printed
    assert not (tmp_path / "results").exists()


def test_a_framework_that_is_not_installed_stops_before_any_job(tmp_path):
    finds_no_torch = f'#!/bin/sh\ncase "$*" in *find_spec*) echo torch ;; *) exec "{sys.executable}" "$@" ;; esac\n'
    name = write_config(tmp_path, run_config({"devices": ["cpu"], "frameworks": ["torch", "chainer"]}))
    path = on_path(tmp_path, finds_no_torch)
    refused = snakemake(tmp_path, "--cores", "2", "--configfile", name, PATH=path)
    assert refused.returncode == 1
    last = refused.printed.splitlines()[-1]
    assert last.startswith("the framework torch needs the package torch, which is not installed; `make torch` installs")
    assert not (tmp_path / "results" / "datasets").exists()
