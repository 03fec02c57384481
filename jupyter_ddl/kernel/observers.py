"""Whom to tell when the ranks of this kernel change, or a run on them begins or ends: nobody, unless a panel looks on.

A listener must return at once: a cell may wait for it.

Runs on: kernel.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.host.threads import print_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.runs.run import Run

    Listener = Callable[[Run | None], None]
    Progress = Callable[[str], None]


@dataclass(frozen=True)
class Starting:
    """Ranks that are being started because somebody asked for it, and what that is at."""

    name: str
    world_size: int
    note: str
    step: str


_listeners: list[Listener] = []
_starting: Starting | None = None


def listen(listener: Listener) -> None:
    """Have `listener` called from here on, in whatever thread; with a run where that has begun or ended."""
    _listeners.append(listener)


def tell(run: Run | None = None) -> None:
    """Tell all listeners that something has changed. What one raises is printed: the cell goes on."""
    for listener in _listeners:
        try:
            listener(run)
        except Exception as error:  # noqa: BLE001  a panel's trouble must not end what follows a cell
            print_error(error)


def starting() -> Starting | None:
    """Return what is being started; None where nothing is."""
    return _starting


@contextmanager
def start_told(spec: ClusterSpec, progress: Progress) -> Iterator[Progress]:
    """Tell of a start while the block goes on; yields what is to be called with a sentence at each step."""

    def step(text: str) -> None:
        global _starting
        _starting = Starting(spec.name, spec.n, spec.note, text)
        tell()
        progress(text)

    try:
        yield step
    finally:
        global _starting
        _starting = None
        tell()
