"""Find the modules of this project that a job depends on, and compute digests of their code."""

import ast
import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import TypeGuard

from trainmark.errors import in_workflow
from trainmark.files.system_files import own_paths
from trainmark.files.whole import write_text

SCRIPTS = Path(__file__).parents[2]
"""The folder of the project's own modules: the scripts and the library."""

NOT_FOLLOWED = {
    "trainmark.recipes.catalogue": "it holds all recipes, but a run uses one; a job lists the values it depends on",
}
"""Modules that are skipped together with their imports, and why."""

WITHOUT_EFFECT = {
    "trainmark.console": "progress and messages on the terminal",
    "trainmark.training.process_exit": "how the process ends once its record is complete",
    "trainmark.training.display": "progress of a run on the terminal",
    "trainmark.records.sentences": "how a run ended, in words",
    "trainmark.plan.plan_file": "the order of the runs, and settings that affect no result",
    "trainmark.tables.consistency": "checks when records are compared with each other",
    "trainmark.records.consistency": "checks when a record is read",
    "trainmark.errors": "error messages, and the exit status of a script that fails",
    "trainmark.plan.dependencies": "where digests start; if it names other modules, the digests change",
    "trainmark.plan.code_digests": "computes the digests; if it computes them differently, they change",
}
"""Modules that affect no result, and why. An edit of one makes no result stale."""

DATA_FILES = {
    "trainmark.config.references": ("references.schema.json",),
    "trainmark.records.evaluation": ("evaluation.schema.json",),
    "trainmark.records.record": ("record.schema.json",),
    "trainmark.records.tuning": ("tuning.schema.json",),
    "trainmark.paper.references": ("references.bib",),
    "trainmark.parity.certificate": ("certificate.schema.json",),
    "trainmark.report.page": ("*.css", "*.j2", "*.js"),
}
"""Patterns of data files next to a module that affect its results."""

WITHOUT_MEANING = {"ctx", "kind", "type_comment"}
"""Fields of syntax nodes that follow from the position of the node (ctx) or have no effect at run time."""

WITH_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""Syntax nodes that are or contain statements; an expression contains none."""

PARSED_FILE = Path("results/parsed_code.json")
"""What the planning process found in each module, by the module and the SHA-256 of its file, so that the jobs of a
workflow need not parse modules that have not changed since. Parsing takes a training .2 s. Only jobs read it: the
planning process and verify.py parse, whatever a results folder holds."""

HEX_DIGITS = 16
"""Length of a digest in characters: 64 bits of SHA-256."""


@dataclass(frozen=True)
class _Source:
    """A parsed module.

    imports: names that it imports; some are not modules but names in a module.
    digest: digest of its code.
    """

    imports: frozenset[str]
    digest: str


@cache
def modules_of(*starts: str, scripts: Path = SCRIPTS) -> tuple[str, ...]:
    """Return the sorted names of the project's modules that the modules `starts` import, directly or indirectly.

    Scripts are modules too ("train"). Imports inside functions count; those under `if TYPE_CHECKING:` do not. Modules
    that importlib loads, such as adapters and formats, are not found: pass them as further starts. A module of
    NOT_FOLLOWED is left out unless it is a start.

    Raises LookupError if a start is not a module in `scripts`, and SyntaxError if a module is not valid Python.
    """
    files = _files(scripts)
    for start in starts:
        if start not in files:
            raise LookupError(f"there is no module {start} in {scripts}")
    reached = set(starts)
    waiting = list(starts)
    while waiting:
        module = waiting.pop()
        named = {module, *_source(module, files[module]).imports}
        loaded = {package for name in named for package in _with_packages(name) if package in files}
        new = loaded - reached - NOT_FOLLOWED.keys()
        waiting += new
        reached |= new
    return tuple(sorted(reached))


def digests(*starts: str, scripts: Path = SCRIPTS) -> dict[str, str]:
    """Return the digests of the modules that `starts` import and of their data files.

    Modules of WITHOUT_EFFECT are left out. The digest of a module, by its name, is computed from its code and is the
    same on every version of Python; comments, docstrings and formatting do not affect it. The digest of a data file, by
    its path from `scripts` ("trainmark/record.schema.json"), is computed from its bytes; that of a JSON Schema from its
    values without descriptions.

    Raises what `modules_of` raises.
    """
    files = _files(scripts)
    digest_of = {}
    for module in modules_of(*starts, scripts=scripts):
        if module in WITHOUT_EFFECT:
            continue
        digest_of[module] = _source(module, files[module]).digest
        for pattern in DATA_FILES.get(module, ()):
            for data_file in own_paths(files[module].parent, pattern):
                digest_of[data_file.relative_to(scripts).as_posix()] = _file_digest(data_file)
    return digest_of


@cache
def digest(*starts: str, scripts: Path = SCRIPTS) -> str:
    """Return one digest of all `digests`. It changes exactly when one of them changes, is added or is removed."""
    lines = [f"{name} {sha256}\n" for name, sha256 in sorted(digests(*starts, scripts=scripts).items())]
    return _short_sha256("".join(lines).encode())


def _short_sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:HEX_DIGITS]


@cache
def _file_digest(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".json":
        content = json.dumps(json.loads(content, object_hook=_without_description)).encode()
    return _short_sha256(content)


def _without_description(part: dict) -> dict:
    return {key: value for key, value in part.items() if key != "description" or not isinstance(value, str)}


@cache
def _files(scripts: Path) -> dict[str, Path]:
    """Return the file of every module in a folder, by the module's name. The file of a package is its __init__.py."""
    return {_module_name(path.relative_to(scripts)): path for path in own_paths(scripts, "**/*.py")}


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _source(module: str, path: Path) -> _Source:
    content = path.read_bytes()
    key = _key(module, path, content)
    _FOUND[key] = _stored().get(key) or _parse(module, path, content)
    return _FOUND[key]


