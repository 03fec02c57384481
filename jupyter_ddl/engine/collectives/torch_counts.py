"""Counts the collectives of torch.distributed that this rank has entered, by process group.

The numbers are torch's own, which every backend counts in C++: so those that DDP, FSDP and DTensor enter are in them.
A backend counts sends and receives too, of which ranks have different numbers: a group that has any is not counted.

Source: torch 2.6 to 2.13, torch/csrc/distributed/c10d/ProcessGroup.hpp, getSequenceNumberForGroup.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.patching import Layer, patch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

NEW_GROUP = "new_group"


class Counts:
    """The collectives of one rank, since its process groups were initialised."""

    def __init__(self) -> None:
        self._uncounted: set[str] = set()
        self._new_groups = 0

    def install(self, c10d: ModuleType) -> None:
        """Note from here on which groups send and receive."""
        self._c10d = c10d
        for name in ("isend", "irecv", "recv"):
            patch(c10d, name, self._note_peers, Layer.RANK)

    def begin(self) -> None:
        """Begin again: process groups are initialised."""
        self._uncounted.clear()
        self._new_groups = 0

    def note_new_group(self, *, of_members_only: bool) -> None:
        """Count a call of `new_group`, which all ranks enter, unless it is of the group's members only."""
        self._new_groups += not of_members_only

    def of_all_ranks(self) -> int | None:
        """Return the number of the group of all ranks; None where there is none, or it is not counted."""
        try:
            return self._of(self._c10d._get_default_group())
        except (RuntimeError, ValueError):
            # It has ended meanwhile.
            return None

    def by_group(self, world_size: int) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Return group -> its number here, and its ranks among all. Groups are named as on the other ranks."""
        found = {NEW_GROUP: (self._new_groups, tuple(range(world_size)))}
        for group, ranks in self._c10d._world.pg_group_ranks.copy().items():
            # Of groups of others torch has a number in their place.
            count = None if group is self._c10d.GroupMember.NON_GROUP_MEMBER else self._of(group)
            if count is not None:
                found[self._c10d._world.pg_names[group]] = count, tuple(sorted(ranks))
        return found

    def in_all(self) -> int | None:
        """Return how many collectives this rank has entered in all its groups; None where one is not counted."""
        counts = [self._of(one) for one in self._members()]
        return None if None in counts else sum(count for count in counts if count is not None)

    def _members(self) -> list[Any]:
        """Return the groups that this rank is in: of those of others torch has a number in their place."""
        return [
            one for one in list(self._c10d._world.pg_group_ranks) if one is not self._c10d.GroupMember.NON_GROUP_MEMBER
        ]

    def _of(self, group: Any) -> int | None:
        if self._c10d._world.pg_names.get(group) in self._uncounted:
            return None
        try:
            return int(group._get_sequence_number_for_group())
        except (RuntimeError, ValueError):
            # A backend that does not count.
            return None

    def _note_peers(self, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        group = kwargs.get("group") or (args[2] if len(args) > 2 else None)
        name = self._c10d._world.pg_names.get(group or self._c10d._world.default_pg)
        if name is not None:
            self._uncounted.add(name)
        return stock(*args, **kwargs)
