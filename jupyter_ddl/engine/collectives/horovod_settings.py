"""Remembers what the program's own `hvd.init` asked for, so that it holds in the next cells too.

Runs on: every rank. Nothing here imports Horovod.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.world import made_communicator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class InitSettings:
    """What Horovod is initialised with on this rank.

    Attributes:
        communicator: the program's; None for all ranks.
        process_sets: the program's.
    """

    def __init__(self) -> None:
        self.communicator: Any = None
        self.process_sets: list[Any] = []
        self._had_communicator = False
        self._environment: dict[str, str] = {}

    def are_other(self, communicator: Any, process_sets: Any) -> bool:
        """Return whether a call of `hvd.init`, or the environment, asks for others than Horovod was started with."""
        return communicator is not None or process_sets is not None or _horovod_environment() != self._environment

    def take(self, communicator: Any, process_sets: Any) -> None:
        """Keep what a call of `hvd.init` asks for, if it asks for anything."""
        if communicator is not None or process_sets is not None:
            self.communicator = made_communicator(communicator)
            self.process_sets = [] if process_sets is None or isinstance(process_sets, str) else list(process_sets)

    def forget(self) -> None:
        """Keep nothing: the program has shut Horovod down."""
        self.communicator, self.process_sets = None, []

    def agree(self, communicator: Any) -> None:
        """Keep what the program asked for only where all ranks have it; else they would wait.

        Collective: every rank must call this.

        Args:
            communicator: of all ranks of the world, for our own messages.
        """
        mine = self.communicator is not None, [process_set.ranks for process_set in self.process_sets]
        everyone = communicator.allgather(mine)
        if not all(has_communicator for has_communicator, _ in everyone):
            # Some ranks initialised Horovod among themselves: the next initialisation is of the whole world again.
            self.communicator = None
        if any(sets != mine[1] for _, sets in everyone):
            # A cell failed on some ranks before it reached the call that the others made.
            self.process_sets = []

    def passed_communicator(self) -> Any:
        """Return the communicator to initialise Horovod with now."""
        self._had_communicator |= self.communicator is not None
        if self.communicator is None and self._had_communicator:
            # Horovod keeps the last communicator where it is given none.
            from mpi4py import MPI

            return MPI.COMM_WORLD
        return self.communicator

    def note_environment(self) -> None:
        """Note the variables with which Horovod has been initialised."""
        self._environment = _horovod_environment()

    def add_process_set(self, stock: Callable[[Any], Any], process_set: Any) -> Any:
        """Replace Horovod's `add_process_set`."""
        added = stock(process_set)
        self.process_sets.append(added)
        return added

    def remove_process_set(self, stock: Callable[[Any], bool], process_set: Any) -> bool:
        """Replace Horovod's `remove_process_set`."""
        removed = stock(process_set)
        if removed:
            self.process_sets[:] = [kept for kept in self.process_sets if kept is not process_set]
        return removed


def _horovod_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("HOROVOD_")}


@contextmanager
def environment_with(variables: dict[str, str]) -> Iterator[None]:
    """Set variables while Horovod reads its environment, and put back what the user had."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
