"""The interface by which the engine asks a library of collectives: Horovod, torch.distributed, or a site's own.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        horovod_rests: Horovod is initialised when the cell needs it; the same on all ranks.
    """

    run: str
    on_subset: bool = False
    stall_after_s: float | None = None
    timeline: str | None = None
    report: Callable[[CollectiveStalled], None] | None = None
    horovod_rests: bool = False


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


class Libraries:
    """All libraries of one rank, asked as one."""

    def __init__(self, libraries: Iterable[Library] = ()) -> None:
        self._libraries = list(libraries)

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
