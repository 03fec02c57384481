"""Frees what a failed cell's frames hold: perhaps most of a GPU's memory, which the next cell needs.

Runs on: every rank.
"""

from __future__ import annotations

import gc
import sys
from typing import Any


def let_go_of_the_failure(shell: Any) -> None:
    """Drop all references to the exception of the cell that failed.

    IPython keeps it, and so its frames, for a debugger, which a rank does not have.
    """
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    shell.last_execution_result = None
    shell.InteractiveTB.tb = None
    # The frames hold each other: IPython's own has the exception in a local variable.
    gc.collect()
