"""Names the frameworks that ranks import before the first cell, and checks a user's choice of one.

Runs on: kernel and every rank. Imports none of them.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Container

AUTO = "auto"
NONE = "none"
_OF_TORCH = {"torch", "lightning", "pytorch_lightning", "accelerate", "transformers"}
# In the order in which an installed one is chosen.
FRAMEWORKS = ("tensorflow", "torch", "jax")
REQUIREMENTS = {
    "tensorflow": "tensorflow>=2.16",
    "keras": "keras>=3",
    "torch": "torch>=2.7",
    "jax": "jax>=0.10",
    "sklearn": "scikit-learn>=1.4",
}
"""What pip installs for a package that programs import, with the bounds of pyproject.toml."""


def checked(choice: str) -> str:
    """Return the choice of a framework.

    Raises:
        InvalidInput: there is no such choice.
    """
    if choice not in (*FRAMEWORKS, AUTO, NONE):
        raise InvalidInput(
            "--framework must be what the ranks import before the first cell.",
            repr(choice),
            f"Pass {', '.join(FRAMEWORKS)}, {AUTO} for what the notebook imports or what is installed, or {NONE}.",
        )
    return choice


def check_installed(choice: str) -> None:
    """Refuse a framework that this Python lacks.

    Args:
        choice: a framework's name; AUTO and NONE pass.

    Raises:
        InvalidInput: it is not installed here.
    """
    if choice in FRAMEWORKS and choice not in sys.modules and importlib.util.find_spec(choice) is None:
        raise InvalidInput(
            f"--framework {choice} takes the module {choice}.",
            f"{sys.executable} without it",
            f"Run: {sys.executable} -m pip install '{REQUIREMENTS[choice]}'",
        )


def imported(modules: Container[str]) -> str:
    """Return the one framework among modules that a program has imported; AUTO where it is none, or not one.

    >>> imported({"torch", "numpy"}), imported({"torch", "tensorflow"})
    ('torch', 'auto')
    """
    found = [name for name in FRAMEWORKS if name in modules]
    return found[0] if len(found) == 1 else AUTO


def uses_torch(script: str) -> bool:
    """Return whether a script trains with PyTorch, by the names of what it imports itself.

    >>> uses_torch("import torch"), uses_torch("import horovod.torch as hvd"), uses_torch("import torch, tensorflow")
    (True, True, False)
    """
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        # It will say so itself.
        return False
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            named.add(node.module)
    roots = {name.partition(".")[0] for name in named}
    return bool(roots & _OF_TORCH or "horovod.torch" in named) and not roots & {"tensorflow", "keras"}


def imports_keras(framework: str) -> bool:
    """Return whether ranks that import a framework before the first cell import Keras, too.

    With TensorFlow, whose part Keras is; else where the environment has chosen it as Keras's backend.
    """
    return framework == FRAMEWORKS[0] or (framework != NONE and os.environ.get("KERAS_BACKEND") == framework)


def installed() -> str:
    """Return the framework that is installed: of several Keras's, where KERAS_BACKEND names one.

    Otherwise TensorFlow, if Horovod can train with it, else PyTorch.
    """
    found = [name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None]
    if (wanted := os.environ.get("KERAS_BACKEND", "")) in found:
        return wanted
    if len(found) > 1 and found[0] == "tensorflow" and importlib.util.find_spec("horovod") is None:
        return found[1]
    return found[0] if found else NONE
