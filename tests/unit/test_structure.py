"""The layers of the library hold, the contracts that say so find a breach, and what must be light is light."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import REPOSITORY

SCRIPTS = REPOSITORY / "workflow" / "scripts"
LIBRARY = SCRIPTS / "trainmark"
FRAMEWORK_PACKAGES = {"chainer", "cupy", "flax", "jax", "keras", "optax", "tensorflow", "torch"}


def lint_imports(scripts: Path) -> str:
    """What import-linter finds in the library below `scripts`; empty where every contract is kept."""
    linter = Path(sys.executable).with_name("lint-imports")
    command = [linter, "--config", REPOSITORY / "pyproject.toml", "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(scripts)}
    done = subprocess.run(command, cwd=scripts, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout


def python(code: str) -> subprocess.CompletedProcess:
    """Run code with the library and the scripts on the path, and nothing else of this process."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_contracts_are_kept():
    assert lint_imports(SCRIPTS) == ""


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("recipes/catalogue", "from trainmark.training.run import Training", "imports run downward"),
        ("networks/ops", "from trainmark.networks.graph import Architecture", "no cycles"),
        ("machine/gpus", "def f():\n    import torch.cuda", "jax and torch are imported in adapters alone"),
        ("frameworks/keras_adapter", "import chainer", "a framework is imported in its adapter alone"),
        ("training/run", "from trainmark.frameworks import flax_layers", "imported by its own parts alone: Flax's"),
        ("datasets/images/mean", "import cv2", "image decoders are imported in one place"),
        ("frameworks/adapter", "import pandas", "pandas, matplotlib and jinja2 are imported for reporting alone"),
        ("parity/certificate", "import trainmark.frameworks.adapter", "reporting reaches no training and no adapter"),
        ("datasets/prepared", "import trainmark.datasets.images.lists", "training reaches no image decoder"),
    ],
)
def test_a_planted_breach_breaks_its_contract(tmp_path, module, line, broken):
    shutil.copytree(LIBRARY, tmp_path / "trainmark", ignore=shutil.ignore_patterns("__pycache__"))
    with open(tmp_path / "trainmark" / f"{module}.py", "a") as file:
        file.write(f"\n{line}\n")
    assert re.search(rf"^.*{re.escape(broken)}.* BROKEN", lint_imports(tmp_path), re.MULTILINE)


def test_every_package_holds_a_docstring_and_nothing_else():
    """A package is loaded with every module in it, and counts into the code digest of each."""
    for file in LIBRARY.rglob("__init__.py"):
        (statement,) = ast.parse(file.read_text()).body
        assert isinstance(statement, ast.Expr), file


def test_every_file_is_written_whole():
    """The rest of one on a full disk leaves no room for the log that says so, and a broken report under its name."""
    written = re.compile(r"(\S+)\.(?:write_text|write_bytes|to_parquet|savefig)\((\w*)")
    found = {
        f"{path.relative_to(SCRIPTS)}: {match[0]}"
        for path in SCRIPTS.rglob("*.py")
        for match in written.finditer(path.read_text(encoding="utf-8"))
        if "part" not in match.groups() and "stream" not in match.groups()
    }
    assert not found


@pytest.mark.parametrize("script", ["train", "trace_training", "time_tuning", "predict"])
def test_a_script_that_computes_loads_no_numpy_before_it_holds_its_cpus(script):
    """numpy and the frameworks make their threads when they are imported."""
    done = python(f"import sys, {script}; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    assert not {"numpy", "scipy", "pandas", *FRAMEWORK_PACKAGES} & set(done.stdout.split())


def test_a_config_is_checked_and_planned_without_numpy_or_any_framework():
    """A dry run needs Snakemake alone, which brings PyYAML and jsonschema."""
    blocked = [
        *FRAMEWORK_PACKAGES, "numpy", "scipy", "sklearn", "pandas", "matplotlib", "jinja2", "PIL", "cv2", "simplejpeg",
        "requests", "tqdm", "psutil", "filelock",
    ]  # fmt: skip
    rules = (REPOSITORY / "workflow" / "rules").glob("*.smk")
    imports = [
        line for file in rules for line in file.read_text().splitlines() if re.match("(from|import) train", line)
    ]
    assert imports
    code = [
        "import sys",
        f"sys.modules.update(dict.fromkeys({blocked!r}))",
        *imports,
        "from trainmark.config.load import load_config",
        "from trainmark.plan.jobs import make_plan",
        "from trainmark.plan.matrix import with_devices",
        "own = {'title': 'T', 'format': 'class_subset', 'of': 'imagenette', 'classes': 2, 'seed': 1}",
        "changes = {'prepare': ['imdb', 'mine'], 'datasets': {'mine': own}}",
        "config, catalogue = load_config(['config/config.yaml'], changes)",
        "from trainmark.datasets.catalogue import kind_of",
        "assert [kind_of(name, catalogue) for name in config['prepare']] == ['tokens', 'image_lists']",
        "from trainmark.plan.code_digests import preparing_digest, training_code",
        "from trainmark.recipes.catalogue import RECIPES",
        "from trainmark.trainer import Trainer",
        "training_code(RECIPES['mnist-mlp-keras'], Trainer('chainer', 'cpu')); preparing_digest('idx')",
        "config = with_devices(config, gpu_found=False)",
        "print(len(make_plan(config, catalogue)['order']))",
    ]
    done = python("\n".join(code))
    assert done.stderr == ""
    assert int(done.stdout) > 0
