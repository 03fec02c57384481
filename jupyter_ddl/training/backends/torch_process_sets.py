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
from jupyter_ddl.training.backends.environment_ranks import rank, size


class _Joined:
    """Whether the program has called `init`, and the groups that were made since."""

    def __init__(self) -> None:
        self.is_initialised = False
        self.world: Any = None
        self.groups: dict[tuple[int, ...], Any] = {}
        self.sets: list[ProcessSet] = []


class ProcessSet:
    """Some of the ranks.

    Args:
        ranks: which, counted in the world; None for all.
    """

    def __init__(self, ranks: Any = None) -> None:
        self.ranks: list[int] | None = None if ranks is None else sorted(int(rank) for rank in ranks)
        self.process_set_id: int | None = 0 if ranks is None else None

    def included(self) -> bool:
        """Return whether this rank is in it."""
        return self.ranks is None or rank() in self.ranks

    def size(self) -> int:
        """Return how many ranks it has."""
        return size() if self.ranks is None else len(self.ranks)

    def rank(self) -> int:
        """Return which of them this is."""
        return rank() if self.ranks is None else self.ranks.index(rank())


# Horovod's name of the set of all ranks.
global_process_set = ProcessSet()


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
            "With Keras on PyTorch hvd.init takes no communicator.", repr(comm), "Leave it out; use process_sets."
        )
    joined = _joined()
    joined.is_initialised = True
    _world()
    for one in process_sets if isinstance(process_sets, (list, tuple)) else ():
        add_process_set(one)


def shutdown() -> None:
    """End the group of all ranks."""
    joined = _joined()
    for one in joined.sets:
        one.process_set_id = None
    joined.is_initialised, joined.world = False, None
    joined.groups.clear()
    joined.sets.clear()
    if dist.is_initialized():
        dist.destroy_process_group()


def is_initialized() -> bool:
    """Return whether `init` was called."""
    return _joined().is_initialised


def add_process_set(process_set: Any) -> ProcessSet:
    """Make a set of ranks known. Collective: every rank of the world must call this.

    Args:
        process_set: a ProcessSet, or a list of ranks.
    """
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    sets = _joined().sets
    if added not in sets and added.ranks is not None:
        sets.append(added)
        added.process_set_id = len(sets)
    return added


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forget a set of ranks; return whether it was known."""
    joined = _joined()
    if process_set not in joined.sets:
        return False
    joined.sets.remove(process_set)
    process_set.process_set_id = None
    return True


def _world() -> Any:
    """Return the group of all ranks; made now, where there is none. Collective, where it is made."""
    joined = _joined()
    if not dist.is_initialized():
        dist.init_process_group()
    if joined.world is not dist.group.WORLD:
        joined.world = dist.group.WORLD
        joined.groups.clear()
    return joined.world


def group_of(process_set: ProcessSet) -> Any:
    """Return the group of a process set; made now, where there is none. Collective, where it is made."""
    world = _world()
    if process_set.ranks is None:
        return world
    groups, ranks = _joined().groups, tuple(process_set.ranks)
    if ranks not in groups:
        # Made by its ranks alone: the others need not know that a release has ended the last one.
        groups[ranks] = dist.new_group(process_set.ranks, use_local_synchronization=True)
    return groups[ranks]


def _joined() -> _Joined:
    return rank_state.here().part(_Joined)
