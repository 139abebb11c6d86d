"""The house plan's rule on imports, read from the sources: downward only, and each heavy library in its own place.

scripts > training and the reporting side > config, preparing > frameworks/*, datasets/* > all the rest. Modules are
found by their files, so that a new one is under the rule from its first day; one that no list below names lies at the
bottom.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import trainmark
from trainmark.datasets import known_formats

SCRIPTS = Path(trainmark.__file__).parents[1]
REPOSITORY = SCRIPTS.parents[1]

FRAMEWORK_PACKAGES = {"chainer", "chainerx", "keras", "tensorflow", "jax", "jaxlib", "torch", "cupy", "cupyx", "onnx"}
REPORTING_PACKAGES = {"pandas", "matplotlib", "jinja2", "pyarrow", "tabulate"}
DECODER_PACKAGES = {"cv2", "simplejpeg"}
DRY_RUN_PACKAGES = {"yaml", "jsonschema"}

REPORTING = (
    r"trainmark\.(tables|comparisons|mixtures|shown|terminal|figures|statistics|report)(\..+)?"
    r"|(collect|plot|report|compare)"
)
ADAPTER = r"trainmark\.frameworks\.\w+_adapter"
PART = r"trainmark\.frameworks\.([a-z]+)_\w+"  # of an adapter, the adapter itself among them, by the name before the _
TRAINING = rf"train|trace_training|predict|trainmark\.(training|tracing|predicting|account|clock_check)|{ADAPTER}"
DRY_RUN = (
    r"trainmark(\.(config|config_check|config_datasets|config_fit|config_words|strict_yaml|literals|stored|matrix|run|ops"
    r"|devices|errors|recipe|recipes|sources|job_code|architecture|architectures(\..+)?|frameworks|datasets|dataset_files))?"
)
LEVELS = [
    (r"\w+(?<!^trainmark)", 4),  # the scripts; trainmark itself lies at the bottom
    (rf"trainmark\.(training|tracing|predicting)|{REPORTING}", 3),
    (r"trainmark\.(config|config_check|config_datasets|config_fit|preparing|job_code|clock_check)", 2),
    (r"trainmark\.(text_runs|trainer_arguments)", 2),
    (r"trainmark\.(dataset_files|(frameworks|datasets)(\..+)?)", 1),
]


@dataclass(frozen=True)
class Import:
    """One import in a module. lazy: inside a function. typing: under `if TYPE_CHECKING`."""

    target: str
    lazy: bool = False
    typing: bool = False


def module_name(path: Path, root: Path = SCRIPTS) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, str]:
    """Source text of every module in workflow/scripts, by name."""
    files = [path for path in sorted(SCRIPTS.rglob("*.py")) if "__pycache__" not in path.parts]
    return {module_name(path): path.read_text(encoding="utf-8") for path in files}


def level(module: str) -> int:
    return next((number for pattern, number in LEVELS if re.fullmatch(pattern, module)), 0)


def targets(node: ast.AST, module: str, modules: set[str], is_package: bool) -> list[str]:
    """What a statement imports: `from trainmark import devices` is trainmark.devices, where there is such a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            here = module.split(".")
            outer = here[: len(here) - node.level + is_package]
            base = ".".join([*outer, base] if base else outer)
        return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base for alias in node.names]
    called = node.func if isinstance(node, ast.Call) else None
    name = getattr(called, "attr", getattr(called, "id", None))
    if name in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
        return [str(node.args[0].value)]
    return []


def imports_of(module: str, source: str, modules: set[str]) -> list[Import]:
    found: list[Import] = []
    is_package = any(other.startswith(f"{module}.") for other in modules)

    def visit(node: ast.AST, lazy: bool, typing: bool) -> None:
        found.extend(Import(target, lazy, typing) for target in targets(node, module, modules, is_package))
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                visit(child, inside, True)
            for child in node.orelse:
                visit(child, inside, typing)
            return
        for child in ast.iter_child_nodes(node):
            visit(child, inside, typing)

    visit(ast.parse(source), False, False)
    return found


