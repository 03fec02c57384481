"""The interface by which the engine asks a library of collectives: Horovod, torch.distributed, or a site's own.

Outside of what implements it no module of the engine names one: tests/pure/test_engine_interface.py.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.events import CollectiveStalled


@dataclass(frozen=True)
class Turn:
    """A cell that begins on this rank.

    Attributes:
        run: its id, the same on all ranks.
        on_subset: it runs on some of the ranks only, which cannot make a group of all.
        stall_after_s: how soon a stall is reported; None where it is not.
        timeline: the file into which its collectives are to be recorded; None where they are not.
        report: called with a stall that a library finds, from any thread; None where no one asks.
        ask: called with the run when it needs a library that rests, and does not block; None where none rests. All
            ranks have it, or none.
    """

    run: str
    on_subset: bool = False
    stall_after_s: float | None = None
    timeline: str | None = None
    report: Callable[[CollectiveStalled], None] | None = None
    ask: Callable[[str], None] | None = None


class Library(Protocol):
    """One library of collectives on this rank."""

    def begin_cell(self, turn: Turn) -> None:
        """Note that a cell begins."""

    def end_cell(self) -> None:
        """Note that the cell has ended well on this rank."""

    def raised(self) -> None:
        """Note that the cell has raised on this rank, while other ranks may wait for it. Never blocks."""

    def release(self) -> None:
        """End the collectives in which this rank, or another, waits: they raise now. From any thread; never blocks."""

    def was_ended_elsewhere(self, text: str) -> bool:
        """Return whether an error's text says that another rank has ended the collective."""

    def entered(self) -> int | None:
        """Return how many collectives of all ranks this rank has entered; None where it counts none."""


class RestingLibrary(Library, Protocol):
    """One that keeps a core busy while it runs, so that it rests between cells."""

    def initialise(self, communicator: Any, *, on_subset: bool) -> None:
        """Start it, again where it runs, as the program did last. Collective: every rank must call this.

        Args:
            communicator: of all ranks of the world, for our own messages.
            on_subset: the cell runs on some of the ranks only.
        """

    def start_beside(self, run: str, communicator: Any, *, on_subset: bool) -> None:
        """Do so in a thread, beside the cell of a run that has asked. Never blocks; collective, once for a run."""

    def rest(self, run: str = "", after: str = "") -> None:
        """End it, when every rank has finished with it: it ends on all of them.

        Args:
            run: that has ended.
            after: a run for which all ranks were asked to start it beside the cell: that ends first; "" for none.
        """

    def is_used(self) -> bool:
        """Return whether the program has started it on this rank, so that later cells may need it."""

    def is_running(self) -> bool:
        """Return whether it runs on this rank."""

    def has_shut_down(self, within_s: float) -> bool:
        """Return whether what `release` of a script has begun to end has ended, within so many seconds."""

    def has_given_up(self, text: str) -> bool:
        """Return whether an error's text says that it has given up all collectives."""

    def with_known_ranks(self, stalled: CollectiveStalled, world: World) -> CollectiveStalled:
        """Return a stall that it has written of, without the missing ranks where it counts others than the world's."""


class Exchanger(Protocol):
    """What a site's library has besides, where gradients are to go through it.

    Ranks call its collectives in the same order, from any thread, one at a time.
    """

    def size(self) -> int:
        """Return the number of ranks."""

    def rank(self) -> int:
        """Return this rank's number, which must be MPI's."""

    def allreduce(self, array: Any) -> Any:
        """Return the sum of all ranks' arrays, of NumPy's, with the shape and dtype of this rank's. Collective."""

    def broadcast(self, array: Any, root: int) -> Any:
        """Return one rank's array, with the shape and dtype of this rank's. Collective."""


class Libraries:
    """All libraries of one rank, asked as one.

    Args:
        resting: the one that rests between cells.
    """

    def __init__(self, resting: RestingLibrary) -> None:
        self.resting = resting
        self._libraries: list[Library] = [resting]
        # What gradients go through; None for the resting one. And over how many ranks.
        self.exchanger: Exchanger | None = None
        self.world_size = 1

    def add(self, library: Library) -> None:
        """Ask one more from here on."""
        self._libraries.append(library)

    def begin_cell(self, turn: Turn) -> None:
        """Note that a cell begins."""
        for library in self._libraries:
            library.begin_cell(turn)

    def end_cell(self) -> None:
        """Note that the cell has ended well on this rank."""
        for library in self._libraries:
            library.end_cell()

    def raised(self) -> None:
        """Note that the cell has raised on this rank."""
        for library in self._libraries:
            library.raised()

    def release(self) -> None:
        """End every collective in which a rank waits."""
        for library in self._libraries:
            library.release()

    def was_ended_elsewhere(self, text: str) -> bool:
        """Return whether an error is an effect of another rank's end. To be asked before `raised`."""
        return any(library.was_ended_elsewhere(text) for library in self._libraries)

    def entered(self) -> int | None:
        """Return how many collectives of all ranks this rank has entered; None where no library counts them."""
        counts = [count for library in self._libraries if (count := library.entered()) is not None]
        return sum(counts) if counts else None
