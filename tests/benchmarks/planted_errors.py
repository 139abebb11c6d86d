"""How many small errors, planted in the library one at a time, do its tests find? `make bench-tests` prints it.

It plants 40 in a copy of the checkout: a comparison, `and`, `or`, `not`, an operator, a number, a condition before an
error, or a returned value is changed. An error is found if a test fails, or does not end. Two
checkouts of the same library get the same errors, so that two sets of tests can be compared.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import REPOSITORY

COUNT = 40

SECONDS = 300
"""Tests that take longer have found the error: it is an endless loop."""

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*"}


def changed(node: ast.AST) -> Iterator[str]:
    """Yield the texts that an erroneous author might have written for a node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            yield f"({ast.unparse(left)} {COMPARISONS[type(op)]} {ast.unparse(right)})"
        case ast.BoolOp(op=op, values=values):
            yield "(" + (" or " if isinstance(op, ast.And) else " and ").join(map(ast.unparse, values)) + ")"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"bool({ast.unparse(operand)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            yield f"({ast.unparse(left)} {OPERATORS[type(op)]} {ast.unparse(right)})"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield f"{value + 1}"
        case ast.Raise():
            yield "pass"
        case ast.Return(value=ast.AST()):
            yield "return None"


def errors_of(source: str) -> list[tuple[ast.AST, str]]:
    """The nodes of a module that are changed, each with the text in its place. Annotations and texts are left out."""
    tree, left_out = ast.parse(source), set[ast.AST]()
    for node in ast.walk(tree):
        for field in ("annotation", "returns", "decorator_list"):
            part = getattr(node, field, None) or []
            left_out |= {inner for one in (part if isinstance(part, list) else [part]) for inner in ast.walk(one)}
        if isinstance(node, ast.JoinedStr):
            left_out |= {*ast.walk(node)}
    return [(node, text) for node in ast.walk(tree) if node not in left_out for text in changed(node)]


def with_error(source: str, node: ast.AST, text: str) -> str:
    """The module with a text in place of a node."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    first, last = node.lineno - 1, node.end_lineno - 1
    rest = lines[last][node.end_col_offset :]
    lines[first : last + 1] = [lines[first][: node.col_offset] + text.encode() + rest]
    return b"".join(lines).decode()


def found(checkout: Path, tests: list[str]) -> bool:
    """Whether a test fails in a checkout."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        subprocess.run(command, cwd=checkout, env=environment, timeout=SECONDS, check=True, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return True
    return False


def main() -> None:
    """Plant errors, and print those that no test finds and how many are found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", help="folder or module below workflow/scripts/trainmark: config, datasets, ...")
    parser.add_argument("tests", nargs="+", help="its tests, as pytest takes them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "checkout"
        left_out = shutil.ignore_patterns(".git", ".venv", "results", "build", ".*_cache", "__pycache__", ".snakemake")
        shutil.copytree(REPOSITORY, copy, ignore=left_out)
        if found(copy, arguments.tests):
            sys.exit("a test fails without any error")
        package = copy / "workflow" / "scripts" / "trainmark" / arguments.package
        modules = sorted(package.rglob("*.py")) if package.is_dir() else [package]
        sources = {module: module.read_text() for module in modules}
        places = [(module, *error) for module in modules for error in errors_of(sources[module])]
        planted = random.Random(0).sample(places, min(COUNT, len(places)))
        missed = 0
        for module, node, text in planted:
            module.write_text(with_error(sources[module], node, text))
            if not found(copy, arguments.tests):
                missed += 1
                print(f"not found: {module.relative_to(copy)}:{node.lineno}: {text}", flush=True)
            module.write_text(sources[module])
    print(
        f"{arguments.package}: {len(planted) - missed} of {len(planted)} injected errors found ({len(places)} possible)"
    )


if __name__ == "__main__":
    main()
