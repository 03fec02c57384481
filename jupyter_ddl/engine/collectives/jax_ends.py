"""Tells all ranks, by JAX's coordination service, how a cell has ended on each.

JAX computes in the background: where one rank has raised, another one's collective may still wait for it, and would
take the next one of that rank for its own. So the processes serve on only where all ranks have ended a cell well, or
all have raised at the same place.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.collectives import release_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_ENDED = "jupyter_ddl/ended/"
_RAISED = "jupyter_ddl/raised/"
_TELL_S = 1.0


class Ends:
    """How cells have ended on one rank, and on the others.

    Args:
        rank: this one.
        size: how many there are.
    """

    def __init__(self, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size
        self._told = ""

    def tell_raised(self, client: Any, run: str, trace: TracebackType | None) -> None:
        """Tell where a cell has raised here, the first time. Takes a second at most, where the service is frozen."""
        if client is None or self._told == run:
            return
        self._told = run
        arguments = client, f"{_RAISED}{run}/{self._rank}", str(sum(_lines(trace)))
        telling = release_thread.begin(lambda: _set(*arguments), "jupyter_ddl JAX", daemon=True)
        if telling is not None:
            # Before the cell's end is reported: the next one asks.
            telling.join(_TELL_S)

    def tell_ended(self, client: Any) -> None:
        """Tell that this rank's collectives have been ended."""
        if client is not None:
            _set(client, f"{_ENDED}{self._rank}", "")

    def are_apart(self, client: Any, run: str) -> bool:
        """Return whether ranks ended a cell at different places, or one of them was released; the same on all.

        Args:
            client: of the service.
            run: the cell's.
        """
        try:
            if client is None or client.key_value_dir_get(_ENDED):
                return True
            places = [place for _, place in client.key_value_dir_get(f"{_RAISED}{run}/")]
        except RuntimeError:
            # The service has ended.
            return True
        return bool(places) and (len(places) < self._size or len(set(places)) > 1)


def _lines(trace: TracebackType | None) -> Iterator[int]:
    while trace is not None:
        yield trace.tb_lineno
        trace = trace.tb_next


def _set(client: Any, key: str, value: str) -> None:
    # RuntimeError: the service has ended, or this rank has left it.
    with suppress(RuntimeError):
        client.key_value_set(key, value)
