"""The public names of jupyter_ddl and the examples in their docstrings, read from the source without an import."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "jupyter_ddl"
FACES = (
    "jupyter_ddl",
    "jupyter_ddl.keras",
    "jupyter_ddl.training.callbacks",  # hvd.callbacks
    "jupyter_ddl.training.elastic",  # hvd.elastic
    "jupyter_ddl.data",
    "jupyter_ddl.memory",
    "jupyter_ddl.torch",
    "jupyter_ddl.datasets",
)
# Not of a rank's program: their examples start ranks themselves.
OF_THE_KERNEL = ("jupyter_ddl.Session", "jupyter_ddl.attach", "jupyter_ddl.parallel_backend", "jupyter_ddl.start")
# Of PyTorch, in whose environment tests/frameworks/test_examples_torch.py runs them.
OF_TORCH = (
    "jupyter_ddl.memory.activations_on_host",
    "jupyter_ddl.memory.state_on_host",
    "jupyter_ddl.torch.epochs",
)
# Needs a scheduler's queue: tests/systems runs it in a real Slurm.
OF_A_QUEUE = ("jupyter_ddl.submit",)


@dataclass(frozen=True)
class Public:
    """A public class or function of ours.

    Attributes:
        name: as a program writes it, e.g. "jupyter_ddl.keras.allreduce".
        docstring: its own; "" where it has none.
    """

    name: str
    docstring: str

    @property
    def example(self) -> str:
        """Return the lines of its `Example:` section; "" where there is none."""
        found = re.search(r"^Example:\n((?:    .*\n|\n)+)", self.docstring + "\n", re.MULTILINE)
        return textwrap.dedent(found[1]) if found else ""


def public_names() -> list[Public]:
    """Return the classes and functions that `__all__` of each face lists and that this package defines."""
    found = []
    for face in FACES:
        for name in _listed(_parsed(face)):
            node = _definition(face, name)
            if node is not None:
                found.append(Public(f"{face}.{name}", ast.get_docstring(node) or ""))
    return found


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _parsed(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text())


def _listed(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise AssertionError("a public module must list its names in __all__")


def _definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    """Return where a name is defined; None for Horovod's own names and for modules."""
    tree = _parsed(module)
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            source = node.module or ""
            if source.partition(".")[0] == "jupyter_ddl" and not _file(f"{source}.{name}").is_file():
                return _definition(source, name)
            return None
    raise AssertionError(f"{module} lists {name}, and neither defines nor imports it")