_FOUND: dict[str, _Source] = {}
"""What this process found, by `_key`."""


@cache
def _stored() -> dict[str, _Source]:
    """Return what the planning process found, by `_key`; empty outside a workflow's jobs."""
    return _read_parsed() if in_workflow() else {}


def _read_parsed() -> dict[str, _Source]:
    """Return the content of PARSED_FILE; empty if it can't be read."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        stored = json.loads(PARSED_FILE.read_text())
        return {key: _Source(frozenset(imports), digest) for key, (imports, digest) in stored.items()}
    return {}


def write_parsed() -> None:
    """Write what this process found in modules to PARSED_FILE, unless that holds all of it, as after a larger plan."""
    if _FOUND.items() <= _read_parsed().items():
        return
    stored = {key: [sorted(source.imports), source.digest] for key, source in sorted(_FOUND.items())}
    write_text(PARSED_FILE, json.dumps(stored))


@cache
def _own_sha256() -> str:
    """Digest of this file: another version of it may find something else in a module."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _key(module: str, path: Path, content: bytes) -> str:
    return hashlib.sha256(f"{_own_sha256()} {module} {path.name} ".encode() + content).hexdigest()


def _parse(module: str, path: Path, content: bytes) -> _Source:
    tree = ast.parse(content, str(path))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    imports = frozenset(name for node in _nodes_that_run(tree) for name in _imported_names(node, package))
    return _Source(imports, _short_sha256(_form(tree).encode()))


def _with_packages(name: str) -> Iterator[str]:
    """Yield the packages that contain a module, outermost first, and the module. Importing it loads all of them."""
    return accumulate(name.split("."), "{}.{}".format)


# --- imports ------------------------------------------------------------------------------------------------------


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements but those under `if TYPE_CHECKING:`, which is false at run time. Its `else` is included."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        children = node.orelse if _is_for_type_checkers(node) else ast.iter_child_nodes(node)
        waiting += (child for child in children if isinstance(child, WITH_STATEMENTS))


def _is_for_type_checkers(node: ast.AST) -> TypeGuard[ast.If]:
    if not isinstance(node, ast.If):
        return False
    return "TYPE_CHECKING" in (getattr(node.test, "id", None), getattr(node.test, "attr", None))


def _imported_names(node: ast.AST, package: str) -> list[str]:
    """Return the names that a statement in a module of `package` imports.

    For `from trainmark import x` these are trainmark and trainmark.x, which may be a module.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(node.module or "", node.level, package)
        return [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return []


def _absolute(name: str, level: int, package: str) -> str:
    """Resolve a relative import with `level` dots: one dot is the package, each further dot the package around it."""
    if level == 0:
        return name
    outer = package.split(".")
    return ".".join([*outer[: max(0, len(outer) - level + 1)], *filter(None, [name])])


# --- code ---------------------------------------------------------------------------------------------------------


def _form(value: object) -> str:
    """Write a syntax node, or the value of one of its fields, as text that contains only what affects execution.

    ast.dump and ast.unparse differ between versions of Python: 3.12 added a field for type parameters to functions, and
    3.13 omits empty lists. Here empty fields are always omitted.
    """
    if isinstance(value, ast.Constant):
        return f"Constant({_literal(value.value)})"
    if isinstance(value, ast.AST):
        fields = [(name, _field(value, name)) for name in value._fields if name not in WITHOUT_MEANING]
        texts = [f"{name}={_form(content)}" for name, content in fields if content is not None and content != []]
        return f"{type(value).__name__}({','.join(texts)})"
    if isinstance(value, list):  # None is kept in lists: the keys of a dict have one for each **
        return f"[{','.join(map(_form, value))}]"
    return _literal(value)


def _literal(value: object) -> str:
    """Write a type and a value in ASCII, because repr escapes different characters in different versions of Python.

    Integers are written in hexadecimal, because Python refuses to convert very long ones to decimal.
    """
    return f"{type(value).__name__} {hex(value) if type(value) is int else ascii(value)}"


def _field(node: ast.AST, name: str) -> object:
    """Return the value of a field, without statements that have no effect and with merged texts of an f-string."""
    if isinstance(node, ast.JoinedStr):
        return list(_merged_texts(node.values))
    content = getattr(node, name, None)
    return [item for item in content if not _does_nothing(item)] if isinstance(content, list) else content


def _does_nothing(node: object) -> bool:
    """Return whether a statement is `pass` or only a text, such as a docstring."""
    if isinstance(node, ast.Pass):
        return True
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _merged_texts(parts: list[ast.expr]) -> Iterator[ast.expr]:
    """Yield the parts of an f-string with adjacent texts merged and empty ones left out.

    Versions of Python split the text of an f-string differently.
    """
    for is_text, group in groupby(parts, lambda part: isinstance(part, ast.Constant)):
        if not is_text:
            yield from group
        elif text := "".join(map(ast.literal_eval, group)):
            yield ast.Constant(text)
