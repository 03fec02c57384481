"""The modules of each backend of Keras's have what the rest of `training` asks them for, by the same names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import jupyter_ddl

BACKENDS = Path(jupyter_ddl.__file__).parent / "training" / "backends"
OPS = ("tensorflow_ops", "torch_ops")


def tree_of(module: str) -> ast.Module:
    return ast.parse((BACKENDS / f"{module}.py").read_text())


def functions_in(body: list[ast.stmt]) -> dict[str, list[str]]:
    """Return the parameters of functions, by name, without a method's `self`."""
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            names = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
            found[node.name] = [name for name in names if name != "self"]
    return found


def asked_for() -> dict[str, list[str]]:
    classes = [node for node in tree_of("interface").body if isinstance(node, ast.ClassDef)]
    return functions_in(next(node for node in classes if node.name == "Ops").body)


@pytest.mark.parametrize("module", OPS)
def test_a_backend_has_all_operations(module: str) -> None:
    tree = tree_of(module)
    own = functions_in(tree.body)
    imported = {
        alias.name: functions_in(tree_of(node.module.rpartition(".")[2]).body)[alias.name]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and "training.backends." in (node.module or "")
        for alias in node.names
        if alias.name in asked_for()
        if node.module is not None
    }
    assert {name: parameters for name, parameters in (own | imported).items() if name in asked_for()} == asked_for()