def graph(texts: dict[str, str]) -> dict[str, list[Import]]:
    return {module: imports_of(module, text, set(texts)) for module, text in texts.items()}


def package(target: str) -> str:
    return target.split(".")[0]


def loaded_with(starts: Iterable[str], found: dict[str, list[Import]]) -> set[str]:
    """The modules that are loaded when these are: what they import outside of functions, and the packages of that."""
    reached = set(starts)
    waiting = list(reached)
    while waiting:
        module = waiting.pop()
        parents = {module.rpartition(".")[0]} - {""}
        new = {one.target for one in found[module] if one.target in found and not (one.lazy or one.typing)} | parents
        waiting += new - reached
        reached |= new
    return reached


# --- the rules: each gives a sentence for each breach -------------------------------------------------------------


def upward(found: dict[str, list[Import]]) -> list[str]:
    """Imports of a module of a higher level; scripts are imported by nobody."""
    return [
        f"{module} imports {one.target}, which lies above it"
        for module, imports in found.items()
        for one in imports
        if one.target in found and not one.typing and (level(one.target) > level(module) or level(one.target) == 4)
    ]


def adapters(found: dict[str, list[Import]]) -> list[str]:
    """An adapter is imported by its name alone (frameworks.create_adapter), and imports no other and no training.

    What it is made of beside is imported by itself alone.
    """
    breaches = []
    for module, imports in found.items():
        own = re.fullmatch(PART, module)
        for one in imports:
            part = re.fullmatch(PART, one.target)
            of_another = part and not (own and own[1] == part[1])
            of_adapter = own and re.fullmatch(r"trainmark\.training", one.target)
            if re.fullmatch(ADAPTER, one.target) or of_another or of_adapter:
                breaches.append(f"{module} imports {one.target}")
    return breaches


def frameworks(found: dict[str, list[Import]]) -> list[str]:
    return [
        f"{module} imports {one.target}: only adapters may"
        for module, imports in found.items()
        for one in imports
        if package(one.target) in FRAMEWORK_PACKAGES and not re.fullmatch(PART, module)
    ]


def reporting(found: dict[str, list[Import]]) -> list[str]:
    """Reporting's packages on the reporting side alone; and neither side, training and reporting, imports the other."""
    breaches = []
    for module, imports in found.items():
        own = re.fullmatch(REPORTING, module)
        for one in imports:
            if package(one.target) in REPORTING_PACKAGES and not own:
                breaches.append(f"{module} imports {one.target}: only the reporting side may")
            if one.target in found and re.fullmatch(REPORTING, one.target) and not own:
                breaches.append(f"{module} imports {one.target}, which is of the reporting side")
            if own and re.fullmatch(
                rf"trainmark\.(training|predicting)|{ADAPTER}|trainmark\.frameworks\.base", one.target
            ):
                breaches.append(f"{module} imports {one.target}, which is of the training side")
    return breaches


def dry_run(found: dict[str, list[Import]]) -> list[str]:
    """What a dry run imports needs the standard library, YAML, JSON Schema and nothing else."""
    return [
        f"{module} imports {one.target} when it is loaded, and a dry run loads it"
        for module, imports in found.items()
        if re.fullmatch(DRY_RUN, module)
        for one in imports
        if not (one.lazy or one.typing)
        and package(one.target) not in {*sys.stdlib_module_names, *DRY_RUN_PACKAGES}
        and not re.fullmatch(DRY_RUN, one.target)
    ]


def decoders(found: dict[str, list[Import]]) -> list[str]:
    """Image decoders are imported in one place, which no training loads: they bring threads of their own."""
    outside = [
        f"{module} imports {one.target}: only trainmark.images.decoding may"
        for module, imports in found.items()
        for one in imports
        if package(one.target) in DECODER_PACKAGES and module != "trainmark.images.decoding"
    ]
    training = loaded_with([module for module in found if re.fullmatch(TRAINING, module)], found)
    loaders = [
        f"{module} imports trainmark.images.decoding when it is loaded, and a training loads it"
        for module in sorted(training)
        if Import("trainmark.images.decoding") in found[module]
    ]
    return outside + loaders


