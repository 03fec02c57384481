"""Has imports of H2O4GPU and pai4sk, where they are not installed, say what is written today.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.host import import_hooks
from jupyter_ddl.protocol.sklearn_names import H2O4GPU_TODAY, PAI4SK_TODAY

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_TODAY = {"h2o4gpu": H2O4GPU_TODAY, "pai4sk": PAI4SK_TODAY}


def install() -> None:
    """Wait for such an import."""
    import_hooks.serve_missing(_is_old, _refuse)


def _is_old(name: str) -> bool:
    return name in _TODAY


def _refuse(name: str) -> ModuleSpec | None:
    raise ModuleNotFoundError(_TODAY[name], name=name)
