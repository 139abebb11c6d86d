"""Which code a job depends on: the modules that it loads, and digests that change when they do something else."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from trainmark.errors import WORKFLOW_VARIABLE
from trainmark.plan import code_digests
from trainmark.plan.code_digests import PARSED_FILE, SCRIPTS, digest, digests, modules_of
from trainmark.plan.dependencies import training_code
from trainmark.recipes.catalogue import RECIPES
from trainmark.trainer import Trainer

LIBRARY = {
    "train.py": "from lib import steps\n",
    "lib/__init__.py": "",
    "lib/steps.py": "def step():\n    from lib.deep.inner import LIMIT\n\n    return LIMIT\n",
    "lib/deep/__init__.py": "from . import beside\n",
    "lib/deep/beside.py": "from ..outside import NUMBER\n",
    "lib/deep/inner.py": "LIMIT = 3\n",
    "lib/outside.py": "NUMBER = 1\n",
    "lib/unused.py": "UNUSED = 1\n",
    "lib/adapter.py": "import lib.unused\n",
}
"""A small project by path: what `train` loads, and two modules that it does not."""

OF_TRAIN = ("lib", "lib.deep", "lib.deep.beside", "lib.deep.inner", "lib.outside", "lib.steps", "train")


@pytest.fixture
def project(tmp_path):
    """Write LIBRARY with some files changed, each time in a folder of its own, as digests are computed once a file."""

    def write(changes: dict[str, str]) -> Path:
        folder = tmp_path / f"scripts-{len(list(tmp_path.iterdir()))}"
        for name, text in (LIBRARY | changes).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder

    return write


@pytest.fixture
def digest_of(project):
    """The digest of one module that holds a text."""
    return lambda text: digest("lib.unused", scripts=project({"lib/unused.py": text}))


# --- what the planning process wrote down ---------------------------------------------------------------------------


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """A function that forgets what was parsed in this process, which is a workflow's job."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(WORKFLOW_VARIABLE, "1")
    caches = (code_digests._stored, code_digests._source, code_digests.digest, modules_of)

    def forget():
        for function in caches:
            function.cache_clear()

    forget()
    yield forget
    monkeypatch.undo()
    forget()


def test_a_job_parses_only_what_has_changed_since_the_plan(planned, project, monkeypatch):
    folder, parsed, true = project({}), [], code_digests._parse
    monkeypatch.setattr(code_digests, "_parse", lambda module, *rest: parsed.append(module) or true(module, *rest))
    before = digests("train", scripts=folder)
    assert sorted(parsed) == sorted(OF_TRAIN)
    code_digests.write_parsed()
    planned()
    (folder / "lib" / "outside.py").write_text("NUMBER = 2\n")
    parsed.clear()
    after = digests("train", scripts=folder)
    assert parsed == ["lib.outside"]
    assert {module for module in before if before[module] != after[module]} == {"lib.outside"}


def test_only_a_job_believes_the_file(planned, project, monkeypatch):
    """Else a results folder could tell verify.py that its records come from this clone's code."""
    folder = project({})
    true = digests("train", scripts=folder)
    code_digests.write_parsed()
    forged = {key: [imports, "f" * 16] for key, (imports, _) in json.loads(PARSED_FILE.read_text()).items()}
    PARSED_FILE.write_text(json.dumps(forged))
    planned()
    assert set(digests("train", scripts=folder).values()) == {"f" * 16}
    monkeypatch.delenv(WORKFLOW_VARIABLE)
    planned()
    assert digests("train", scripts=folder) == true


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}', '{"a": [[], 1, 2]}'])
def test_what_can_not_be_read_is_parsed_again(planned, project, content):
    code_digests.write_parsed()
    PARSED_FILE.write_text(content)
    planned()
    assert modules_of("train", scripts=project({})) == OF_TRAIN


# --- modules ------------------------------------------------------------------------------------------------------