def cycles(found: dict[str, list[Import]]) -> list[str]:
    edges = {
        module: {one.target for one in imports if one.target in found and not (one.lazy or one.typing)} - {module}
        for module, imports in found.items()
    }
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


RULES = [upward, adapters, frameworks, reporting, dry_run, decoders, cycles]


# --- the sources --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_sources_keep_the_rule(rule):
    assert rule(graph(sources())) == []


def test_the_modules_are_found():
    texts = sources()
    expected = {
        "train", "download", "prepare", "mean_image", "trainmark", "trainmark.config", "trainmark.training",
        "trainmark.frameworks", "trainmark.frameworks.base", "trainmark.frameworks.chainer_adapter",
        "trainmark.frameworks.keras_adapter", "trainmark.datasets", "trainmark.datasets.idx",
        "trainmark.architectures.mlp", "trainmark.matrix", "trainmark.recipes", "trainmark.datasets._trees",
        "trainmark.images.decoding", "trainmark.preparing", "trainmark.config_datasets",
    }  # fmt: skip
    assert expected <= set(texts)
    found = graph(texts)
    assert Import("trainmark.devices") in found["train"]
    assert Import("trainmark.training", lazy=True) in found["train"]
    assert Import("trainmark.frameworks.base", typing=True) in found["trainmark.frameworks"]
    assert Import("trainmark.config_check", lazy=True) in found["trainmark.config"]
    assert Import("cupy", lazy=True) in found["trainmark.frameworks.chainer_compat"]
    assert Import("trainmark.images.decoding") in found["trainmark.images.lists"]
    assert Import("cv2") in found["trainmark.images.decoding"]


def test_what_is_loaded_with_a_module():
    """Packages are loaded with what lies in them; what is imported within functions, or by name, is not."""
    loaded = loaded_with(["trainmark.training"], graph(sources()))
    assert {"trainmark", "trainmark.frameworks", "trainmark.frameworks.base", "trainmark.literals"} <= loaded
    assert not loaded & {"trainmark.frameworks.keras_adapter", "trainmark.images.lists", "trainmark.config_check"}


def test_every_module_of_the_datasets_is_a_format_or_a_helper():
    """A format says what it is and reads; a helper's name begins with an underscore, which no config can give."""
    package_name = "trainmark.datasets."
    modules = {module.removeprefix(package_name): text for module, text in sources().items() if package_name in module}
    formats = {module for module, text in modules.items() if re.search("^FORMAT = ", text, re.MULTILINE)}
    assert formats == {module for module, text in modules.items() if re.search(r"^def read\(", text, re.MULTILINE)}
    assert {module for module in modules if module.startswith("_")} == set(modules) - formats == {"_trees"}
    assert set(known_formats()) == formats


@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("train", 4), ("report", 4), ("trainmark.training", 3), ("trainmark.tables", 3), ("trainmark.report.page", 3),
        ("trainmark.report", 3), ("trainmark.preparing", 2), ("trainmark.config", 2), ("trainmark.config_datasets", 2),
        ("trainmark.frameworks", 1), ("trainmark.datasets.idx", 1), ("trainmark.prepared", 0),
        ("trainmark.images.decoding", 0), ("trainmark.recipes", 0), ("trainmark.records", 0), ("trainmark", 0),
        ("trainmark.images.mean", 0), ("predict", 4), ("trainmark.predicting", 3), ("trainmark.config_fit", 2),
        ("trainmark.kept_weights", 0), ("trainmark.text_runs", 2), ("trainmark.trainer_arguments", 2),
    ],
)  # fmt: skip
def test_levels(module, number):
    assert level(module) == number


