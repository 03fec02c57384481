"""Finds what a module of jupyter_ddl makes public, and where it is defined, in the source and without an import."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

PACKAGE = Path(__file__).parents[2] / "jupyter_ddl"
Definition = ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Public:
    """A public name of a module.

    Attributes:
        name: e.g. "allreduce".
        node: its definition; None for what is another library's, or a module.
    """

    name: str
    node: Definition | None

    @property
    def docstring(self) -> str:
        """Return its docstring, cleaned; "" where it has none."""
        return "" if self.node is None else ast.get_docstring(self.node) or ""


def public(module: str) -> list[Public]:
    """Return the names of a module's `__all__` or, where it has none, the classes and functions that it defines.

    Args:
        module: e.g. "jupyter_ddl.data".

    Example:
        >>> [one.name for one in public("jupyter_ddl.datasets")]
        ['DataSet', 'mnist', 'spirals']
    """
    tree = parsed(module)
    listed = _listed(tree)
    if listed is None:
        return [Public(node.name, node) for node in tree.body if _is_public(node)]
    return [Public(name, _definition(module, name)) for name in listed]


def docstring(module: str) -> str:
    """Return a module's docstring, cleaned."""
    return ast.get_docstring(parsed(module)) or ""


def parsed(module: str) -> ast.Module:
    """Return a module's syntax tree."""
    return ast.parse(_file(module).read_text())


def members(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """Return a class's public methods and properties that have a docstring."""
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
    return [one for one in methods if ast.get_docstring(one)]


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _listed(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def _definition(module: str, name: str) -> Definition | None:
    """Return where a name is defined; None for another library's names and for modules."""
    tree = parsed(module)
    for node in ast.walk(tree):
        if isinstance(node, Definition) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            source = node.module or ""
            if source.partition(".")[0] == "jupyter_ddl" and not _file(f"{source}.{name}").is_file():
                return _definition(source, name)
            return None
    return _delivered(tree, module, name)


def _delivered(tree: ast.Module, module: str, name: str) -> Definition | None:
    """Return the definition of what a module's `__getattr__` imports the module of.

    Raises:
        LookupError: it imports none that defines the name.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("jupyter_ddl"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if _file(inner).is_file() and any(one.name == name for one in public(inner)):
                    return _definition(inner, name)
    raise LookupError(
        f"{module} must define or import what __all__ lists. Received: {name}. Import it, or take it out."
    )


def _is_public(node: ast.AST) -> TypeGuard[Definition]:
    return isinstance(node, Definition) and not node.name.startswith("_")
