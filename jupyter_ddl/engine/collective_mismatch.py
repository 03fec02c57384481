"""Finds what this rank passed to a collective that Horovod refused because the ranks passed different things.

Horovod says what differs ("One rank sent a tensor of shape [2], but another rank sent a tensor of shape [3]"), and not
on which ranks: each looks for its own in the frames of the exception.

Runs on: every rank.
"""

from __future__ import annotations

import traceback
from typing import Any

# Source: horovod 0.28.1, horovod/common/controller.cc, Controller::ConstructResponse
_REFUSED = ("Mismatched ", "ne rank ", " another rank ")
_COLLECTIVES = "mpi_ops.py"


def given(error: BaseException, text: str) -> str | None:
    """Return what this rank passed, e.g. "allreduce of float32 [2]"; None for another error, or where it is not known.

    Args:
        error: what the cell raised.
        text: its text.
    """
    at = 0
    for words in _REFUSED:
        # Not one regular expression: on a text that repeats them it would take the third power of its length.
        at = text.find(words, at)
        if at < 0:
            return None
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_code.co_filename.endswith(_COLLECTIVES):
            tensor = frame.f_locals.get("tensor")
            return None if tensor is None else f"{frame.f_code.co_name.strip('_')} of {_described(tensor, frame)}"
    return None


def _described(tensor: Any, frame: Any) -> str:
    shape, dtype = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    root = frame.f_locals.get("root_rank")
    sizes = "" if shape is None else f" {list(shape)}"
    return f"{getattr(dtype, 'name', dtype)}{sizes}" + ("" if root is None else f" from rank {root}")