BREACHES = [
    (upward, "trainmark.recipes", "from trainmark.training import run_training"),
    (upward, "trainmark.recipes", "from trainmark import training"),
    (upward, "trainmark.recipes", "from . import training"),
    (upward, "trainmark.architectures.mlp", "from ..frameworks.base import Adapter"),
    (upward, "trainmark.batches", "def f():\n    import trainmark.frameworks.base"),
    (upward, "trainmark.training", "import train"),
    (upward, "trainmark.datasets.idx", "from trainmark import preparing"),
    (upward, "trainmark.datasets._trees", "def f():\n    from trainmark.config_datasets import check_catalogue"),
    (upward, "trainmark.prepared", "from trainmark.datasets import Arrays"),
    (upward, "trainmark.images.lists", "from ..preparing import prepare"),
    (adapters, "trainmark.frameworks.keras_adapter", "from trainmark.frameworks import chainer_adapter"),
    (adapters, "trainmark.frameworks.keras_adapter", "from .chainer_adapter import create"),
    (adapters, "trainmark.frameworks.keras_adapter", "def f():\n    from trainmark.training import run_training"),
    (adapters, "trainmark.training", "import trainmark.frameworks.chainer_adapter"),
    (adapters, "trainmark.training", "from trainmark.frameworks.chainer_layers import Network"),
    (adapters, "trainmark.frameworks.keras_layers", "from trainmark.frameworks import chainer_layers"),
    (frameworks, "trainmark.training", "import tensorflow as tf"),
    (frameworks, "trainmark.provenance", "def f():\n    import torch.cuda"),
    (frameworks, "trainmark.devices", "import importlib\nimportlib.import_module('jax')"),
    (frameworks, "train", "from keras import ops"),
    (reporting, "trainmark.training", "import pandas as pd"),
    (reporting, "trainmark.images.mean", "def f():\n    import matplotlib.pyplot"),
    (reporting, "trainmark.records", "from trainmark.report import page"),
    (reporting, "collect", "import trainmark.training"),
    (reporting, "trainmark.report", "from trainmark.predicting import read_run"),
    (dry_run, "trainmark.matrix", "import numpy"),
    (dry_run, "trainmark.config", "from trainmark.records import read_record"),
    (dry_run, "trainmark.devices", "try:\n    import filelock\nexcept ImportError:\n    pass"),
    (dry_run, "trainmark.datasets", "if True:\n    from numpy import ndarray"),
    (dry_run, "trainmark.config_datasets", "from trainmark.preparing import prepare"),
    (dry_run, "trainmark.stored", "import numpy as np"),
    (dry_run, "trainmark.literals", "from trainmark import prepared"),
    (decoders, "trainmark.images.mean", "import cv2"),
    (decoders, "trainmark.images.packed", "def f():\n    from simplejpeg import decode_jpeg"),
    (decoders, "trainmark.datasets.digits", "import importlib\nimportlib.import_module('cv2')"),
    (decoders, "trainmark.training", "from trainmark.images.decoding import load_stored"),
    (decoders, "trainmark.prepared", "from trainmark.images import lists"),
    (decoders, "trainmark.frameworks.base", "if True:\n    import trainmark.images.packed"),
    (decoders, "trainmark.frameworks.keras_adapter", "import trainmark.images.mean"),
    (decoders, "trainmark.errors", "from .images.decoding import UnreadableImage"),
    (cycles, "trainmark.errors", "import trainmark.architecture\nimport trainmark.recipes\nimport trainmark.config"),
    (cycles, "trainmark.architecture", "from trainmark.recipes import RECIPES"),
]


