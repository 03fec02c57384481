"""Makes the groups of torch.distributed in which process sets exchange.

The group of all ranks is the program's own where it has made one; it is made when it is first needed, again where a
release has ended it.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api.process_sets import ProcessSet, joined


class _Groups:
    """The groups that were made since `init`."""

    def __init__(self) -> None:
        self.world: Any = None
        self.of_ranks: dict[tuple[int, ...], Any] = {}


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Make the group of all ranks, and those of the process sets.

    Args:
        comm: Horovod's; None.
        process_sets: to add.

    Raises:
        InvalidInput: a communicator was passed; this process is no rank.
    """
    if comm is not None:
        raise InvalidInput(
            "Over torch.distributed hvd.init takes no communicator.", repr(comm), "Leave it out; use process_sets."
        )
    _world()
    joined().begin(process_sets)


def shutdown() -> None:
    """End the group of all ranks."""
    groups = _groups()
    groups.world = None
    groups.of_ranks.clear()
    joined().end()
    if dist.is_initialized():
        dist.destroy_process_group()


def _world() -> Any:
    """Return the group of all ranks; made now, where there is none. Collective, where it is made."""
    groups = _groups()
    if not dist.is_initialized():
        dist.init_process_group()
    if groups.world is not dist.group.WORLD:
        groups.world = dist.group.WORLD
        groups.of_ranks.clear()
    return groups.world


def group_of(process_set: ProcessSet) -> Any:
    """Return the group of a process set; made now, where there is none. Collective, where it is made."""
    world = _world()
    if process_set.ranks is None:
        return world
    made, ranks = _groups().of_ranks, tuple(process_set.ranks)
    if ranks not in made:
        # Made by its ranks alone: the others need not know that a release has ended the last one.
        made[ranks] = dist.new_group(process_set.ranks, use_local_synchronization=True)
    return made[ranks]


def made_group_of(process_set: ProcessSet) -> Any:
    """Return the group of a process set; None where it was not made, or a release has ended it. No collective."""
    groups = _groups()
    if not dist.is_initialized() or groups.world is not dist.group.WORLD:
        return None
    return groups.world if process_set.ranks is None else groups.of_ranks.get(tuple(process_set.ranks))


def _groups() -> _Groups:
    return rank_state.here().part(_Groups)
