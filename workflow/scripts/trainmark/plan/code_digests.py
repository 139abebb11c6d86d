"""Which of our own modules a job depends on, and digests of their code."""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import TypeGuard

SCRIPTS = Path(__file__).parents[2]
"""The folder of the project's own modules: the scripts at its top, and the library."""

NOT_FOLLOWED = {
    "trainmark.recipes.catalogue": "all recipes, of which a run has one: a job names the values it depends on itself",
}
"""Modules that are left out together with what they import, and why."""

WITHOUT_EFFECT = {
    "trainmark.console": "what a person sees while a run trains",
    "trainmark.training.process_exit": "how the process ends when its record is made",
    "trainmark.training.display": "what a person sees of a run",
    "trainmark.plan.plan_file": "the order of the runs, and settings that decide nothing",
    "trainmark.tables.consistency": "what is checked of records side by side",
    "trainmark.records.consistency": "what is checked when a record is read",
    "trainmark.parity.contradictions": "what is checked when a certificate is read",
    "trainmark.errors": "sentences, and the exit status of a script that fails",
    "trainmark.plan.dependencies": "what digests are made of: where it names other modules, the digests show it",
    "trainmark.plan.code_digests": "the digests: where it makes others of the same code, they show it themselves",
}
"""Modules that decide nothing that a result holds, and why: an edit of one makes no result stale."""

DATA_FILES = {
    "trainmark.records.evaluation": ("evaluation.schema.json",),
    "trainmark.records.record": ("record.schema.json",),
    "trainmark.parity.certificate": ("certificate.schema.json",),
    "trainmark.report.page": ("*.css", "*.j2"),
}
"""Patterns of files beside a module that decide with it what a result holds."""

WITHOUT_MEANING = {"ctx", "kind", "type_comment"}
"""Fields of syntax nodes that repeat where the node stands (ctx), or that do nothing when the code runs."""

HEX_DIGITS = 16
"""Length of a digest: 64 of SHA-256's bits."""


@dataclass(frozen=True)
class _Source:
    """What a module's file says: names that it may import, modules or not, and the digest of its code."""

    imports: frozenset[str]
    digest: str


@cache
def modules_of(*starts: str, scripts: Path = SCRIPTS) -> tuple[str, ...]:
    """Sorted names of our own modules that are loaded, at once or in the middle of a job, with the modules `starts`.

    Scripts are modules too ("train"). Imports within functions count, those under `if TYPE_CHECKING:` do not. What
    importlib imports, as it does adapters and formats, can't be seen: name it as one more start. A module of
    NOT_FOLLOWED is left out, unless it is a start.

    Raises LookupError for a start that is no module in `scripts`, SyntaxError for a module that is no Python.
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
    """Digest of each module that is loaded with `starts` and decides something, by its name, and of its data files.

    A module's is that of its code, the same on every Python: comments, docstrings and formatting change
    nothing. A data file's is that of its bytes, by its path from `scripts` ("trainmark/record.schema.json").

    Raises what `modules_of` raises.
    """
    files = _files(scripts)
    found = {}
    for module in modules_of(*starts, scripts=scripts):
        if module in WITHOUT_EFFECT:
            continue
        found[module] = _source(module, files[module]).digest
        for pattern in DATA_FILES.get(module, ()):
            for data_file in files[module].parent.glob(pattern):
                found[data_file.relative_to(scripts).as_posix()] = _file_digest(data_file)
    return found


@cache
def digest(*starts: str, scripts: Path = SCRIPTS) -> str:
    """One digest over `digests`: it changes when, and only when, one of them changes, comes or goes."""
    lines = [f"{name} {one}\n" for name, one in sorted(digests(*starts, scripts=scripts).items())]
    return _short_sha256("".join(lines).encode())


def _short_sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:HEX_DIGITS]


@cache
def _file_digest(path: Path) -> str:
    return _short_sha256(path.read_bytes())


@cache
def _files(scripts: Path) -> dict[str, Path]:
    """File of every module under a folder, by the module's name; a package's is its __init__.py."""
    return {_module_name(path.relative_to(scripts)): path for path in sorted(scripts.rglob("*.py"))}


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _source(module: str, path: Path) -> _Source:
    tree = ast.parse(path.read_bytes(), str(path))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    imports = frozenset(name for node in _nodes_that_run(tree) for name in _imported_names(node, package))
    return _Source(imports, _short_sha256(_form(tree).encode()))


def _with_packages(name: str) -> Iterator[str]:
    """The packages that a module lies in, outermost first, and the module: loading it loads them all."""
    return accumulate(name.split("."), "{}.{}".format)


# --- imports ------------------------------------------------------------------------------------------------------


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`, which is false when the code runs; its `else` is not."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.orelse if _is_for_type_checkers(node) else ast.iter_child_nodes(node)


def _is_for_type_checkers(node: ast.AST) -> TypeGuard[ast.If]:
    if not isinstance(node, ast.If):
        return False
    return "TYPE_CHECKING" in (getattr(node.test, "id", None), getattr(node.test, "attr", None))


def _imported_names(node: ast.AST, package: str) -> list[str]:
    """What a statement in a module of `package` imports: `from trainmark import x` may be of a module trainmark.x."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(node.module or "", node.level, package)
        return [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return []


def _absolute(name: str, level: int, package: str) -> str:
    """The name that `from` gives with `level` dots before it: one is the package itself, each further one goes out."""
    if level == 0:
        return name
    outer = package.split(".")
    return ".".join([*outer[: max(0, len(outer) - level + 1)], *filter(None, [name])])


# --- code ---------------------------------------------------------------------------------------------------------


def _form(value: object) -> str:
    """A syntax node, or what a field of one holds, as text that says all that the code does and nothing more.

    Python's own ast.dump and ast.unparse differ between its versions: 3.12 gave functions a field for type parameters,
    3.13 leaves out empty lists. Here a field that holds nothing is never written.
    """
    if isinstance(value, ast.Constant):
        return f"Constant({_literal(value.value)})"
    if isinstance(value, ast.AST):
        fields = [(name, _held(value, name)) for name in value._fields if name not in WITHOUT_MEANING]
        inside = [f"{name}={_form(held)}" for name, held in fields if held is not None and held != []]
        return f"{type(value).__name__}({','.join(inside)})"
    if isinstance(value, list):  # None has its place in one: a dict's keys hold it for each **
        return f"[{','.join(map(_form, value))}]"
    return _literal(value)


def _literal(value: object) -> str:
    """Type and value, in ASCII, because which characters repr escapes follows each Python's Unicode tables.

    Integers are in hexadecimal, because Python refuses to write very long ones in decimal.
    """
    return f"{type(value).__name__} {hex(value) if type(value) is int else ascii(value)}"


def _held(node: ast.AST, field: str) -> object:
    """What a field holds, without statements that do nothing, and with the text of an f-string in whole pieces."""
    if isinstance(node, ast.JoinedStr):
        return list(_whole_pieces(node.values))
    held = getattr(node, field, None)
    return [item for item in held if not _does_nothing(item)] if isinstance(held, list) else held


def _does_nothing(node: object) -> bool:
    """Whether a statement is `pass`, or bare text such as a docstring."""
    if isinstance(node, ast.Pass):
        return True
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _whole_pieces(parts: list[ast.expr]) -> Iterator[ast.expr]:
    """An f-string's parts; Pythons differ in where they cut its text, and in whether a piece may be empty."""
    for is_text, group in groupby(parts, lambda part: isinstance(part, ast.Constant)):
        if not is_text:
            yield from group
        elif text := "".join(map(ast.literal_eval, group)):
            yield ast.Constant(text)
