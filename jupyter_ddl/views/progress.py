"""Shows progress in one line until it is over, then the result. Runs on: kernel."""

from __future__ import annotations

import sys
import time
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Progress:
    """Shows steps as they begin. In a notebook each replaces the one before, so that the saved one is short.

    Call it with each step, and `conclude` at the end; after an error the last step stays.
    """

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._show = _notebook_output() or _print

    def __call__(self, step: str) -> None:
        """Show a step."""
        self._show(f"{time.monotonic() - self._began_s:5.1f} s  {step}")

    def conclude(self, text: str) -> None:
        """Show the result."""
        self._show(text)


def _print(text: str) -> None:
    print(text, flush=True)


def _notebook_output() -> Callable[[str], None] | None:
    """Return what sets the text of one output of the running cell; None outside a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from jupyter_ddl.views.publish import JupyterPublisher

    publisher = JupyterPublisher(shell)
    name = f"ddl-{uuid.uuid4().hex}"
    shown = False

    def show(text: str) -> None:
        nonlocal shown
        send = publisher.update if shown else publisher.publish
        shown = True
        send({"text/plain": text}, {}, name)

    return show
