"""Gives `builtins` for good the names that IPython adds and removes around each cell.

Other threads walk over `builtins` meanwhile, which Python refuses where its size changes: TensorFlow does while it is
imported, and IPython's completer. Seen once in thousands of starts: an import that ended with "dictionary changed size
during iteration". Sources: tensorflow 2.21, python/autograph/pyct/inspect_utils.py; IPython 9, core/builtin_trap.py,
core/completer.py, `global_matches`.

Runs on: every rank.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

# What a cell finds in its own namespace: IPython hides them while it runs.
_HIDDEN = ("exit", "quit")


def install() -> None:
    """Make the names of `builtins` those that a cell sees. To be called before other threads begin."""
    names = vars(builtins)
    for name in _HIDDEN:
        names.pop(name, None)
    names.update(get_ipython=_get_ipython, display=_display, __IPYTHON__=True)


def _get_ipython() -> Any:
    """Return the rank's shell; None before there is one. In a cell IPython puts the shell's own method here."""
    found = getattr(sys.modules.get("IPython.core.getipython"), "get_ipython", None)
    return found and found()


def _display(*objects: Any, **options: Any) -> Any:
    """Show objects, before there is a shell, which puts IPython's own function here."""
    from IPython.display import display

    return display(*objects, **options)
