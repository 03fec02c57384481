"""A module is read in one sitting, and a function fits on a screen: the few that are longer are listed."""

from __future__ import annotations

import ast
from pathlib import Path

import jupyter_ddl

PACKAGE = Path(jupyter_ddl.__file__).parent
MODULE_LINES = 400
# Without its docstring, and that of a class or function in it.
FUNCTION_LINES = 60
# Module -> why it is longer.
LONGER = {
    "kernel/session.py": "the one object that a program has of its ranks, most of it docstrings",
    "protocol/old_spellings.py": "one table, from which docs/legacy.md is rendered",
    "protocol/patch_table.py": "one table",
}
MODULES = {str(file.relative_to(PACKAGE)): file for file in sorted(PACKAGE.rglob("*.py"))}


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without docstrings."""
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    docstrings = [
        node.body[0] for node in ast.walk(function) if isinstance(node, documented) and ast.get_docstring(node)
    ]
    return length(function) - sum(length(docstring) for docstring in docstrings)


def length(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_a_module_is_read_in_one_sitting() -> None:
    longer = {module for module, file in MODULES.items() if len(file.read_text().splitlines()) > MODULE_LINES}
    assert longer == set(LONGER)


def test_a_function_fits_on_a_screen() -> None:
    functions = (
        (module, node)
        for module, file in MODULES.items()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert not [f"{module}: {one.name}" for module, one in functions if lines_of(one) > FUNCTION_LINES]