def test_everything_that_a_script_loads_is_found(project):
    """Within functions, by relative imports, and the packages of each module with what they import themselves."""
    folder = project({})
    assert modules_of("train", scripts=folder) == OF_TRAIN
    assert modules_of("train", "lib.adapter", scripts=folder) == tuple(sorted([*OF_TRAIN, "lib.adapter", "lib.unused"]))
    assert modules_of(scripts=folder) == ()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import lib.deep.inner", {"lib", "lib.deep", "lib.deep.inner", "lib.deep.beside", "lib.outside"}),
        ("import json, numpy.random, lib.outside as o", {"lib", "lib.outside"}),
        ("from lib import outside, adapter", {"lib", "lib.outside", "lib.adapter", "lib.unused"}),
        ("from lib.outside import *", {"lib", "lib.outside"}),
        ("try:\n    import lib.outside\nexcept ImportError:\n    pass", {"lib", "lib.outside"}),
        ("from . import lib", set()),
        ("import typing\nif typing.TYPE_CHECKING:\n    import lib.outside", set()),
        ("if TYPE_CHECKING:\n    import lib.deep\nelse:\n    import lib.outside", {"lib", "lib.outside"}),
        ("if not TYPE_CHECKING:\n    import lib.outside", {"lib", "lib.outside"}),
    ],
)
def test_imports(project, line, found):
    assert set(modules_of("start", scripts=project({"start.py": line}))) == {"start", *found}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from . import beside", {"lib.deep.beside", "lib.outside"}),
        ("from .inner import LIMIT", {"lib.deep.inner"}),
        ("from .. import unused", {"lib.unused"}),
        ("from ..adapter import *", {"lib.adapter", "lib.unused"}),
        ("from ... import train", set()),
    ],
)
def test_relative_imports(project, line, found):
    folder = project({"lib/deep/__init__.py": "", "lib/deep/start.py": line})
    assert set(modules_of("lib.deep.start", scripts=folder)) == {"lib", "lib.deep", "lib.deep.start", *found}


def test_imports_may_go_round(project):
    folder = project({"lib/outside.py": "def f():\n    import lib.unused\n", "lib/unused.py": "import lib.outside\n"})
    assert modules_of("lib.outside", scripts=folder) == ("lib", "lib.outside", "lib.unused")


def test_an_unknown_start_and_a_module_that_is_no_python_are_named(project):
    folder = project({"lib/outside.py": "NUMBER = = 1\n"})
    with pytest.raises(LookupError, match=f"^there is no module json in {re.escape(str(folder))}$"):
        modules_of("train", "json", scripts=folder)
    with pytest.raises(SyntaxError) as caught:
        digest("train", scripts=folder)
    assert caught.value.filename == str(folder / "lib" / "outside.py")


# --- digests of code ----------------------------------------------------------------------------------------------

NET = "class Net(dict):\n    depth: int = 2\n\n    def forward(self):\n        pass\n"
STEP = 'def step(size, scale=1.5, *, name="a"):\n    """What a step does."""\n    return size + scale\n'
F_STRING = 'x = f"{total!r:>{size}} of {name}"'


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 3", "\n\nx=(  # why three\n    0x3\n)\n"),
        ("x = a + b", "x = (\n    a\n    +b\n)"),
        (STEP, STEP.replace("What a step does.", "What a step\n\n    does not.")),
        (STEP, STEP.replace('    """What a step does."""\n', "")),
        (STEP, STEP.replace("    return", "    'now the total'\n    return")),
        (STEP, STEP.replace('name="a"', "name=u'a'")),
        (STEP, STEP.replace("\n", "\r\n")),
        (STEP, f"\ufeff{STEP}"),
        (NET, NET.replace("    depth", '    """A network."""\n\n    depth')),
        (NET, NET.replace("pass", '"""Give everything."""')),
        ("x = 'fast'", "x = 'fa' 'st'"),
        (F_STRING, F_STRING.replace('"', "'''")),
        (F_STRING, F_STRING.replace(' of {name}"', ' o" "f" f" {name}" ""')),
    ],
)
def test_what_the_code_does_not_do_changes_nothing(digest_of, first, second):
    assert first != second and digest_of(first) == digest_of(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x = 3", "x = 3.0"),
        ("x = 1", "x = True"),
        ("x = 'fast'", "x = b'fast'"),
        ("x = 'None'", "x = None"),
        ("x = 0.0", "x = -0.0"),
        ("x = f''", "x = ''"),
        ("x = '\\ud800'", "x = '\\udfff'"),
        (f"x = {2**20000:#x}", f"x = {2**20000 + 1:#x}"),
        ("x: int", "x: int = None"),
        ("x: int", "x: float"),
        ("x = a + b", "x = a - b"),
        ("x = a + b", "x = b + a"),
        ("x = {**a, 'k': b}", "x = {'k': a, **b}"),
        (STEP, STEP.replace("1.5", "1.25")),
        (STEP, STEP.replace("*, ", "")),
        (STEP, STEP.replace("return", "print(size)\n    return")),
        (STEP, f"@kept\n{STEP}"),
        (f"if a:\n    b\n{STEP}", f"{STEP}if a:\n    b\n"),
        ("def f(*, a, b=1): pass", "def f(*, a=1, b): pass"),
        ("def f():\n    return", "def f():\n    return None"),
        ("def f():\n    if a:\n        b\n    c", "def f():\n    if a:\n        b\n        c"),
        ("async def f():\n    [x async for x in y]", "async def f():\n    [x for x in y]"),
        ("import os, sys", "import sys, os"),
        ("from .a import b", "from ..a import b"),
        *(
            (F_STRING, F_STRING.replace(old, new))
            for old, new in [("!r", "!s"), (":>", ":<"), ("of", "by"), ("name", "x")]
        ),
    ],
)
def test_what_is_nearly_the_same_is_told_apart(digest_of, first, second):
    assert digest_of(first) != digest_of(second)


