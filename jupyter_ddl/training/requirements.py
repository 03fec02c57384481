"""Checks what a collective requires: Horovod, a rank of the world, a process set with this rank in it.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import global_process_set, hvd


def require_horovod(what: str) -> None:
    """Raise unless Horovod is initialised.

    Args:
        what: the function that needs it, for the error.

    Raises:
        InvalidInput: Horovod is not initialised.
    """
    if not hvd.is_initialized():
        raise InvalidInput(f"{what} needs Horovod.", "Horovod is not initialised", "Call hvd.init() first.")


def require_rank(root_rank: int) -> None:
    """Raise unless `root_rank` is a rank of this world.

    Raises:
        InvalidInput: there is no such rank.
    """
    if not 0 <= root_rank < hvd.size():
        raise InvalidInput(
            "root_rank must be one of the ranks.",
            f"root_rank={root_rank}, world_size={hvd.size()}",
            f"Pass 0 <= root_rank < {hvd.size()}.",
        )


def require_member(process_set: Any, what: str) -> None:
    """Raise unless Horovod knows the process set, and this rank is in it.

    Args:
        process_set: a horovod ProcessSet.
        what: the function that uses it, for the error.

    Raises:
        InvalidInput: it is not in use, or leaves this rank out.
    """
    if process_set.process_set_id is None:
        raise InvalidInput(
            f"{what} takes a process set that Horovod knows.",
            f"ranks {process_set.ranks}, not in use",
            "Pass it to hvd.init(process_sets=[...]) or to hvd.add_process_set.",
        )
    if process_set is not global_process_set and not process_set.included():
        raise InvalidInput(
            f"{what} over a process set is called by its ranks only.",
            f"rank {hvd.rank()}, process set of ranks {process_set.ranks}",
            "Call it where process_set.included() is true.",
        )


def require_root(root_rank: int, process_set: Any, what: str) -> None:
    """Raise unless `root_rank` is one of the ranks of a process set, to which this rank belongs.

    Args:
        root_rank: counted in the world.
        process_set: a horovod ProcessSet.
        what: the function that uses both, for the error.

    Raises:
        InvalidInput: one of them is not so.
    """
    require_rank(root_rank)
    require_member(process_set, what)
    if process_set is not global_process_set and root_rank not in process_set.ranks:
        raise InvalidInput(
            "root_rank must be in the process set.",
            f"root_rank={root_rank}, process set of ranks {process_set.ranks}",
            "Pass one of its ranks, counted in the world.",
        )
