"""Renders the Python API as Markdown: each public class and function with its signature and its docstring."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from site_pages import docstrings, sources

if TYPE_CHECKING:
    from site_pages.sources import Public

# Module -> as programs write it.
FACES = {
    "jupyter_ddl": "jupyter_ddl",
    "jupyter_ddl.keras": "jupyter_ddl.keras",
    "jupyter_ddl.training.callbacks": "jupyter_ddl.keras.callbacks",
    "jupyter_ddl.training.elastic": "jupyter_ddl.keras.elastic",
    "jupyter_ddl.torch": "jupyter_ddl.torch",
    "jupyter_ddl.data": "jupyter_ddl.data",
    "jupyter_ddl.memory": "jupyter_ddl.memory",
    "jupyter_ddl.ml": "jupyter_ddl.ml",
    "jupyter_ddl.strategies": "jupyter_ddl.strategies",
    "jupyter_ddl.datasets": "jupyter_ddl.datasets",
}
_ERRORS = "jupyter_ddl.errors"
_INTRODUCTION = """\
# The Python API

What `jupyter_ddl` offers to programs. "Runs on" says where a call is meant: in the kernel, which is the notebook's
process, or on the ranks. "Collective" says that every rank must call it, in the same order. The tests run the
examples, but for those of `jupyter_ddl.ml` and `jupyter_ddl.strategies`, whose own tests call the same.
"""


def render() -> str:
    """Return the page of the API."""
    return "\n\n".join([_INTRODUCTION, *(_module(module, shown) for module, shown in FACES.items())]) + "\n"


def render_errors() -> str:
    """Return the page of the errors: their tree, and each class."""
    parts = ["# Errors", _within(_ERRORS), sources.docstring(_ERRORS)]
    errors = [one for one in sources.public(_ERRORS) if isinstance(one.node, ast.ClassDef) and _is_error(one.node)]
    parts += [_object(one) for one in errors]
    return "\n\n".join(parts) + "\n"


def _module(module: str, shown: str) -> str:
    names = sources.public(module)
    ours = [_object(one) for one in names if one.docstring]
    others = [f"`{one.name}`" for one in names if not one.docstring and f"{shown}.{one.name}" not in FACES.values()]
    first, *_ = sources.docstring(module).split("\n\n")
    parts = [f"## `{shown}`", _within(shown), first, *ours]
    if others:
        parts.append(f"Also here, as the library that they are from has them: {', '.join(others)}.")
    return "\n\n".join(parts)


def _within(module: str) -> str:
    """Return the directive that says whose the next objects are: two modules have an `Advice`."""
    return f"```{{py:currentmodule}} {module}\n```"


def _object(one: Public) -> str:
    if isinstance(one.node, ast.FunctionDef):
        return _directive("function", f"{one.name}{_signature(one.node)}", docstrings.render(one.docstring))
    assert isinstance(one.node, ast.ClassDef)
    kind = "exception" if _is_error(one.node) else "class"
    inner = [_member(member) for member in sources.members(one.node)] if kind == "class" else []
    body = "\n\n".join([docstrings.render(one.docstring), *inner])
    return _directive(kind, f"{one.name}{'' if kind == 'exception' else _constructor(one.node)}", body)


def _member(node: ast.FunctionDef) -> str:
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    body = docstrings.render(ast.get_docstring(node) or "")
    if marks & {"property", "cached_property"}:
        returns = f":type: {ast.unparse(node.returns)}\n\n" if node.returns else ""
        return _directive("property", node.name, f"{returns}{body}", fence=4)
    kind = "classmethod" if "classmethod" in marks else "staticmethod" if "staticmethod" in marks else "method"
    return _directive(kind, f"{node.name}{_signature(node, is_bound=kind != 'staticmethod')}", body, fence=4)


def _directive(kind: str, signature: str, body: str, *, fence: int = 5) -> str:
    """Return an object of Sphinx's Python domain; what is within another has a shorter fence."""
    marks = "`" * fence
    return f"{marks}{{py:{kind}}} {signature}\n{body}\n{marks}"


def _signature(node: ast.FunctionDef, *, is_bound: bool = False) -> str:
    arguments = node.args
    if is_bound:
        # Of a copy: the tree is the module's.
        arguments = ast.parse(f"def _({ast.unparse(arguments)}): ...").body[0].args  # type: ignore[attr-defined]
        (arguments.posonlyargs or arguments.args).pop(0)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){returns}"


def _constructor(node: ast.ClassDef) -> str:
    """Return the arguments of a class: its `__init__`'s, or its fields."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return _signature(one, is_bound=True).partition(" -> ")[0]
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    return f"({', '.join(ast.unparse(one) for one in fields)})" if fields else "()"


def _is_error(node: ast.ClassDef) -> bool:
    """Return whether a class is DdlError, or below it or Exception."""
    bases = {ast.unparse(base) for base in node.bases}
    return "Exception" in bases or any(
        _is_error(one.node)
        for one in sources.public(_ERRORS)
        if one.name in bases and isinstance(one.node, ast.ClassDef)
    )
