"""Keeps what a framework's profiler records in a cell with `--timeline` in the run's folder.

Runs on: every rank. Nothing here imports a framework.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from jupyter_ddl.protocol.rank_files import rank_file

if TYPE_CHECKING:
    from typing_extensions import Self

    from jupyter_ddl.engine.cells import Cells
    from jupyter_ddl.engine.collectives.library import Turn
    from jupyter_ddl.engine.world import World


class CellTrace(ABC):
    """The record of one rank, a `Library` of the engine's that has no collectives.

    Args:
        rank: its number.

    Attributes:
        FILE: the kind of file that it writes, of those in `protocol.rank_files`.
    """

    FILE: ClassVar[str]

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._path: Path | None = None

    @classmethod
    def of(cls, world: World, cells: Cells) -> Self:
        """Return that of a rank that starts."""
        trace = cls(world.rank)
        # Of a script too, which ends as no cell does.
        cells.conclude_with(trace.end_cell)
        return trace

    def begin_cell(self, turn: Turn) -> None:
        """Keep what the cell records, where it is asked for."""
        # One that raised: what it recorded is lost, since a rank that writes then keeps others waiting.
        self._discard()
        own = rank_file(self._rank, self.FILE)
        self._path = None if turn.timeline is None else Path(turn.timeline).with_name(own)

    def end_cell(self) -> None:
        """Write what was recorded."""
        if self._path is not None:
            try:
                self._write(self._path)
            except OSError as error:
                # A full disk must not end the training.
                print(f"WARNING: {self._path} is not complete: {error}", file=sys.stderr)
        self._discard()

    def raised(self) -> None:  # noqa: B027  no profiler does anything then
        """Do nothing: other ranks may wait for this one."""

    def release(self) -> None:  # noqa: B027  likewise
        """Do nothing: no rank waits here."""

    def was_ended_elsewhere(self, text: str) -> bool:  # noqa: ARG002  as a library is asked
        """Return that no error is of the profiler's."""
        return False

    def entered(self) -> int | None:
        """Return that collectives are not counted here."""
        return None

    @abstractmethod
    def _write(self, path: Path) -> None:
        """Write what was recorded, if anything was.

        Raises:
            OSError: it cannot be written.
        """

    @abstractmethod
    def _discard(self) -> None:
        """Drop what was recorded."""


class CellProfile(CellTrace):
    """A profiler that records each such cell by itself."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self._is_running = False
        self._lock = threading.Lock()

    def begin_cell(self, turn: Turn) -> None:
        """Record the cell, where it is asked for and the framework is ready."""
        self.stop()
        super().begin_cell(turn)
        if self._is_ready():
            self.start()

    def start(self) -> None:
        """Begin, where a cell asks for it."""
        if self._path is not None and not self._is_running:
            self._begin()
            self._is_running = True

    def stop(self) -> None:
        """Record no more, and keep what was recorded. From any thread."""
        with self._lock:
            if self._is_running:
                self._is_running = False
                self._end()

    def end_cell(self) -> None:
        """Write what was recorded."""
        self.stop()
        super().end_cell()

    @abstractmethod
    def _is_ready(self) -> bool:
        """Return whether the framework can be recorded as a cell begins."""

    @abstractmethod
    def _begin(self) -> None:
        """Start the framework's profiler."""

    @abstractmethod
    def _end(self) -> None:
        """Stop it."""