@pytest.mark.parametrize(
    ("rule", "module", "line"),
    BREACHES,
    ids=[f"{rule.__name__}-{module}-{i}" for i, (rule, module, _) in enumerate(BREACHES)],
)
def test_each_rule_finds_a_breach(rule, module, line):
    """The rules are held against sources that break them: a line is put into a module as it stands."""
    texts = {"trainmark.report": "", "trainmark.report.page": "", "collect": ""} | sources()
    texts[module] = f"{texts[module]}\n{line}\n"
    before = set(rule(graph(sources())))
    assert set(rule(graph(texts))) - before, f"{rule.__name__} did not see {line!r} in {module}"


def test_imports_for_type_checkers_alone_are_no_breach():
    texts = sources()
    texts["trainmark.matrix"] += "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\n"
    assert dry_run(graph(texts)) == []


# --- what a dry run really loads ----------------------------------------------------------------------------------


def test_all_that_the_snakefile_imports_is_light():
    """Every trainmark module that the rules import, and what those load in turn, is on the list for a dry run."""
    rules = [REPOSITORY / "Snakefile", *sorted((REPOSITORY / "workflow" / "rules").glob("*.smk"))]
    text = "\n".join(path.read_text() for path in rules)
    found = graph(sources())
    imported = set(re.findall(r"^(?:from|import) (trainmark[\w.]*)", text, re.MULTILINE))  # not within functions
    assert imported == {
        "trainmark.config", "trainmark.dataset_files", "trainmark.devices", "trainmark.errors", "trainmark.job_code",
        "trainmark.matrix", "trainmark.recipes", "trainmark.run", "trainmark.sources",
    }  # fmt: skip
    assert [module for module in sorted(loaded_with(imported, found)) if not re.fullmatch(DRY_RUN, module)] == []


@pytest.mark.parametrize("script", ["train", "trace_training", "predict"])
def test_nothing_that_reads_its_threads_is_loaded_before_a_script_has_its_slot(script):
    """numpy and the frameworks make their threads when they are imported: these must have their CPUs before."""
    heavy = {"numpy", "scipy", "pandas", *FRAMEWORK_PACKAGES}
    found = graph(sources())
    early = {
        module: sorted({package(one.target) for one in found[module] if not (one.lazy or one.typing)} & heavy)
        for module in loaded_with([script], found)
    }
    assert {module: packages for module, packages in early.items() if packages} == {}


def test_a_config_is_checked_and_expanded_without_numpy_or_any_framework():
    blocked = [
        *sorted(FRAMEWORK_PACKAGES | REPORTING_PACKAGES),
        "numpy", "PIL", "sklearn", "scipy", "requests", "tqdm", "psutil", "filelock", *sorted(DECODER_PACKAGES),
    ]  # fmt: skip
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({blocked!r}))\n"
        "from trainmark.config import load_config\n"
        "from trainmark.datasets import kind_of\n"
        "from trainmark.devices import find_gpus, no_gpu_message\n"
        "from trainmark.job_code import preparing_code, training_code\n"
        "from trainmark.matrix import expand_runs, trained_order\n"
        "from trainmark.recipes import RECIPES\n"
        "from trainmark.sources import digest\n"
        "own = {'title': 'T', 'format': 'class_subset', 'of': 'imagenette', 'classes': 2, 'seed': 1}\n"
        "changes = {'prepare': ['imdb', 'mine'], 'datasets': {'mine': own}}\n"
        "config, catalogue = load_config(['config/config.yaml'], changes)\n"
        "assert [kind_of(name, catalogue) for name in config['prepare']] == ['tokens', 'image_lists']\n"
        "find_gpus(); no_gpu_message('x')\n"
        "digest(*training_code(RECIPES['mnist-mlp-keras'], 'chainer')); digest(*preparing_code('idx'))\n"
        "trained_order(expand_runs(config, gpu_found=False), config)\n"
        "print(len(expand_runs(config, gpu_found=False)), sorted(catalogue))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, env={"PYTHONPATH": str(SCRIPTS)}, capture_output=True, text=True
    )
    assert done.stderr == ""
    runs, names = done.stdout.split(" ", 1)
    assert int(runs) > 0 and "'digits'" in names
