"""The modules of each backend of Keras's have what the rest of `training` asks them for, by the same names."""

from __future__ import annotations

import ast
from collections import ChainMap
from pathlib import Path

import pytest

import jupyter_ddl

BACKENDS = Path(jupyter_ddl.__file__).parent / "training" / "backends"
# Backend -> the operations that it does not have.
LACKS = {
    "tensorflow_ops": set(),
    "torch_ops": set(),
    "jax_ops": {"gathered_rows", "minimum", "repeat", "without_gradients"},
}


def tree_of(module: str) -> ast.Module:
    return ast.parse((BACKENDS / f"{module}.py").read_text())


def parameters_in(body: list[ast.stmt]) -> dict[str, list[str]]:
    """Return the parameters of functions and classes, by name, without a method's `self`."""
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            names = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
            found[node.name] = [name for name in names if name != "self"]
        elif isinstance(node, ast.ClassDef):
            found[node.name] = parameters_in(node.body).get("__init__", [])
    return found


def imported_in(tree: ast.Module) -> dict[str, list[str]]:
    """Return the parameters of what a module takes from others of the folder."""
    return {
        alias.name: parameters_in(tree_of(module).body)[alias.name]
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        and (module := (node.module or "").rpartition("training.backends.")[2])
        and (BACKENDS / f"{module}.py").exists()
        for alias in node.names
        if alias.name in parameters_in(tree_of(module).body)
    }


def provided_by(module: str) -> dict[str, list[str]]:
    """Return the parameters of what a module has: its functions, and classes under a name of an operation."""
    tree = tree_of(module)
    own = parameters_in(tree.body)
    known = own | imported_in(tree)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            for name, value in zip(node.targets[0].elts, node.value.elts, strict=True):
                if isinstance(value, ast.Name) and value.id in known:
                    own[name.id] = known[value.id]
    return own


def modules_of(ops: str) -> list[str]:
    """Return the modules that have the operations of a backend."""
    for node in ast.walk(tree_of("__init__")):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_together":
            names = [ast.unparse(each) for each in node.args]
            if names[0] == ops:
                return names
    raise AssertionError(ops)


def asked_for() -> dict[str, list[str]]:
    classes = [node for node in tree_of("interface").body if isinstance(node, ast.ClassDef)]
    return parameters_in(next(node for node in classes if node.name == "Ops").body)


@pytest.mark.parametrize("ops", LACKS)
def test_a_backend_has_all_operations(ops: str) -> None:
    provided = ChainMap(*(provided_by(module) for module in modules_of(ops)))
    wanted = {name: parameters for name, parameters in asked_for().items() if name not in LACKS[ops]}
    assert {name: parameters for name, parameters in provided.items() if name in asked_for()} == wanted


@pytest.mark.parametrize("ops", LACKS)
def test_no_two_modules_of_a_backend_have_one_operation(ops: str) -> None:
    names = [name for module in modules_of(ops) for name in provided_by(module) if name in asked_for()]
    assert len(names) == len(set(names))
