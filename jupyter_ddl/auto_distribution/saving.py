"""Saves a model on rank 0 in a program that was written for one process; the other ranks wait for the file.

Several ranks that write one file would corrupt it.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.training.backends import hvd
from jupyter_ddl.training.collectives import barrier

if TYPE_CHECKING:
    from collections.abc import Callable


def on_first_rank(save: Callable[..., Any], *args: Any, all_are_here: bool, **kwargs: Any) -> Any:
    """Call `save` on rank 0, and return there what it does.

    Collective, where `all_are_here`: every rank must call this, and returns when the file is there.

    Args:
        save: writes a file or a folder.
        *args: for it.
        all_are_here: not inside of `fit`, where a callback may run on rank 0 only.
        **kwargs: for it.
    """
    answer = save(*args, **kwargs) if hvd.rank() == 0 else None
    if all_are_here:
        barrier()
    return answer