def test_a_module_of_text_alone_is_like_an_empty_one(digest_of):
    assert digest_of('"""Nothing yet."""\n# to come\n') == digest_of("") == digest_of("pass\n")


TRICKY = '''
@d
async def f(a, /, b: int = 0xFFFF_FFFF_FFFF_FFFF_FFFF, *c, d, e=None, **g) -> "A":
    """Text."""
    async with a as x, b: yield {**a, "k": (n := b)}, [*c], x[1:, ...]
    try: return await a
    except* (OSError, ValueError) as error: raise KeyError from error
    else: del b
    finally: pass
def h(v):
    match v:
        case {"a": 1, **rest} | [-1.5, *rest] if rest: return f"{v=}{v!r:>{rest}.2f} \\N{BULLET}{v:}" f"" "}}"
        case A(x=None) | b"\\x00" | 1e400 | 1j: return lambda *, a, b=2: not a < b <= 3
        case _: global G
x: int
y = "\\ud800", "\U0001f6dc", "\u00e9", r"\\d", 1e-7, 1_000, True, ..., -0.0, 5j, __debug__
'''
"""One of most things that Python 3.11 can say, with a character that only later versions' tables hold (U+1F6DC)."""


def test_a_digest_is_the_same_on_every_python(digest_of):
    """The number is that of Python 3.11, 3.12 and 3.13 alike; where it changes, every job would run again."""
    assert digest_of(TRICKY) == "2f7a5d48dd719787"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_another_python_gives_the_same_digests_of_the_library(version):
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"there is no Python {version} here that runs")
    code = "import json, sys, trainmark.plan.code_digests as s; print(json.dumps(s.digests(*sys.argv[1:])))"
    starts = [path.stem for path in sorted(SCRIPTS.glob("*.py"))]
    environment = os.environ | {"PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run([python, "-B", "-c", code, *starts], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == digests(*starts)


# --- what digests cover -------------------------------------------------------------------------------------------


def test_a_digest_is_sixteen_hex_digits_of_each_module_wherever_the_project_lies(project):
    found = digests("train", scripts=project({}))
    assert tuple(found) == OF_TRAIN
    whole = {digest(*starts, scripts=project({})) for starts in (("train", "lib.adapter"), ("lib.adapter", "train"))}
    assert len(whole) == 1
    assert all(re.fullmatch("[0-9a-f]{16}", one) for one in [*found.values(), *whole])


@pytest.mark.parametrize("path", ["train.py", "lib/deep/__init__.py"])
def test_an_edit_of_what_is_loaded_changes_its_own_digest(project, path):
    changes = {path: LIBRARY[path] + "MORE = 1\n"}
    before, after = (digests("train", scripts=project(change)) for change in ({}, changes))
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert [name for name in before if before[name] != after[name]] == [module]
    assert digest("train", scripts=project({})) != digest("train", scripts=project(changes))


@pytest.mark.parametrize("path", ["lib/adapter.py", "collect.py", "lib/notes.txt"])
def test_an_edit_of_what_is_not_loaded_changes_nothing(project, path):
    assert digest("train", scripts=project({path: "MORE = 1\n"})) == digest("train", scripts=project({}))


def test_a_digest_says_which_module_holds_what(project):
    """Two modules that change places are another program."""
    places = {"lib/deep/inner.py": LIBRARY["lib/outside.py"], "lib/outside.py": LIBRARY["lib/deep/inner.py"]}
    assert digest("train", scripts=project(places)) != digest("train", scripts=project({}))


def test_modules_without_effect_are_loaded_and_left_out(project, monkeypatch):
    monkeypatch.setattr(code_digests, "WITHOUT_EFFECT", {"lib.outside": "numbers to look at"})
    folder = project({"lib/outside.py": "NUMBER = 7\n"})
    assert "lib.outside" in modules_of("train", scripts=folder)
    assert "lib.outside" not in digests("train", scripts=folder)
    assert digest("train", scripts=folder) == digest("train", scripts=project({}))


def test_the_modules_of_a_tuned_loop_belong_to_its_runs_alone():
    recipe = RECIPES["mnist-mlp-keras"]
    stock, tuned = (
        set(modules_of(*training_code(recipe, Trainer("keras-jax", "cpu", loop)))) for loop in ("stock", "tuned")
    )
    assert {module.rpartition(".")[2] for module in tuned - stock} >= {"keras_tuned", "keras_tuned_jax"}
    assert stock < tuned


def test_modules_not_followed_are_left_out_with_what_they_alone_import(project, monkeypatch):
    monkeypatch.setattr(code_digests, "NOT_FOLLOWED", {"lib.adapter": "all of something"})
    folder = project({"train.py": "from lib import adapter, steps\nimport lib.adapter\n"})
    assert tuple(digests("train", scripts=folder)) == modules_of("train", scripts=folder) == OF_TRAIN
    assert modules_of("lib.adapter", scripts=folder) == ("lib", "lib.adapter", "lib.unused"), "a start is followed"
    folder = project({"train.py": "import lib.adapter\nimport lib.unused\n"})
    assert modules_of("train", scripts=folder) == ("lib", "lib.unused", "train")


def test_a_data_file_counts_by_its_bytes_where_its_module_is_loaded(project, monkeypatch):
    monkeypatch.setattr(code_digests, "DATA_FILES", {"lib.deep": ("page.css",), "lib.unused": ("missing.json",)})
    first, second = (project({"lib/deep/page.css": text}) for text in ("p {}\n", "p { }\n"))
    before, after = digests("train", scripts=first), digests("train", scripts=second)
    assert set(before) == {*OF_TRAIN, "lib/deep/page.css"}
    assert [name for name in before if before[name] != after[name]] == ["lib/deep/page.css"]
    assert digest("train", scripts=first) != digest("train", scripts=second)
    assert "lib/deep/page.css" not in digests("lib.outside", scripts=first)


def test_what_digests_gives_may_be_changed(project):
    folder = project({})
    digests("train", scripts=folder).clear()
    assert tuple(digests("train", scripts=folder)) == OF_TRAIN


# --- this project -------------------------------------------------------------------------------------------------


def test_a_training_depends_on_its_loop_and_on_no_adapter_reader_or_report():
    found = modules_of("train")
    assert {"trainmark.training.run", "trainmark.machine.gpus", "trainmark.frameworks.adapter"} <= set(found)
    others = (
        r"collect|report|trainmark\.(frameworks\.\w+_adapter|networks\.zoo\..+|recipes\.catalogue"
        r"|(config|tables|report|parity|datasets\.(fetching|archives|formats)|datasets\.prepare)\b.*)"
    )
    assert [module for module in found if re.fullmatch(others, module)] == []
    assert "trainmark.training.run" not in modules_of("collect")


def test_a_recipe_that_is_added_changes_no_digest_of_a_training(tmp_path):
    copy = shutil.copytree(SCRIPTS, tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    recipes = copy / "trainmark" / "recipes" / "catalogue.py"
    assert digest("train", scripts=copy) == digest("train")
    recipes.write_text(recipes.read_text() + '\nRECIPES["more"] = None\n')
    assert digest("train", scripts=copy) == digest("train")
    assert digest("trainmark.recipes.catalogue", scripts=copy) != digest("trainmark.recipes.catalogue")


def test_the_tables_name_modules_and_files_that_are_there():
    for table in (code_digests.NOT_FOLLOWED, code_digests.WITHOUT_EFFECT):
        assert set(table) <= set(modules_of(*table))
        assert all(table.values()), "each says why"
    found = [Path(name) for name in digests(*code_digests.DATA_FILES) if "/" in name]
    patterns = [pattern for patterns in code_digests.DATA_FILES.values() for pattern in patterns]
    assert all(any(path.match(pattern) for path in found) for pattern in patterns)


@pytest.mark.parametrize(
    ("schema", "same"),
    [
        ({"description": "two words", "properties": {"description": {"type": "string"}}}, True),
        ({"description": "a", "properties": {"description": {"type": "number"}}}, False),
        ({"description": "a", "properties": {}}, False),
    ],
)
def test_the_wording_of_a_schema_makes_no_result_stale(project, monkeypatch, schema, same):
    monkeypatch.setattr(code_digests, "DATA_FILES", {"lib.deep": ("a.schema.json",)})
    before = {"description": "a", "properties": {"description": {"type": "string"}}}
    first, second = (project({"lib/deep/a.schema.json": json.dumps(one)}) for one in (before, schema))
    assert (digest("train", scripts=first) == digest("train", scripts=second)) == same


def test_every_data_file_of_the_library_counts_for_a_module():
    """A template or a schema that is added must be in DATA_FILES, or an edit of it would make nothing stale."""
    beside = {path for path in SCRIPTS.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    counted = {SCRIPTS / name for name in digests(*code_digests.DATA_FILES) if "/" in name}
    assert counted == beside
