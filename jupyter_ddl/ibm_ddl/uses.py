"""Knows whether this rank has imported `ddl`, and what its program has asked of it. Runs on: every rank."""

from __future__ import annotations

from jupyter_ddl.engine import run_context

RANK, SIZE, LOCAL_RANK = "rank", "size", "local_rank"


class Uses:
    """What one rank's program does with `ddl`, from its import on.

    Attributes:
        is_imported: the program has imported it, in this cell or in one before.
        draws_alike: random states were made alike on all ranks in this cell, or at the import.
    """

    def __init__(self) -> None:
        self.is_imported = False
        self.draws_alike = False
        self._world_size = 1
        self._asked: set[str] = set()

    def begin(self, world_size: int) -> None:
        """Note the import, on one of so many ranks: a program begins, which has asked for nothing."""
        self.is_imported = True
        self._world_size = world_size
        self._asked.clear()

    def ask(self, what: str) -> None:
        """Note that the program has read its rank, or the number of ranks."""
        self._asked.add(what)

    @property
    def knows_its_rank(self) -> bool:
        """Whether the program can do something on one rank only."""
        return bool({RANK, LOCAL_RANK} & self._asked)

    @property
    def knows_the_size(self) -> bool:
        """Whether the program can scale its own learning rate."""
        return SIZE in self._asked

    @property
    def divides(self) -> bool:
        """Whether the program can divide its data: that takes both numbers of the world."""
        return {RANK, SIZE} <= self._asked

    @property
    def distributes(self) -> bool:
        """Whether what trains now is distributed by the import: on all ranks, and not on each by itself."""
        running = run_context.current()
        return (
            self.is_imported
            and self._world_size > 1
            and running is not None
            and running.ranks == self._world_size
            and not running.options.independent
        )
