"""Holds all that a rank keeps from one cell to the next, in one object, and gives it to code that has no handle of it.

A rank's composition root (`rank/__main__`, `rank/script_main`; `rank/install` for a program that was started without
them) makes the object with `begin` and passes it on. What a program calls, and what a patch of its libraries calls,
reaches it by `here`: nowhere else in the package is there a way from the process to its rank.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_ddl.engine.cells import Cells
from jupyter_ddl.engine.collectives.horovod_runtime import HorovodRuntime
from jupyter_ddl.engine.collectives.library import Libraries
from jupyter_ddl.engine.late_variables import LateVariables
from jupyter_ddl.engine.meter import Meter
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

_Part = TypeVar("_Part")


class RankState:
    """What one rank keeps.

    Attributes:
        cells: what runs, and what ran last.
        variables: the environment as it was when the cell began.
        horovod: its initialisations and shutdowns.
        collectives: all libraries of collectives: Horovod, and what the composition root adds.
        meter: what the training reports.
    """

    def __init__(self) -> None:
        self.cells = Cells()
        self.variables = LateVariables()
        self.horovod = HorovodRuntime(self.variables)
        self.collectives = Libraries(self.horovod)
        self.meter = Meter()
        self._parts: dict[type, Any] = {}

    def part(self, kind: type[_Part]) -> _Part:
        """Return what a layer above keeps on this rank: the one object of its class, made at the first call.

        These layers import TensorFlow, which a rank has not imported yet when its state is made.

        Args:
            kind: a class whose objects are made without arguments.
        """
        part: _Part | None = self._parts.get(kind)
        return self._parts.setdefault(kind, kind()) if part is None else part


class _Process:
    """Which rank this process is.

    Attributes:
        state: the rank's; None in a process that is none.
    """

    state: RankState | None = None


# A process is one rank, and what a program calls has no other way to it.
_process = _Process()


def begin() -> RankState:
    """Make this process a rank, unless it is one, and return the rank's state."""
    if _process.state is None:
        _process.state = RankState()
    return _process.state


def of_process() -> RankState | None:
    """Return the state of the rank that this process is; None where it is none."""
    return _process.state


def here() -> RankState:
    """Return the state of the rank that this process is.

    Raises:
        InvalidInput: it is none.
    """
    state = _process.state
    if state is None:
        raise InvalidInput(
            "Only a rank trains with jupyter_ddl.",
            "a process that is no rank",
            "Import jupyter_ddl.keras, or call jupyter_ddl.auto(), before anything else of jupyter_ddl.",
        )
    return state


@contextmanager
def replaced(state: RankState | None) -> Iterator[RankState | None]:
    """Let this process be the rank of another state in the block, or none: for tests, which then share nothing."""
    before, _process.state = _process.state, state
    try:
        yield state
    finally:
        _process.state = before
